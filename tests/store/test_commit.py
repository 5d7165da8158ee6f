"""Every guard of a commit, and everything that it writes."""

from __future__ import annotations

import pytest

from support.commits import LOG, NEVER, NOW, append, begin, claim, number
from support.servers import RedisServer
from waitpoint.errors import StoreError
from waitpoint.store import Commit, Committed, Conflict, Due, Fenced, Known, RedisStore


async def test_first_commit_makes_the_thread_at_position_one(store: RedisStore, thread: str) -> None:
    before = await store.head(thread)
    assert (before.log, before.seq, before.rev, before.control) == ("", 0, 0, b"")

    result = await store.commit(
        Commit(thread=thread, log="", new_log="L1", tag="a", rev=0, control=b"state", count=3, body=b"[1,2,3]")
    )

    assert isinstance(result, Committed)
    assert (result.log, result.seq, result.count, result.prev, result.tag, result.rev) == ("L1", 1, 3, "", "a", 1)
    head = await store.head(thread)
    assert (head.log, head.seq, head.tag, head.rev, head.control) == ("L1", 3, "a", 1, b"state")
    assert (head.fence, head.owner, head.lease_until) == (0, "", 0)


async def test_second_maker_of_a_thread_gets_the_head_that_won(store: RedisStore, thread: str) -> None:
    await begin(store, thread, log="winner", control=b"won")
    result = await store.commit(Commit(thread=thread, log="", new_log="loser", tag="b", rev=0, control=b"lost"))
    assert isinstance(result, Conflict)
    assert (result.head.log, result.head.control, result.head.rev) == ("winner", b"won", 1)


async def test_conflict_on_rev_carries_the_present_control_state_and_writes_nothing(
    store: RedisStore, thread: str
) -> None:
    await begin(store, thread)
    await append(store, thread, rev=1, control=b"c2")

    result = await store.commit(
        Commit(
            thread=thread,
            log=LOG,
            tag="late",
            rev=1,
            control=b"mine",
            count=1,
            body=b"[9]",
            outcomes={"o": b"x"},
            puts={"v": b"x"},
            messages=[b"m"],
            checkpoint=b"cp",
            due=NOW,
            pending={"p": b"x"},
        )
    )

    assert isinstance(result, Conflict)
    assert (result.head.rev, result.head.control, result.head.seq) == (2, b"c2", 2)
    joined = await store.join(thread, page=10)
    assert [batch.tag for batch in joined.batches] == ["t1", "t2"]
    assert joined.checkpoint == b""
    assert await store.outcomes(thread, ["o"]) == [None]
    assert await store.values(thread, ["v"]) == [None]
    assert await store.messages(thread, before=10, limit=10) == (0, [])
    assert thread not in await store.due(limit=1000)
    assert "p" not in dict(await store.pending())


async def test_commit_on_another_log_conflicts(store: RedisStore, thread: str) -> None:
    await begin(store, thread)
    result = await store.commit(Commit(thread=thread, log="other", tag="x", count=1, body=b"[0]"))
    assert isinstance(result, Conflict)
    assert result.head.log == LOG


async def test_appending_without_control_leaves_rev_alone(store: RedisStore, thread: str) -> None:
    await begin(store, thread)
    result = await append(store, thread, 3)
    assert (result.seq, result.rev) == (4, 1)
    # A decision made before those events is still good.
    decided = await append(store, thread, rev=1, control=b"c2")
    assert (decided.seq, decided.rev) == (5, 2)


async def test_rev_guards_a_commit_without_control(store: RedisStore, thread: str) -> None:
    await begin(store, thread)
    await append(store, thread, rev=1, control=b"c2")
    stale = await store.commit(Commit(thread=thread, log=LOG, tag="x", rev=1, count=1, body=b"[0]", checkpoint=b"cp"))
    assert isinstance(stale, Conflict)
    fresh = await store.commit(Commit(thread=thread, log=LOG, tag="x", rev=2, count=1, body=b"[0]", checkpoint=b"cp"))
    assert isinstance(fresh, Committed)
    assert fresh.rev == 2


async def test_commit_without_events_moves_the_state_and_not_the_log(store: RedisStore, thread: str) -> None:
    await begin(store, thread)
    result = await store.commit(Commit(thread=thread, log=LOG, tag="unused", rev=1, control=b"c2"))
    assert isinstance(result, Committed)
    assert (result.count, result.rev, result.tag) == (0, 2, "t1")
    assert result.seq + result.count - 1 == 1
    head = await store.head(thread)
    assert (head.seq, head.tag, head.control) == (1, "t1", b"c2")
    assert len((await store.join(thread, page=1)).batches) == 1


