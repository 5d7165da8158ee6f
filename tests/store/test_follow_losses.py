"""Whatever happens to the subscriber connection, every batch arrives once and in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from support.commits import append, begin
from support.following import Tab, head_of, lose_publishes, until
from support.proxy import CutProxy
from support.servers import RedisServer, start_server
from waitpoint.store import (
    Follower,
    RedisStore,
)

Make = Callable[..., Awaitable[RedisStore]]
Follow = Callable[..., Awaitable[Follower]]


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
