"""Where the store is: a URL becomes connections, and a name that may be shown to people.

Knows redis-py's connection classes (they do TLS, AUTH, SELECT). Every retry of theirs is off: whether a command may be
sent twice is decided by its meaning, which a connection cannot know.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

from redis.asyncio.connection import Connection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from ..errors import ConfigurationError

__all__ = ["Endpoint", "Wire", "send"]

# Options of redis-py's pool and client that a URL may carry; a bare connection does not know them.
_NOT_FOR_CONNECTIONS = ("max_connections", "timeout", "retry_on_timeout", "retry_on_error", "socket_timeout")


class Wire(Protocol):
    """The part of a redis-py connection that is used here."""

    async def connect(self) -> None: ...
    async def disconnect(self, nowait: bool = ...) -> None: ...
    async def send_packed_command(self, command: Iterable[bytes], check_health: bool = ...) -> None: ...
    async def read_response(self, disable_decoding: bool = ...) -> Any: ...


async def send(wire: Wire, packed: Iterable[bytes]) -> None:
    """Send commands. A connection that is gone raises ``ConnectionError``, whatever the event loop calls it."""
    try:
        await wire.send_packed_command(packed, check_health=False)
    except RuntimeError as error:
        # uvloop says so when the transport was closed under the writer.
        raise ConnectionError(str(error)) from None


class Endpoint:
    """A Redis or Valkey named by a ``redis://``, ``rediss://`` or ``unix://`` URL.

    ``str(endpoint)`` is the URL without its secrets.
    """

    def __init__(self, url: str, *, connect_timeout: float = 3.0) -> None:
        try:
            options: dict[str, Any] = dict(parse_url(url))
        except ValueError as error:
            raise ConfigurationError(f"{_public(url)} is not a store's URL: {error}") from None
        self._public = _public(url)
        self._class: Any = options.pop("connection_class", Connection)
        for name in _NOT_FOR_CONNECTIONS:
            options.pop(name, None)
        options.setdefault("socket_connect_timeout", connect_timeout)
        if "path" not in options:
            options.setdefault("socket_keepalive", True)
        options.update(
            protocol=2,
            decode_responses=False,
            health_check_interval=0,
            socket_timeout=None,
            retry=Retry(NoBackoff(), 0),
        )
        self._options = options

    def make(self) -> Wire:
        """A new connection, not connected yet."""
        return cast(Wire, self._class(**self._options))

    def __str__(self) -> str:
        return self._public


def _public(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return f"unix://{parts.path}"
    # Query options may carry secrets too; host, port and database are enough to find the server.
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"