async def test_outcome_that_is_there_already_wins(store: RedisStore, thread: str) -> None:
    await begin(store, thread, outcomes={"a:1": b"first", "c:1": b"ack"})
    result = await store.commit(
        Commit(
            thread=thread,
            log=LOG,
            tag="x",
            rev=1,
            control=b"c2",
            count=1,
            body=b"[0]",
            outcomes={"n": b"", "a:1": b"2"},
        )
    )
    assert result == Known("a:1", b"first")
    assert (await store.head(thread)).seq == 1
    assert await store.outcomes(thread, ["a:1", "n", "c:1"]) == [b"first", None, b"ack"]


async def test_an_empty_outcome_counts_as_there(store: RedisStore, thread: str) -> None:
    await begin(store, thread, outcomes={"a": b""})
    result = await store.commit(Commit(thread=thread, log=LOG, tag="x", rev=1, control=b"c", outcomes={"a": b"2"}))
    assert result == Known("a", b"")


async def test_values_are_put_and_dropped(store: RedisStore, thread: str) -> None:
    body = bytes(range(256)) * 4
    await begin(store, thread, puts={"in": body, "step": b"1"})
    assert await store.values(thread, ["step", "none", "in"]) == [b"1", None, body]
    await append(store, thread, drops=["in", "never"], puts={"step": b"2"})
    assert await store.values(thread, ["in", "step"]) == [None, b"2"]
    assert await store.values(thread, []) == []


async def test_pending_index_spans_threads(store: RedisStore, thread: str) -> None:
    await begin(store, thread, pending={f"{thread}-1": b"one", f"{thread}-2": b"two"})
    await begin(store, f"{thread}-other", pending={f"{thread}-3": b"three"})
    mine = {name: value for name, value in await store.pending() if name.startswith(thread)}
    assert mine == {f"{thread}-1": b"one", f"{thread}-2": b"two", f"{thread}-3": b"three"}
    await append(store, thread, pending={f"{thread}-1": None})
    assert f"{thread}-1" not in dict(await store.pending())


async def test_finished_messages_are_read_by_position(store: RedisStore, thread: str) -> None:
    await begin(store, thread, messages=[b"m0", b"m1", b"m2"])
    await append(store, thread, messages=[b"m3", b"m4"])
    assert await store.messages(thread, before=5, limit=2) == (3, [b"m3", b"m4"])
    assert await store.messages(thread, before=3, limit=2) == (1, [b"m1", b"m2"])
    assert await store.messages(thread, before=1, limit=5) == (0, [b"m0"])
    assert await store.messages(thread, before=0, limit=5) == (0, [])
    assert await store.messages(thread, before=1000, limit=2) == (3, [b"m3", b"m4"])
    assert await store.messages(f"{thread}-none", before=9, limit=2) == (0, [])


# --- drivers


async def test_driver_writes_under_its_fence(store: RedisStore, thread: str) -> None:
    await begin(store, thread, due=NOW)
    fence = (await claim(store, thread)).head.fence
    result = await store.commit(Commit(thread=thread, log=LOG, tag="d", fence=fence, batch=1, count=1, body=b"[2]"))
    assert isinstance(result, Committed)
    assert (result.seq, result.repeated) == (2, False)


async def test_writer_without_the_lease_is_fenced(store: RedisStore, thread: str) -> None:
    await begin(store, thread, due=NOW)
    fence = (await claim(store, thread)).head.fence
    for wrong in (fence - 1, fence + 1, 0):
        result = await store.commit(Commit(thread=thread, log=LOG, tag="d", fence=wrong, batch=1, count=1, body=b"[2]"))
        assert result == Fenced(fence)
    assert (await store.head(thread)).seq == 1


async def test_driver_of_another_log_is_fenced_even_with_the_same_fence(store: RedisStore, thread: str) -> None:
    await begin(store, thread, due=NOW)
    fence = (await claim(store, thread)).head.fence
    result = await store.commit(Commit(thread=thread, log="older", tag="d", fence=fence, batch=1, count=1, body=b"[2]"))
    assert isinstance(result, Fenced)


