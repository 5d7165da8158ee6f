"""When the log is not what it was: forked, lost, deleted, trimmed away; and messages that mean nothing."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from support.commits import LOG, append, begin, claim
from support.following import CountingStore, Tab, lose_publishes, publish, rewind, until
from support.proxy import cut_proxy
from support.servers import RedisServer, start_server
from waitpoint.store import (
    Batch,
    Commit,
    Committed,
    Due,
    Fenced,
    Follower,
    Forked,
    RedisStore,
    Replay,
)
from waitpoint_protocol.frames import Cursor

Make = Callable[..., Awaitable[RedisStore]]
Follow = Callable[..., Awaitable[Follower]]


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
    counting: CountingStore, server: RedisServer, follow: Follow, thread: str
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
