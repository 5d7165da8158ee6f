"""Joining a live thread over a real server: nothing missed, nothing twice, one join for many."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from support.commits import append, begin, number
from support.following import CountingStore, Tab, head_of, until
from support.proxy import CutProxy
from support.servers import RedisServer, start_server
from waitpoint.store import (
    Follower,
    RedisStore,
    StoreUnavailable,
)
from waitpoint.store.endpoint import Endpoint
from waitpoint.store.subscriber import Subscriber
from waitpoint_protocol.frames import Cursor

Make = Callable[..., Awaitable[RedisStore]]
Follow = Callable[..., Awaitable[Follower]]


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


async def test_200_attaches_make_one_join(counting: CountingStore, follow: Follow, thread: str) -> None:
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
    counting: CountingStore, store: RedisStore, follow: Follow, thread: str
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
    counting: CountingStore, store: RedisStore, follow: Follow, thread: str
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
    counting: CountingStore, store: RedisStore, server: RedisServer, follow: Follow, thread: str
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
    counting: CountingStore, store: RedisStore, server: RedisServer, follow: Follow, thread: str
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
    store: RedisStore, follow: Follow, counting: CountingStore, thread: str
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