async def test_driver_of_a_thread_that_is_gone_is_fenced_and_nothing_comes_back(
    store: RedisStore, server: RedisServer, thread: str
) -> None:
    await begin(store, thread, due=NOW, pending={f"{thread}-p": b"x"}, messages=[b"m"], puts={"v": b"1"})
    fence = (await claim(store, thread)).head.fence
    assert await store.delete(thread, pending=[f"{thread}-p"]) is True

    late = Commit(thread=thread, log=LOG, tag="d", fence=fence, batch=1, count=1, body=b"[2]", messages=[b"m"], due=NOW)
    assert isinstance(await store.commit(late), Fenced)
    assert await store.renew(thread, fence=fence, lease=1000) is False
    assert await store.release(thread, fence=fence, rev=1, due=NOW) is None
    assert server.client().keys(f"*{thread}*") == []
    assert thread not in await store.due(limit=1000)
    assert f"{thread}-p" not in dict(await store.pending())
    assert await store.delete(thread) is False


async def test_repeated_batch_number_returns_the_first_result_and_writes_once(store: RedisStore, thread: str) -> None:
    await begin(store, thread, due=NOW)
    fence = (await claim(store, thread)).head.fence
    commit = Commit(
        thread=thread,
        log=LOG,
        tag="d",
        fence=fence,
        batch=1,
        rev=1,
        control=b"c2",
        count=2,
        body=b"[2,3]",
        messages=[b"m"],
    )
    first = await store.commit(commit)
    assert isinstance(first, Committed)
    # Somebody else writes in between: the first result must still be the answer, with the rev it had.
    await append(store, thread, rev=2, control=b"c3")

    again = await store.commit(commit)

    assert isinstance(again, Committed)
    assert again.repeated
    assert (again.log, again.seq, again.count, again.prev, again.tag, again.rev) == (
        first.log,
        first.seq,
        first.count,
        first.prev,
        first.tag,
        first.rev,
    )
    assert (await store.head(thread)).seq == 4
    assert await store.messages(thread, before=9, limit=9) == (0, [b"m"])


async def test_repeat_of_a_commit_without_tag_before_it_keeps_every_field(store: RedisStore, thread: str) -> None:
    # prev is empty here, which must not shift the stored result's fields.
    result = await store.commit(Commit(thread=thread, log="", new_log=LOG, tag="", rev=0, control=b"c", due=NOW))
    assert isinstance(result, Committed)
    fence = (await claim(store, thread)).head.fence
    commit = Commit(thread=thread, log=LOG, tag="d", fence=fence, batch=1, count=1, body=b"[1]")
    first, again = await store.commit(commit), await store.commit(commit)
    assert isinstance(first, Committed)
    assert isinstance(again, Committed)
    assert (again.prev, again.tag, again.seq, again.repeated) == ("", "d", 1, True)


async def test_conflict_does_not_use_up_the_batch_number(store: RedisStore, thread: str) -> None:
    await begin(store, thread, due=NOW)
    fence = (await claim(store, thread)).head.fence
    await append(store, thread, rev=1, control=b"c2")
    stale = Commit(thread=thread, log=LOG, tag="d", fence=fence, batch=1, rev=1, control=b"x", count=1, body=b"[3]")
    assert isinstance(await store.commit(stale), Conflict)
    fresh = Commit(thread=thread, log=LOG, tag="e", fence=fence, batch=1, rev=2, control=b"x", count=1, body=b"[3]")
    result = await store.commit(fresh)
    assert isinstance(result, Committed)
    assert (result.repeated, result.tag) == (False, "e")


async def test_older_batch_number_is_an_error_and_writes_nothing(store: RedisStore, thread: str) -> None:
    await begin(store, thread, due=NOW)
    fence = (await claim(store, thread)).head.fence
    for batch in (1, 2):
        await store.commit(
            Commit(thread=thread, log=LOG, tag=f"d{batch}", fence=fence, batch=batch, count=1, body=b"[0]")
        )
    with pytest.raises(StoreError, match="number 1 after 2"):
        await store.commit(Commit(thread=thread, log=LOG, tag="d1", fence=fence, batch=1, count=1, body=b"[0]"))
    assert (await store.head(thread)).seq == 3


