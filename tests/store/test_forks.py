"""After a failover numbers come again: a mark tells what a decision was made on, a row what its driver had written."""

from __future__ import annotations

from support.commits import append, begin, claim
from support.copies import copy_of
from support.servers import RedisServer
from waitpoint.store import Commit, Committed, Conflict, Due, Fenced, RedisStore


async def test_decision_on_a_lost_history_conflicts_though_the_rev_is_the_same(
    store: RedisStore, server: RedisServer, thread: str
) -> None:
    await begin(store, thread)
    older = copy_of(server)
    await append(store, thread, rev=1, control=b"lost", tag="lost")
    known = await store.head(thread)
    older.put_back(server)
    await append(store, thread, rev=1, control=b"kept", tag="kept")
    now = await store.head(thread)
    assert (now.log, now.seq, now.rev) == (known.log, known.seq, known.rev)
    assert now.mark != known.mark
    decided = Commit(thread=thread, log=known.log, tag="x", rev=known.rev, mark=known.mark, control=b"over lost")
    result = await store.commit(decided)
    assert isinstance(result, Conflict)
    assert result.head.control == b"kept"
    assert result.head.mark == now.mark
    again = Commit(thread=thread, log=known.log, tag="x", rev=now.rev, mark=now.mark, control=b"over kept")
    assert isinstance(await store.commit(again), Committed)


async def test_mark_is_that_of_the_last_commit_that_moved_the_rev(store: RedisStore, thread: str) -> None:
    await begin(store, thread)
    first = (await store.head(thread)).mark
    assert first == "t1"
    await append(store, thread, 3)
    assert (await store.head(thread)).mark == first
    quiet = Commit(thread=thread, log="log-1", tag="quiet", rev=1, mark=first, control=b"c2")
    assert isinstance(await store.commit(quiet), Committed)
    assert (await store.head(thread)).mark == "quiet"


async def test_driver_whose_last_batch_was_lost_is_fenced(store: RedisStore, server: RedisServer, thread: str) -> None:
    await begin(store, thread, due=Due(0))
    fence = (await claim(store, thread)).head.fence
    await append(store, thread, fence=fence, batch=1, tag="b1")
    older = copy_of(server)
    await append(store, thread, fence=fence, batch=2, tag="b2")
    older.put_back(server)
    third = Commit(thread=thread, log="log-1", tag="b3", fence=fence, batch=3, count=1, body=b"[3]")
    # Accepted, it would continue a text whose middle is missing.
    assert isinstance(await store.commit(third), Fenced)
    assert (await store.head(thread)).tag == "b1"
