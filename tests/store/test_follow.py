"""Following over a real server: nothing missed, nothing twice, whatever happens to the subscriber connection."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from support.commits import LOG, append, begin, claim, number
from support.proxy import CutProxy, cut_proxy
from support.servers import RedisServer, start_server
from waitpoint.store import (
    Batch,
    Commit,
    Committed,
    Due,
    Feed,
    Fenced,
    Follower,
    Forked,
    Joined,
    RedisStore,
    Replay,
    StoreUnavailable,
)
from waitpoint.store.endpoint import Endpoint
from waitpoint.store.subscriber import Subscriber
from waitpoint_protocol.codes import ResetWhy
from waitpoint_protocol.frames import Cursor

Make = Callable[..., Awaitable[RedisStore]]
Follow = Callable[..., Awaitable[Follower]]


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


class Counting(RedisStore):
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


@pytest.fixture
async def counting(server: RedisServer) -> AsyncIterator[Counting]:
    store = Counting(server.url)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def follow() -> AsyncIterator[Follow]:
    """Start followers; by default one that never checks by itself, so that what is seen was published."""
    async with AsyncExitStack() as stack:

        async def start(store: RedisStore, *, check: float = 3600.0, probe: float = 3600.0) -> Follower:
            follower = Follower(store, check=check, probe=probe)
            await follower.start()
            stack.push_async_callback(follower.stop)
            await until(lambda: follower.healthy, "the follower is healthy")
            return follower

        yield start


async def head_of(store: RedisStore, thread: str) -> int:
    return (await store.head(thread)).seq


# --- joining


async def test_attached_listener_hears_every_batch_in_order(store: RedisStore, follow: Follow, thread: str) -> None:
    await begin(store, thread)
    follower = await follow(store)
    tab = await Tab().attach(follower, thread)
    assert tab.seqs == [1]
    await append(store, thread, 20)
    await until(lambda: len(tab.seqs) == 21, "all batches heard")
    assert tab.whole
    assert tab.feed is not None
    assert tab.feed.head.seq == 21
    assert [batch.body for batch in tab.feed.ring][-1] == number(21)


async def test_empty_thread_is_followed_from_its_first_batch(store: RedisStore, follow: Follow, thread: str) -> None:
    follower = await follow(store)
    tab = await Tab().attach(follower, thread)
    assert tab.feed is not None
    assert tab.feed.head == Cursor(log="", seq=0, tag="")
    await begin(store, thread)
    await append(store, thread, 2)
    await until(lambda: tab.seqs == [1, 2, 3], "the first batches")
    assert tab.resets == []


async def test_200_attaches_make_one_join(counting: Counting, follow: Follow, thread: str) -> None:
    await begin(counting, thread)
    follower = await follow(counting)
    tabs = await asyncio.gather(*(Tab().attach(follower, thread) for _ in range(200)))
    assert counting.joins == 1
    assert all(tab.feed is tabs[0].feed for tab in tabs)
    await append(counting, thread)
    await until(lambda: all(tab.seqs == [1, 2] for tab in tabs), "every tab hears")
    # One that comes later joins what is there.
    late = await Tab().attach(follower, thread)
    assert (counting.joins, late.seqs) == (1, [1, 2])


async def test_batches_committed_while_joining_are_neither_lost_nor_repeated(
    counting: Counting, store: RedisStore, follow: Follow, thread: str
) -> None:
    await begin(store, thread)
    follower = await follow(counting)
    counting.hold = asyncio.Event()
    attaching = asyncio.create_task(Tab().attach(follower, thread))
    await until(lambda: counting.joins == 1, "the join is read")
    await append(store, thread, 5)
    await asyncio.sleep(0.05)
    counting.hold.set()
    tab = await attaching
    await append(store, thread, 2)
    await until(lambda: len(tab.seqs) == 8, "everything heard")
    assert tab.whole
    assert tab.resets == []
    assert (counting.joins, counting.replays) == (1, 0)


async def test_delayed_subscribe_reply_misses_nothing(
    make_store: Make, store: RedisStore, proxy: CutProxy, follow: Follow, thread: str
) -> None:
    await begin(store, thread)
    behind = await make_store(proxy.url)
    follower = await follow(behind)
    proxy.down.delay = 0.3

    stop = asyncio.Event()

    async def stream() -> None:
        while not stop.is_set():
            await append(store, thread)

    streaming = asyncio.create_task(stream())
    tab = await Tab().attach(follower, thread)
    proxy.down.delay = 0.0
    stop.set()
    await streaming
    total = await head_of(store, thread)
    await until(lambda: len(tab.seqs) == total, "everything heard")
    assert tab.whole
    assert tab.resets == []


async def test_subscribe_that_reaches_the_server_late_misses_nothing(
    make_store: Make, store: RedisStore, proxy: CutProxy, follow: Follow, thread: str
) -> None:
    await begin(store, thread)
    direct = await make_store()
    direct.endpoint = Endpoint(proxy.url)  # the subscriber's way is slow, the reader's is not
    follower = await follow(direct)
    proxy.up.delay = 0.3
    attaching = asyncio.create_task(Tab().attach(follower, thread))
    await asyncio.sleep(0.1)  # a join that did not wait for the confirmation would be done by now
    await append(store, thread, 3)
    tab = await attaching
    await until(lambda: len(tab.seqs) == 4, "everything heard")
    assert tab.whole


async def test_batch_that_the_join_has_seen_already_costs_no_further_read(
    counting: Counting, store: RedisStore, follow: Follow, thread: str
) -> None:
    await begin(store, thread)
    follower = await follow(counting)
    counting.hold_before = asyncio.Event()
    attaching = asyncio.create_task(Tab().attach(follower, thread))
    await until(lambda: counting.joins == 1, "subscribed, and about to read")
    await append(store, thread, 5)
    await append(store, thread, checkpoint=b"cp", keep=0)  # none of their tags is left to compare with
    await asyncio.sleep(0.05)
    counting.hold_before.set()
    tab = await attaching
    await append(store, thread)
    await until(lambda: tab.seqs == [8], "live after the checkpoint")
    assert (counting.joins, counting.replays, tab.resets) == (1, 0, [])


async def test_confirmation_of_an_earlier_command_is_not_taken_for_that_of_a_later_one(
    server: RedisServer, proxy: CutProxy
) -> None:
    subscriber = Subscriber(Endpoint(proxy.url), on_message=lambda *_: None, on_gap=lambda: None, probe=3600)
    subscriber.start()
    await until(lambda: subscriber.healthy, "connected")
    await subscriber.subscribe(b"c")
    proxy.up.delay = 0.2
    subscriber.unsubscribe(b"c")
    await asyncio.sleep(0.05)  # sent by now, on its slow way
    await subscriber.subscribe(b"c")
    assert server.run("PUBSUB", "NUMSUB", "c")[1] == 1
    await subscriber.stop()


async def test_attaching_and_detaching_200_tabs_under_load_leaves_nothing_stuck(
    counting: Counting, store: RedisStore, server: RedisServer, follow: Follow, thread: str
) -> None:
    await begin(store, thread)
    follower = await follow(counting)
    stop = asyncio.Event()

    async def stream() -> None:
        while not stop.is_set():
            await append(store, thread)
            await asyncio.sleep(0.002)

    async def come_and_go() -> Tab:
        first = await Tab().attach(follower, thread)
        follower.detach(thread, first)
        return await Tab().attach(follower, thread)

    streaming = asyncio.create_task(stream())
    async with asyncio.timeout(10):
        tabs = await asyncio.gather(*(come_and_go() for _ in range(200)))
    await asyncio.sleep(0.1)
    stop.set()
    await streaming
    total = await head_of(store, thread)
    await until(lambda: all(len(tab.seqs) == total for tab in tabs), "every tab is at the head")
    assert all(tab.whole and not tab.resets for tab in tabs)

    for tab in tabs:
        follower.detach(thread, tab)
    assert follower.threads == 0
    channel = counting.keys.of(thread).channel
    await until(lambda: server.run("PUBSUB", "NUMSUB", channel)[1] == 0, "the channel is left")


async def test_unsubscribe_that_races_an_attach_does_not_lose_the_channel(
    store: RedisStore, follow: Follow, thread: str
) -> None:
    await begin(store, thread)
    follower = await follow(store)
    for n in range(50):
        tab = await Tab().attach(follower, thread)
        await append(store, thread)
        await until(lambda tab=tab, n=n: tab.seqs[-1:] == [n + 2], "the batch after attaching")
        follower.detach(thread, tab)


async def test_detached_listener_hears_no_more_and_others_do(store: RedisStore, follow: Follow, thread: str) -> None:
    await begin(store, thread)
    follower = await follow(store)
    gone, here = await Tab().attach(follower, thread), await Tab().attach(follower, thread)
    follower.detach(thread, gone)
    follower.detach(thread, gone)  # again: nothing
    await append(store, thread)
    await until(lambda: here.seqs == [1, 2], "the other hears")
    assert gone.seqs == [1]


async def test_cancelled_attach_leaves_nothing_behind(
    counting: Counting, store: RedisStore, server: RedisServer, follow: Follow, thread: str
) -> None:
    await begin(store, thread)
    follower = await follow(counting)
    counting.hold = asyncio.Event()
    attaching = asyncio.create_task(Tab().attach(follower, thread))
    await until(lambda: counting.joins == 1, "the join is read")
    attaching.cancel()
    await asyncio.gather(attaching, return_exceptions=True)
    assert follower.threads == 0
    channel = counting.keys.of(thread).channel
    await until(lambda: server.run("PUBSUB", "NUMSUB", channel)[1] == 0, "the channel is left")
    counting.hold.set()
    tab = await Tab().attach(follower, thread)
    assert tab.seqs == [1]


async def test_attach_while_the_store_is_away_fails_and_later_works(
    tmp_path: Path, server: RedisServer, follow: Follow
) -> None:
    with start_server(server.kind, tmp_path) as own:
        store = RedisStore(own.url)
        await store.open()
        follower = await follow(store)
        await begin(store, "t")
        own.kill()
        await until(lambda: not follower.healthy, "deafness is noticed")
        attaching = asyncio.create_task(Tab().attach(follower, "t"))
        await asyncio.sleep(0.05)
        own.start()
        tab = await attaching
        assert tab.seqs == [1]
        await until(lambda: follower.healthy, "health is back")
        await store.close()


async def test_stopped_follower_fails_those_who_attach(
    store: RedisStore, follow: Follow, counting: Counting, thread: str
) -> None:
    follower = await follow(counting)
    counting.hold = asyncio.Event()
    attaching = asyncio.create_task(Tab().attach(follower, thread))
    await until(lambda: counting.joins == 1, "the join is read")
    await follower.stop()
    with pytest.raises(StoreUnavailable):
        await attaching


async def test_stop_that_meets_a_gap_still_stops(store: RedisStore, follow: Follow) -> None:
    follower = await follow(store)
    await asyncio.sleep(0.05)  # the check that follows the first connection is over
    follower._on_gap()
    async with asyncio.timeout(2):
        await follower.stop()


# --- what is missed


async def publish(server: RedisServer, store: RedisStore, thread: str, batch: Batch) -> None:
    head = "\n".join([batch.log, str(batch.seq), str(batch.count), batch.prev, batch.tag])
    await asyncio.to_thread(server.run, "PUBLISH", store.keys.of(thread).channel, head.encode() + b"\n" + batch.body)


async def lose_publishes(server: RedisServer, store: RedisStore, thread: str, count: int = 1) -> None:
    """Commit batches whose publish nobody hears: written as commit.lua does, on another channel."""
    keys = store.keys.of(thread)
    from waitpoint.store.redis import _commit_args
    from waitpoint.store.scripts import script

    for _ in range(count):
        seq = await head_of(store, thread) + 1
        commit = Commit(thread=thread, log=LOG, tag=f"t{seq}", count=1, body=number(seq))
        names = [keys.thread, keys.log, keys.messages, keys.values, keys.outcomes, keys.due, keys.pending]
        await script("commit").run(store._writes, names, _commit_args(commit, b"nobody-listens"))


async def test_lost_publish_is_repaired_by_the_next_one(
    store: RedisStore, server: RedisServer, follow: Follow, thread: str
) -> None:
    await begin(store, thread)
    follower = await follow(store)
    tab = await Tab().attach(follower, thread)
    await lose_publishes(server, store, thread, 3)
    await append(store, thread)
    await until(lambda: len(tab.seqs) == 5, "the gap is filled")
    assert tab.whole
    assert tab.resets == []
    await append(store, thread)
    await until(lambda: len(tab.seqs) == 6, "live again")
    assert tab.whole


async def test_lost_last_publish_is_found_by_the_background_check(
    store: RedisStore, server: RedisServer, follow: Follow, thread: str
) -> None:
    await begin(store, thread)
    follower = await follow(store, check=0.1)
    tab = await Tab().attach(follower, thread)
    await lose_publishes(server, store, thread)
    await until(lambda: tab.seqs == [1, 2], "found with nothing after it", timeout=3)
    assert tab.resets == []


async def test_lost_first_publish_of_an_empty_thread_is_found(
    store: RedisStore, server: RedisServer, follow: Follow, thread: str
) -> None:
    follower = await follow(store, check=0.1)
    tab = await Tab().attach(follower, thread)
    keys = store.keys.of(thread)
    # The thread comes to be while the subscriber is deaf.
    follower._subscriber.unsubscribe(keys.channel)
    await begin(store, thread)
    await until(lambda: tab.seqs == [1], "found", timeout=3)


async def test_killed_subscriber_connection_misses_nothing(
    store: RedisStore, server: RedisServer, follow: Follow, thread: str, caplog: pytest.LogCaptureFixture
) -> None:
    await begin(store, thread)
    follower = await follow(store)
    tab = await Tab().attach(follower, thread)
    stop = asyncio.Event()

    async def stream() -> None:
        while not stop.is_set():
            await append(store, thread)
            await asyncio.sleep(0.001)

    streaming = asyncio.create_task(stream())
    with caplog.at_level(logging.WARNING, "waitpoint"):
        for _ in range(10):
            assert await asyncio.to_thread(server.run, "CLIENT", "KILL", "TYPE", "pubsub") >= 1
            await until(lambda: not follower.healthy, "deafness is noticed")
            await until(lambda: follower.healthy, "rebuilt", timeout=3)
    stop.set()
    await streaming
    total = await head_of(store, thread)
    await until(lambda: len(tab.seqs) == total, "everything heard")
    assert tab.whole
    assert tab.resets == []
    assert "deaf, rebuilding" in caplog.text


async def test_batches_missed_while_the_subscriber_was_away_come_without_a_later_one(
    make_store: Make, store: RedisStore, proxy: CutProxy, follow: Follow, thread: str
) -> None:
    await begin(store, thread)
    behind = await make_store(proxy.url)
    follower = await follow(behind)
    tab = await Tab().attach(follower, thread)
    proxy.refuse = True
    proxy.cut()
    await until(lambda: not follower.healthy, "deafness is noticed")
    await append(store, thread, 3)
    proxy.refuse = False
    await until(lambda: tab.seqs == [1, 2, 3, 4], "caught up after the reconnect")


async def test_silent_subscriber_connection_is_noticed_and_rebuilt(
    make_store: Make, store: RedisStore, proxy: CutProxy, follow: Follow, thread: str
) -> None:
    await begin(store, thread)
    behind = await make_store(proxy.url, timeout=0.3)
    follower = await follow(behind, probe=0.2)
    tab = await Tab().attach(follower, thread)
    proxy.down.freeze()
    await append(store, thread, 2)
    await until(lambda: not follower.healthy, "silence is noticed", timeout=2)
    assert tab.seqs == [1]
    proxy.down.thaw()
    await until(lambda: follower.healthy and tab.seqs == [1, 2, 3], "rebuilt and caught up", timeout=5)


async def test_frozen_server_turns_health_red_until_it_answers(
    tmp_path: Path, server: RedisServer, follow: Follow
) -> None:
    with start_server(server.kind, tmp_path) as own:
        store = RedisStore(own.url, timeout=0.3)
        await store.open()
        follower = await follow(store, probe=0.2)
        await begin(store, "t")
        tab = await Tab().attach(follower, "t")
        own.freeze()
        await until(lambda: not follower.healthy, "silence is noticed", timeout=3)
        own.thaw()
        await until(lambda: follower.healthy, "health is back", timeout=5)
        await append(store, "t")
        await until(lambda: tab.seqs == [1, 2], "live again")
        await store.close()


async def test_idle_follower_keeps_its_connection(
    make_store: Make, store: RedisStore, proxy: CutProxy, follow: Follow, thread: str
) -> None:
    await begin(store, thread)
    behind = await make_store(proxy.url)
    follower = await follow(behind, probe=0.05, check=0.05)
    tab = await Tab().attach(follower, thread)
    accepted = proxy.accepted
    await asyncio.sleep(1.0)
    await append(store, thread)
    await until(lambda: tab.seqs == [1, 2], "heard")
    assert proxy.accepted == accepted


async def test_blocked_loop_is_not_mistaken_for_a_dead_link(
    make_store: Make, store: RedisStore, proxy: CutProxy, follow: Follow, thread: str
) -> None:
    import time

    await begin(store, thread)
    follower = await follow(store, probe=0.1)
    tab = await Tab().attach(follower, thread)
    clients = follower._subscriber
    before = clients._failures
    for _ in range(3):
        time.sleep(0.5)  # noqa: ASYNC251  what a careless tool does to the loop
        await asyncio.sleep(0.02)
    await append(store, thread)
    await until(lambda: tab.seqs == [1, 2], "heard")
    assert follower.healthy
    assert clients._failures == before


async def test_deaf_connection_that_answers_probes_is_replaced(
    store: RedisStore, server: RedisServer, follow: Follow, thread: str
) -> None:
    await begin(store, thread)
    follower = await follow(store, check=0.05, probe=0.2)
    tab = await Tab().attach(follower, thread)
    channel = store.keys.of(thread).channel
    # What a moved slot does: the server forgets the subscription, the connection stays up.
    follower._subscriber._send(b"UNSUBSCRIBE", [channel])
    await until(lambda: server.run("PUBSUB", "NUMSUB", channel)[1] == 0, "deaf")
    for _ in range(40):
        await append(store, thread)
        await asyncio.sleep(0.06)
        if server.run("PUBSUB", "NUMSUB", channel)[1] == 1:
            break
    else:
        raise AssertionError("the deaf connection was not replaced")
    total = await head_of(store, thread)
    await until(lambda: len(tab.seqs) == total, "everything heard")
    assert tab.whole


async def test_channels_are_exactly_right_after_a_kill_in_the_middle_of_resubscribing(
    make_store: Make, store: RedisStore, server: RedisServer, proxy: CutProxy, follow: Follow, thread: str
) -> None:
    behind = await make_store(proxy.url)
    follower = await follow(behind)
    names = [f"{thread}-{n}" for n in range(1500)]
    tabs = await asyncio.gather(*(Tab().attach(follower, name) for name in names))
    proxy.cut()
    await until(lambda: not follower.healthy, "deafness is noticed")
    proxy.down.cut_after = 40_000  # some hundred confirmations into the resubscription
    for tab, name in zip(tabs[1000:], names[1000:], strict=True):
        follower.detach(name, tab)
    await until(lambda: proxy.down.cut_after is None, "cut in the middle")
    await until(lambda: follower.healthy, "rebuilt")

    def heard() -> set[bytes]:
        return set(server.run("PUBSUB", "CHANNELS", f"*{thread}-*"))

    wanted = {behind.keys.of(name).channel for name in names[:1000]}
    await until(lambda: heard() == wanted, "exactly the attached threads' channels")


# --- when the log is not what it was


async def test_fork_is_noticed_by_the_next_batch_and_joined_anew(
    store: RedisStore, server: RedisServer, follow: Follow, thread: str
) -> None:
    await begin(store, thread)
    follower = await follow(store)
    tab = await Tab().attach(follower, thread)
    await append(store, thread, 2)
    await until(lambda: tab.seqs == [1, 2, 3], "heard")

    # A failover that lost positions 2 and 3: the store knows other data there now.
    rewind(server, store, thread, seq=1, tag="t1")
    await append(store, thread, tag="other2")
    await until(lambda: tab.resets == ["forked"], "the fork is noticed")
    assert tab.tags == ["t1", "other2"]
    await append(store, thread)
    await until(lambda: tab.seqs == [1, 2, 3], "live on the new history")
    assert tab.feed is not None
    assert tab.feed.joined.head.tag == "other2"


async def test_fork_that_nobody_writes_to_is_found_by_the_background_check(
    store: RedisStore, server: RedisServer, follow: Follow, thread: str
) -> None:
    await begin(store, thread)
    follower = await follow(store, check=0.1)
    tab = await Tab().attach(follower, thread)
    await append(store, thread, 2)
    await until(lambda: tab.seqs == [1, 2, 3], "heard")
    rewind(server, store, thread, seq=1, tag="t1")
    await until(lambda: tab.resets == ["forked"], "the lost tail is noticed", timeout=3)
    assert tab.seqs == [1]


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


async def test_failover_that_lost_acknowledged_writes_is_a_fork_for_those_who_stayed(
    tmp_path: Path, server: RedisServer, follow: Follow
) -> None:
    with (
        start_server(server.kind, tmp_path / "m", options=["--repl-diskless-sync-delay", "0"]) as master,
        start_server(server.kind, tmp_path / "r", options=["--replicaof", f"127.0.0.1 {master.port}"]) as replica,
    ):
        async with cut_proxy(master.port) as proxy:
            store = RedisStore(proxy.url)
            await store.open()
            follower = await follow(store, check=0.2)
            await begin(store, "t", due=Due(0))
            await append(store, "t", 2)
            tab = await Tab().attach(follower, "t")
            await until(lambda: replica.run("XLEN", store.keys.of("t").log) == 3, "replicated")

            replica.run("REPLICAOF", "NO", "ONE")  # cut off, and later promoted
            await append(store, "t", 3)
            stale = await claim(store, "t", owner="a")
            await until(lambda: tab.seqs == [1, 2, 3, 4, 5, 6], "heard what will be lost")
            old_cursor = tab.feed.head if tab.feed else None
            assert old_cursor is not None
            master.kill()
            proxy.target = ("127.0.0.1", replica.port)
            proxy.cut()

            await until(lambda: tab.resets == ["forked"], "the lost tail is noticed without a new batch")
            assert tab.seqs == [1, 2, 3]
            for seq in (4, 5, 6, 7):
                await append(store, "t", tag=f"new{seq}")
            await until(lambda: tab.seqs == [1, 2, 3, 4, 5, 6, 7], "live on the new history")
            assert tab.resets == ["forked"]
            assert await store.replay("t", old_cursor) == Forked()

            # The driver that claimed on the dead master does not share a fence with the one that claims here.
            fresh = await claim(store, "t", owner="b")
            late = Commit(thread="t", log=LOG, tag="x", fence=stale.head.fence, batch=1, count=1, body=b"[0]")
            assert await store.commit(late) == Fenced(fresh.head.fence)
            await store.close()


async def test_ten_restarts_leave_no_connection_behind(tmp_path: Path, server: RedisServer, follow: Follow) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    with start_server(server.kind, tmp_path) as own:
        store = RedisStore(own.url)
        await store.open()
        follower = await follow(store)
        await begin(store, "t")
        tab = await Tab().attach(follower, "t")
        await append(store, "t")
        before, clients = descriptors(), len(own.run("CLIENT", "LIST").splitlines())
        for _ in range(10):
            own.kill()
            await until(lambda: not follower.healthy, "deafness is noticed")
            own.start()
            await until(lambda: follower.healthy, "back within two seconds", timeout=2)
        await append(store, "t")
        await until(lambda: tab.seqs == [1, 2, 3], "live")
        assert descriptors() <= before
        assert len(own.run("CLIENT", "LIST").splitlines()) <= clients
        await store.close()


async def test_flushed_store_means_log_lost_and_a_new_start(
    tmp_path: Path, server: RedisServer, follow: Follow
) -> None:
    with start_server(server.kind, tmp_path) as own:
        store = RedisStore(own.url)
        await store.open()
        follower = await follow(store, check=0.1)
        await begin(store, "t", log="first")
        await append(store, "t", 3, log="first")
        tab = await Tab().attach(follower, "t")
        own.run("FLUSHALL")
        await until(lambda: tab.resets == ["log-lost"], "the loss is noticed", timeout=3)
        assert tab.seqs == []
        await begin(store, "t", log="second")
        await append(store, "t", 6, log="second")
        await until(lambda: tab.seqs == [1, 2, 3, 4, 5, 6, 7], "the new log from its start")
        assert tab.resets == ["log-lost"]
        await store.close()


async def test_deleted_thread_is_noticed_at_once(store: RedisStore, follow: Follow, thread: str) -> None:
    await begin(store, thread)
    follower = await follow(store)
    tab = await Tab().attach(follower, thread)
    await store.delete(thread)
    await until(lambda: tab.resets == ["log-lost"], "noticed")
    assert tab.seqs == []
    await begin(store, thread, log="again")
    await until(lambda: tab.seqs == [1], "followed again")


async def test_gap_longer_than_the_kept_log_is_gone(
    store: RedisStore, server: RedisServer, follow: Follow, thread: str
) -> None:
    await begin(store, thread)
    follower = await follow(store)
    tab = await Tab().attach(follower, thread)
    await lose_publishes(server, store, thread, 10)
    await append(store, thread, checkpoint=b"cp", keep=2)
    await until(lambda: tab.resets == ["gone"], "noticed")
    assert tab.feed is not None
    assert tab.feed.joined.checkpoint == b"cp"
    assert tab.feed.head.seq == 12


async def test_stray_message_of_a_dead_history_changes_nothing(
    counting: Counting, server: RedisServer, follow: Follow, thread: str
) -> None:
    await begin(counting, thread)
    await append(counting, thread, 3)
    follower = await follow(counting)
    tab = await Tab().attach(follower, thread)
    for stray in (
        Batch(LOG, 2, 1, "t1", "stray", b"[0]"),
        Batch("dead", 5, 1, "t4", "stray", b"[0]"),
        Batch(LOG, 9, 1, "t8", "stray", b"[0]"),
    ):
        before = counting.replays
        await publish(server, counting, thread, stray)
        await until(lambda before=before: counting.replays > before, "the store is asked")
    await append(counting, thread)
    await until(lambda: tab.seqs == [1, 2, 3, 4, 5], "live")
    assert tab.resets == []


async def test_garbage_on_a_channel_is_survived(
    store: RedisStore, server: RedisServer, follow: Follow, thread: str, caplog: pytest.LogCaptureFixture
) -> None:
    await begin(store, thread)
    follower = await follow(store)
    tab = await Tab().attach(follower, thread)
    with caplog.at_level(logging.ERROR):
        for garbage in (b"", b"x", b"a\nb\nc\nd\ne\nf", b"\xff\n1\n1\n\n\n"):
            await asyncio.to_thread(server.run, "PUBLISH", store.keys.of(thread).channel, garbage)
        await append(store, thread)
        await until(lambda: tab.seqs == [1, 2], "live")
    assert follower.healthy


async def test_two_followers_see_one_order_from_two_producers(
    make_store: Make, store: RedisStore, follow: Follow, thread: str
) -> None:
    other = await make_store()
    await begin(store, thread)
    here, there = await follow(store), await follow(other)
    tabs = [await Tab().attach(here, thread), await Tab().attach(there, thread)]

    async def produce(at: RedisStore, name: str) -> None:
        for n in range(200):
            result = await at.commit(Commit(thread=thread, log=LOG, tag=f"{name}{n}", count=2, body=b"[0,0]"))
            assert isinstance(result, Committed)

    await asyncio.gather(produce(store, "a"), produce(other, "b"))
    await until(lambda: all(len(tab.seqs) == 801 for tab in tabs), "everything heard")
    assert all(tab.whole and not tab.resets for tab in tabs)
    assert tabs[0].tags == tabs[1].tags
    stored = await store.replay(thread, Cursor(log="", seq=0, tag=""))
    assert isinstance(stored, Replay)
    assert tabs[0].tags == [batch.tag for batch in stored.batches]
