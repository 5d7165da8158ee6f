"""Short ways to write a thread through a real store."""

from __future__ import annotations

import secrets
from typing import Any

from waitpoint.store import Claimed, Commit, Committed, Due, RedisStore

__all__ = ["append", "begin", "claim", "number"]

LOG = "log-1"


def number(value: int) -> bytes:
    """A batch body that says which one it is."""
    return f"[{value}]".encode()


async def begin(store: RedisStore, thread: str, *, log: str = LOG, **fields: Any) -> Committed:
    """Make a thread whose log has one batch of one event (tag ``t1``, body ``[1]``)."""
    given = {"tag": "t1", "count": 1, "body": number(1), "rev": 0, "control": b"c1", **fields}
    result = await store.commit(Commit(thread=thread, log="", new_log=log, **given))
    assert isinstance(result, Committed), result
    return result


async def append(store: RedisStore, thread: str, count: int = 1, *, log: str = LOG, **fields: Any) -> Committed:
    """Append ``count`` batches of one event each; the body is the position, the tag is ``t<position>``."""
    result: Any = None
    for _ in range(count):
        seq = (await store.head(thread)).seq + 1
        given = {"tag": f"t{seq}", "count": 1, "body": number(seq), **fields}
        result = await store.commit(Commit(thread=thread, log=log, **given))
        assert isinstance(result, Committed), result
    assert isinstance(result, Committed)
    return result


async def claim(store: RedisStore, thread: str, *, owner: str = "a", lease: int = 10_000, nonce: str = "") -> Claimed:
    """Claim a thread that is due."""
    result = await store.claim(thread, owner=owner, nonce=nonce or secrets.token_hex(4), lease=lease)
    assert isinstance(result, Claimed), result
    return result


NOW = Due(0)
NEVER = Due(None)
