"""What is known about a command when the link misbehaves: certainly not run, unknown, or refused."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from support.commits import LOG, NOW, append, begin, claim
from support.proxy import CutProxy, cut_proxy
from support.servers import RedisServer, free_port, start_server
from waitpoint.errors import StoreError
from waitpoint.store import Claimed, Commit, Committed, Conflict, RedisStore, StoreUnavailable, UnknownOutcome
from waitpoint.store.endpoint import Endpoint
from waitpoint.store.link import Link

Make = Callable[..., Awaitable[RedisStore]]


@pytest.fixture
async def proxied(make_store: Make, proxy: CutProxy) -> RedisStore:
    """A store behind the cut proxy, with its connections open."""
    store = await make_store(proxy.url, timeout=1.0)
    await store.renew("warm", fence=1, lease=1)
    return store


def cut_the_next_reply(proxy: CutProxy) -> None:
    """Whatever the server says next is not passed on; the connection is reset instead."""
    proxy.down.cut_after = 0


async def test_cut_reply_of_a_commit_is_an_unknown_outcome_and_one_entry(
    store: RedisStore, proxied: RedisStore, proxy: CutProxy, thread: str
) -> None:
    await begin(store, thread)
    commit = Commit(
        thread=thread, log=LOG, tag="x", rev=1, control=b"c2", count=1, body=b"[2]", outcomes={"c:1": b"ack"}
    )
    cut_the_next_reply(proxy)
    with pytest.raises(UnknownOutcome):
        await proxied.commit(commit)

    # It had happened, once. Asking again tells so, and the outcome says by whom.
    head = await store.head(thread)
    assert (head.seq, head.rev, head.tag) == (2, 2, "x")
    assert isinstance(await proxied.commit(commit), Conflict)
    assert await proxied.outcomes(thread, ["c:1"]) == [b"ack"]
    assert (await store.head(thread)).seq == 2


async def test_cut_reply_of_a_drivers_batch_is_settled_by_repeating_it(
    store: RedisStore, proxied: RedisStore, proxy: CutProxy, thread: str
) -> None:
    await begin(store, thread, due=NOW)
    fence = (await claim(store, thread)).head.fence
    commit = Commit(thread=thread, log=LOG, tag="d", fence=fence, batch=1, count=1, body=b"[2]")
    cut_the_next_reply(proxy)
    with pytest.raises(UnknownOutcome):
        await proxied.commit(commit)
    result = await proxied.commit(commit)
    assert isinstance(result, Committed)
    assert (result.repeated, result.seq) == (True, 2)
    assert (await store.head(thread)).seq == 2


async def test_cut_reply_of_a_claim_is_settled_by_the_same_nonce(
    store: RedisStore, proxied: RedisStore, proxy: CutProxy, thread: str
) -> None:
    await begin(store, thread, due=NOW)
    cut_the_next_reply(proxy)
    with pytest.raises(UnknownOutcome):
        await proxied.claim(thread, owner="a", nonce="n", lease=10_000)
    taken = await store.head(thread)
    assert taken.owner == "a"
    again = await proxied.claim(thread, owner="a", nonce="n", lease=10_000)
    assert isinstance(again, Claimed)
    assert (again.head.fence, again.crashes) == (taken.fence, 0)


async def test_reply_cut_in_the_middle_is_lost_and_not_half_read(
    store: RedisStore, proxied: RedisStore, proxy: CutProxy, thread: str
) -> None:
    await begin(store, thread)
    for after in (1, 4, 9, 30):
        await proxied.renew("warm", fence=1, lease=1)  # connected again before the next cut
        proxy.down.cut_after = after
        with pytest.raises(UnknownOutcome):
            await proxied.commit(Commit(thread=thread, log=LOG, tag=f"x{after}", count=1, body=b"[2]"))
    assert (await store.head(thread)).seq == 5
    await append(proxied, thread)
    assert (await store.head(thread)).seq == 6


async def test_request_cut_in_the_middle_is_unknown_and_was_not_run(
    store: RedisStore, proxied: RedisStore, proxy: CutProxy, thread: str
) -> None:
    await begin(store, thread)
    proxy.up.cut_after = 20
    with pytest.raises(UnknownOutcome):
        await proxied.commit(Commit(thread=thread, log=LOG, tag="x", count=1, body=b"[2]"))
    assert (await store.head(thread)).seq == 1


async def test_lost_read_is_unavailable_because_reading_writes_nothing(
    store: RedisStore, proxied: RedisStore, proxy: CutProxy, thread: str
) -> None:
    await begin(store, thread)
    cut_the_next_reply(proxy)
    with pytest.raises(StoreUnavailable):
        await proxied.head(thread)
    assert (await proxied.head(thread)).seq == 1


async def test_silent_store_is_given_up_in_time(
    store: RedisStore, proxied: RedisStore, proxy: CutProxy, thread: str
) -> None:
    await begin(store, thread)
    proxy.down.freeze()
    loop = asyncio.get_running_loop()
    began = loop.time()
    results = await asyncio.gather(
        proxied.commit(Commit(thread=thread, log=LOG, tag="x", count=1, body=b"[2]")),
        proxied.head(thread),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [UnknownOutcome, StoreUnavailable]
    assert loop.time() - began < 4
    proxy.down.thaw()
    assert (await proxied.head(thread)).seq == 2


async def test_blocked_event_loop_is_not_mistaken_for_a_silent_store(make_store: Make, thread: str) -> None:
    import time

    store = await make_store(timeout=0.2)
    await begin(store, thread)
    for n in range(3):
        pending = asyncio.ensure_future(store.commit(Commit(thread=thread, log=LOG, tag=f"x{n}", count=1, body=b"[2]")))
        await asyncio.sleep(0.01 * n)
        time.sleep(0.7)  # noqa: ASYNC251  what a careless tool does to the loop
        assert isinstance(await pending, Committed)


async def test_cancelled_caller_does_not_cross_replies(
    store: RedisStore, proxied: RedisStore, proxy: CutProxy, thread: str
) -> None:
    await begin(store, thread)
    proxy.down.delay = 0.02
    written: list[str] = []

    async def write(n: int) -> None:
        result = await proxied.commit(Commit(thread=thread, log=LOG, tag=f"w{n}", count=1, body=b"[0]"))
        assert isinstance(result, Committed)
        # The reply is this commit's own.
        assert result.tag == f"w{n}"
        written.append(result.tag)

    tasks = [asyncio.create_task(write(n)) for n in range(300)]
    for n, task in enumerate(tasks):
        if n % 3 == 0:
            await asyncio.sleep(0)
            task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(result is None or isinstance(result, asyncio.CancelledError) for result in results)
    stored = {batch.tag for batch in (await store.join(thread, page=1)).batches}
    assert set(written) <= stored
    assert len(written) >= 200


async def test_flushed_scripts_are_sent_again_in_a_burst(store: RedisStore, server: RedisServer, thread: str) -> None:
    await begin(store, thread)

    async def flush() -> None:
        for _ in range(20):
            await asyncio.to_thread(server.run, "SCRIPT", "FLUSH", "SYNC")

    async def write(n: int) -> None:
        result = await store.commit(Commit(thread=thread, log=LOG, tag=f"w{n}", count=1, body=b"[0]"))
        assert isinstance(result, Committed)

    async def writes() -> None:
        for n in range(0, 400, 20):
            await asyncio.gather(*(write(n + k) for k in range(20)))

    await asyncio.gather(flush(), writes())
    assert (await store.head(thread)).seq == 401


async def test_store_that_is_not_there_is_unavailable_and_named() -> None:
    port = free_port()
    store = RedisStore(f"redis://user:sesame@127.0.0.1:{port}/0?ssl_password=hush")
    with pytest.raises(StoreUnavailable) as caught:
        await store.open()
    assert f"redis://127.0.0.1:{port}/0" in str(caught.value)
    assert "WAITPOINT_REDIS_URL" in str(caught.value)
    for secret in ("sesame", "user", "hush"):
        assert secret not in str(caught.value)
    with pytest.raises(StoreUnavailable):
        await store.commit(Commit(thread="t", log=LOG, tag="x", count=1, body=b"[0]"))
    await store.close()


async def test_store_that_accepts_and_says_nothing_is_unavailable_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        store = RedisStore(f"redis://127.0.0.1:{silent.getsockname()[1]}/1", timeout=0.5)
        async with asyncio.timeout(5):
            with pytest.raises(StoreUnavailable):
                await store.open()
        await store.close()


async def test_closed_store_is_unavailable(make_store: Make, thread: str) -> None:
    store = await make_store()
    await store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.head(thread)


async def test_store_recovers_by_itself_after_a_restart(tmp_path: Path, server: RedisServer) -> None:
    with start_server(server.kind, tmp_path) as own:
        store = RedisStore(own.url)
        await store.open()
        await begin(store, "t", due=NOW)
        own.kill()
        with pytest.raises((StoreUnavailable, UnknownOutcome)):
            await store.commit(Commit(thread="t", log=LOG, tag="x", count=1, body=b"[0]"))
        with pytest.raises(StoreUnavailable):
            await store.head("t")
        own.start()
        # At once: nothing here waits out a back-off.
        await append(store, "t")
        assert (await store.head("t")).seq == 2
        assert await store.due(limit=5) == ["t"]
        await store.close()


async def test_idle_connection_that_the_server_dropped_is_replaced_unnoticed(
    store: RedisStore, server: RedisServer, thread: str
) -> None:
    await begin(store, thread)
    for _ in range(3):
        server.run("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await asyncio.sleep(0.05)  # let the end of the old connection arrive
        await append(store, thread)
    assert (await store.head(thread)).seq == 4


async def test_full_store_refuses_writes_and_serves_reads(tmp_path: Path, server: RedisServer) -> None:
    with start_server(server.kind, tmp_path) as own:
        store = RedisStore(own.url)
        await store.open()
        await begin(store, "t", due=NOW)
        own.run("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(StoreUnavailable, match="OOM"):
            await store.commit(Commit(thread="t", log=LOG, tag="x", rev=1, control=b"c", count=1, body=b"[0]"))
        head = await store.head("t")
        assert (head.seq, head.rev) == (1, 1)
        own.run("CONFIG", "SET", "maxmemory", "0")
        await append(store, "t", rev=1, control=b"c2")
        await store.close()


async def test_demoted_master_is_unavailable_and_its_connections_are_given_up(
    tmp_path: Path, server: RedisServer
) -> None:
    with start_server(server.kind, tmp_path) as own:
        async with cut_proxy(own.port) as proxy:
            store = RedisStore(proxy.url)
            await store.open()
            await begin(store, "t")
            connections = proxy.accepted
            own.run("REPLICAOF", "127.0.0.1", str(free_port()))
            with pytest.raises(StoreUnavailable, match=r"READONLY|MASTERDOWN"):
                await store.commit(Commit(thread="t", log=LOG, tag="x", count=1, body=b"[0]"))
            own.run("REPLICAOF", "NO", "ONE")
            # Both ask for the address anew: by now it may lead to the new master.
            await append(store, "t")
            assert (await store.head("t")).seq == 2
            assert proxy.accepted == connections + 2
            await store.close()


async def test_damaged_key_is_a_store_error_with_the_reason(
    store: RedisStore, server: RedisServer, thread: str
) -> None:
    server.client().set(store.keys.of(thread).thread, "not a hash")
    with pytest.raises(StoreError, match="WRONGTYPE"):
        await store.head(thread)


async def test_link_bounds_what_waits(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waitpoint.store.link.MAX_WAITING", 10)
    link = Link(Endpoint(server.url))
    futures = [link.send("PING") for _ in range(10)]
    with pytest.raises(StoreUnavailable, match="wait for the store"):
        link.send("PING")
    assert await asyncio.gather(*futures) == [b"PONG"] * 10
    await link.close()


async def test_closing_settles_everybody(server: RedisServer, proxy: CutProxy) -> None:
    proxy.down.freeze()
    link = Link(Endpoint(proxy.url), timeout=30)
    waiting = [link.send("PING") for _ in range(3)]
    await asyncio.sleep(0.05)
    await link.close()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(result, (StoreUnavailable, UnknownOutcome)) for result in results)