async def test_new_fence_counts_batches_from_one_again(store: RedisStore, thread: str) -> None:
    await begin(store, thread, due=NOW)
    for _ in range(2):
        fence = (await claim(store, thread)).head.fence
        result = await store.commit(
            Commit(thread=thread, log=LOG, tag="d", fence=fence, batch=1, count=1, body=b"[0]", release=True, due=NOW)
        )
        assert isinstance(result, Committed)
        assert not result.repeated
    assert (await store.head(thread)).seq == 3


async def test_release_in_a_commit_frees_the_lease_and_a_repeat_is_still_answered(
    store: RedisStore, thread: str
) -> None:
    await begin(store, thread, due=NOW)
    fence = (await claim(store, thread)).head.fence
    last = Commit(thread=thread, log=LOG, tag="d", fence=fence, batch=1, count=1, body=b"[2]", release=True, due=NEVER)
    assert isinstance(await store.commit(last), Committed)
    head = await store.head(thread)
    assert (head.owner, head.lease_until) == ("", 0)
    assert thread not in await store.due(limit=1000)

    again = await store.commit(last)
    assert isinstance(again, Committed)
    assert again.repeated
    # What follows a released lease is not this driver's business any more.
    more = Commit(thread=thread, log=LOG, tag="e", fence=fence, batch=2, count=1, body=b"[3]")
    assert await store.commit(more) == Fenced(fence)
    assert (await store.head(thread)).seq == 2


async def test_due_is_set_removed_and_left_alone(store: RedisStore, server: RedisServer, thread: str) -> None:
    def score() -> float | None:
        return server.client().zscore(store.keys.of(thread).due, thread)  # type: ignore[return-value]

    await begin(store, thread, due=Due(4_000_000_000_000))
    assert score() == 4_000_000_000_000
    assert thread not in await store.due(limit=1000)
    await append(store, thread)
    assert score() == 4_000_000_000_000
    result = await append(store, thread, due=NOW)
    assert score() == result.now
    assert thread in await store.due(limit=1000)
    await append(store, thread, due=NEVER)
    assert score() is None


async def test_lease_end_stands_whoever_commits(store: RedisStore, server: RedisServer, thread: str) -> None:
    await begin(store, thread, due=NOW)
    head = (await claim(store, thread, lease=60_000)).head

    def score() -> float:
        return float(server.client().zscore(store.keys.of(thread).due, thread))  # type: ignore[arg-type]

    for due in (NOW, NEVER, Due(5)):
        await append(store, thread, due=due)
        assert score() == head.lease_until
    await append(store, thread, fence=head.fence, batch=1, due=NEVER)
    assert score() == head.lease_until
    await append(store, thread, fence=head.fence, batch=2, due=Due(4_000_000_000_000), release=True)
    assert score() == 4_000_000_000_000


async def test_commit_of_another_cannot_hide_a_driver_that_died(
    store: RedisStore, server: RedisServer, thread: str
) -> None:
    await begin(store, thread, due=NOW)
    head = (await claim(store, thread, lease=1)).head
    while (await store.head(thread)).now <= head.lease_until:
        pass
    await append(store, thread, due=NEVER)
    assert thread in await store.due(limit=1000)
    assert (await claim(store, thread)).crashes == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"control": b"x"},
        {"log": "", "new_log": ""},
        {"release": True},
        {"batch": 1},
        {"count": 1},
        {"body": b"[1]"},
        {"count": -1, "body": b"[1]"},
        {"keep": -1},
        {"tag": "a\nb", "count": 1, "body": b"[1]"},
        {"log": "a b"},
        {"tag": "x" * 65},
        {"tag": "", "count": 1, "body": b"[1]"},
    ],
)
async def test_meaningless_commit_is_refused_before_it_is_sent(fields: dict[str, object]) -> None:
    store = RedisStore("redis://127.0.0.1:1/0")
    with pytest.raises(ValueError):
        await store.commit(Commit(**{"thread": "t", "log": LOG, "tag": "t", **fields}))  # type: ignore[arg-type]
    await store.close()


async def test_bodies_pass_unchanged(store: RedisStore, thread: str) -> None:
    body = b'["\xf0\x9f\x98\x80\n\r\n\\u0000", "' + b"x" * 300_000 + b'"]'
    await begin(store, thread, body=body, control=b"\x00\n\xff", checkpoint=None)
    joined = await store.join(thread, page=1)
    assert joined.batches[0].body == body
    assert joined.head.control == b"\x00\n\xff"
    assert number(1) != body
