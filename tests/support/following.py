"""Listeners and a store for tests that follow threads: what a tab knows, and how to wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from support.commits import LOG, number
from support.servers import RedisServer
from waitpoint.store import Batch, Commit, Feed, Follower, Joined, RedisStore
from waitpoint.store.redis import _commit_args
from waitpoint.store.scripts import script
from waitpoint_protocol.codes import ResetWhy
from waitpoint_protocol.frames import Cursor

__all__ = ["CountingStore", "Tab", "head_of", "lose_publishes", "publish", "rewind", "until"]


class Tab:
    """A listener that keeps what it knows: position by position, in order, and why it was reset."""

    def __init__(self) -> None:
        self.feed: Feed | None = None
        self.seqs: list[int] = []
        self.tags: list[str] = []
        self.resets: list[ResetWhy] = []

    async def attach(self, follower: Follower, thread: str) -> Tab:
        self.feed = await follower.attach(thread, self)
        self._start(self.feed)
        return self

    def _start(self, feed: Feed) -> None:
        batches = list(feed.ring)
        self.seqs = [seq for batch in batches for seq in range(batch.seq, batch.last + 1)]
        self.tags = [batch.tag for batch in batches]

    def on_batch(self, batch: Batch) -> None:
        self.seqs += range(batch.seq, batch.last + 1)
        self.tags.append(batch.tag)

    def on_reset(self, why: ResetWhy) -> None:
        assert self.feed is not None
        self.resets.append(why)
        self._start(self.feed)

    @property
    def whole(self) -> bool:
        return self.seqs == list(range(1, len(self.seqs) + 1))


class CountingStore(RedisStore):
    """A real store that counts what it is asked for, and can be held up."""

    joins = 0
    replays = 0
    hold: asyncio.Event | None = None
    hold_before: asyncio.Event | None = None

    async def join(self, thread: str, *, page: int) -> Joined:
        self.joins += 1
        if self.hold_before is not None:
            await self.hold_before.wait()
        joined = await super().join(thread, page=page)
        if self.hold is not None:
            await self.hold.wait()
        return joined

    async def replay(self, thread: str, cursor: Cursor, *, limit: int = 10_000) -> Any:
        self.replays += 1
        return await super().replay(thread, cursor, limit=limit)


async def until(condition: Callable[[], bool], what: str, timeout: float = 10.0) -> None:
    try:
        async with asyncio.timeout(timeout):
            while not condition():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"not within {timeout:g} s: {what}") from None


async def head_of(store: RedisStore, thread: str) -> int:
    return (await store.head(thread)).seq


async def publish(server: RedisServer, store: RedisStore, thread: str, batch: Batch) -> None:
    head = "\n".join([batch.log, str(batch.seq), str(batch.count), batch.prev, batch.tag])
    await asyncio.to_thread(server.run, "PUBLISH", store.keys.of(thread).channel, head.encode() + b"\n" + batch.body)


async def lose_publishes(server: RedisServer, store: RedisStore, thread: str, count: int = 1) -> None:
    """Commit batches whose publish nobody hears: written as commit.lua does, on another channel."""
    keys = store.keys.of(thread)
    for _ in range(count):
        seq = await head_of(store, thread) + 1
        commit = Commit(thread=thread, log=LOG, tag=f"t{seq}", count=1, body=number(seq))
        names = [keys.thread, keys.log, keys.messages, keys.values, keys.outcomes, keys.due, keys.pending]
        await script("commit").run(store._writes, names, _commit_args(commit, b"nobody-listens"))


def rewind(server: RedisServer, store: RedisStore, thread: str, *, seq: int, tag: str) -> None:
    """Bring the store to the state of an older copy of itself."""
    keys = store.keys.of(thread)
    body, fields = server.client().dump(keys.thread), server.client().hgetall(keys.thread)
    assert body
    assert fields
    client = server.client()
    entries = client.xrange(keys.log, "-", str(seq))
    client.delete(keys.log)
    for entry_id, values in entries:
        client.xadd(keys.log, values, id=entry_id)
    client.hset(keys.thread, mapping={"seq": seq, "tag": tag})
