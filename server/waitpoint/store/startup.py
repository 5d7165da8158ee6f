"""The check before a store is used: what would lose data is refused, what might is said.

Knows the server's own description of itself (INFO), not what is stored in it. A managed server may forbid CONFIG, so
nothing here needs it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from redis.exceptions import RedisError

from ..errors import StoreRefused
from .keys import META
from .link import Link

__all__ = ["FORMAT", "MINIMUM_VERSION", "check", "parse_info"]

logger = logging.getLogger(__name__)

MINIMUM_VERSION = (7, 0)

FORMAT = 1
"""Version of what the keys hold."""


def parse_info(text: str) -> dict[str, str]:
    """The fields of an INFO reply."""
    lines = (line.partition(":") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: value for name, _, value in lines}


async def check(link: Link, name: str, partitions: int) -> None:
    """Raise :class:`StoreRefused` if the store at ``link`` must not be used; warn about what may surprise."""
    try:
        server, memory, persistence = [
            parse_info(bytes(reply).decode())
            for reply in await link.calls((b"INFO", section) for section in ("server", "memory", "persistence"))
        ]
    except RedisError as error:
        raise StoreRefused(f"the store at {name} does not answer INFO: {error}") from None
    _check_version(server, name)
    policy = memory.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise StoreRefused(
            f"the store at {name} may evict keys (maxmemory-policy {policy}), which would tear threads apart; "
            "set maxmemory-policy to noeviction"
        )
    if persistence.get("aof_enabled", "1") == "0":
        logger.warning(
            "the store at %s keeps no append-only file: what was acknowledged since its last snapshot is lost when it "
            "stops; set appendonly yes",
            name,
        )
    await _check_layout(link, name, partitions)


def _check_version(server: Mapping[str, str], name: str) -> None:
    text = server.get("redis_version", "0")
    version = tuple(int(part) for part in text.split(".")[:2] if part.isdigit())
    if version < MINIMUM_VERSION:
        wanted = ".".join(map(str, MINIMUM_VERSION))
        raise StoreRefused(f"the store at {name} is Redis {text}; Waitpoint needs {wanted} or newer, or Valkey")


async def _check_layout(link: Link, name: str, partitions: int) -> None:
    try:
        _, _, found, form = await link.calls(
            [
                (b"HSETNX", META, b"partitions", partitions),
                (b"HSETNX", META, b"format", FORMAT),
                (b"HGET", META, b"partitions"),
                (b"HGET", META, b"format"),
            ]
        )
    except RedisError as error:
        raise StoreRefused(f"the store at {name} cannot be written to: {error}") from None
    if int(form) != FORMAT:
        raise StoreRefused(f"the store at {name} has format {int(form)}; this version of Waitpoint reads {FORMAT}")
    if int(found) != partitions:
        raise StoreRefused(
            f"the store at {name} was first used with {int(found)} partitions, not {partitions}; "
            f"set WAITPOINT_PARTITIONS={int(found)}"
        )
