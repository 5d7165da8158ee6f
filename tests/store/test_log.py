"""Reading the log: join, replay from every kind of cursor, checkpoints and trimming."""

from __future__ import annotations

import pytest

from support.commits import LOG, append, begin
from support.servers import RedisServer
from waitpoint.store import Forked, Gone, LogLost, RedisStore, Replay
from waitpoint.store.feed import contiguous
from waitpoint_protocol.frames import Cursor

EMPTY = Cursor(log="", seq=0, tag="")


def at(seq: int, tag: str | None = None, log: str = LOG) -> Cursor:
    return Cursor(log=log, seq=seq, tag=f"t{seq}" if tag is None else tag)


def tags(replay: object) -> list[str]:
    assert isinstance(replay, Replay), replay
    return [batch.tag for batch in replay.batches]


# --- join


async def test_join_of_nothing_is_empty(store: RedisStore, thread: str) -> None:
    joined = await store.join(thread, page=10)
    assert joined.head.cursor == EMPTY
    assert (joined.checkpoint, joined.checkpoint_seq, joined.messages_before) == (b"", 0, 0)
    assert (list(joined.batches), list(joined.messages)) == ([], [])
    assert contiguous(joined)


async def test_join_without_a_checkpoint_is_the_whole_log_and_no_messages(store: RedisStore, thread: str) -> None:
    await begin(store, thread, messages=[b"m0"])
    await append(store, thread, 3)
    joined = await store.join(thread, page=10)
    assert [batch.tag for batch in joined.batches] == ["t1", "t2", "t3", "t4"]
    assert joined.batches[2].prev == "t2"
    # The message is an event of the log as well; whoever folds from the start gets it from there.
    assert list(joined.messages) == []
    assert contiguous(joined)


async def test_join_is_checkpoint_page_and_tail(store: RedisStore, thread: str) -> None:
    await begin(store, thread, messages=[b"m0", b"m1"])
    await append(store, thread, messages=[b"m2"], checkpoint=b"cp")
    await append(store, thread, messages=[b"m3"])
    joined = await store.join(thread, page=2)
    assert (joined.checkpoint, joined.checkpoint_seq) == (b"cp", 2)
    # The checkpoint includes the messages of its own commit, and not the one that came later.
    assert (list(joined.messages), joined.messages_before) == ([b"m1", b"m2"], 1)
    assert [batch.tag for batch in joined.batches] == ["t3"]
    assert contiguous(joined)


async def test_join_right_at_the_checkpoint_has_no_tail(store: RedisStore, thread: str) -> None:
    await begin(store, thread, checkpoint=b"cp", messages=[b"m"])
    joined = await store.join(thread, page=0)
    assert (joined.checkpoint_seq, list(joined.batches), list(joined.messages)) == (1, [], [])
    assert joined.messages_before == 1
    assert contiguous(joined)


async def test_checkpoint_of_a_commit_without_events_stands_at_the_head(store: RedisStore, thread: str) -> None:
    await begin(store, thread)
    await append(store, thread, 2)
    await append(store, thread, count=1, checkpoint=b"cp")
    joined = await store.join(thread, page=1)
    assert joined.checkpoint_seq == joined.head.seq == 4


# --- replay


async def test_replay_returns_what_follows_the_cursor(store: RedisStore, thread: str) -> None:
    await begin(store, thread)
    await append(store, thread, 4)
    result = await store.replay(thread, at(2))
    assert tags(result) == ["t3", "t4", "t5"]
    assert isinstance(result, Replay)
    assert (result.head, result.more) == (at(5), False)


async def test_replay_at_the_head_is_empty(store: RedisStore, thread: str) -> None:
    await begin(store, thread)
    assert await store.replay(thread, at(1)) == Replay(at(1), ())


async def test_replay_of_nothing_from_nothing_is_empty(store: RedisStore, thread: str) -> None:
    assert await store.replay(thread, EMPTY) == Replay(EMPTY, ())


async def test_empty_cursor_gets_the_whole_log_while_it_is_there(store: RedisStore, thread: str) -> None:
    await begin(store, thread)
    await append(store, thread, 2)
    assert tags(await store.replay(thread, EMPTY)) == ["t1", "t2", "t3"]
    assert tags(await store.replay(thread, at(0, ""))) == ["t1", "t2", "t3"]
    await append(store, thread, checkpoint=b"cp", keep=1)
    assert await store.replay(thread, EMPTY) == Gone()
    assert await store.replay(thread, at(0, "")) == Gone()


@pytest.mark.parametrize("seq", [1, 3, 4])
async def test_other_tag_at_the_cursor_means_forked(store: RedisStore, thread: str, seq: int) -> None:
    await begin(store, thread)
    await append(store, thread, 3)
    assert await store.replay(thread, at(seq, "elsewhere")) == Forked()
    assert isinstance(await store.replay(thread, at(seq)), Replay)


async def test_cursor_inside_a_batch_means_forked(store: RedisStore, thread: str) -> None:
    await begin(store, thread, count=3, body=b"[1,2,3]")
    await append(store, thread)
    for seq in (1, 2):
        assert await store.replay(thread, at(seq, "t1")) == Forked()
    assert tags(await store.replay(thread, at(3, "t1"))) == ["t4"]


async def test_cursor_beyond_the_head_means_forked(store: RedisStore, thread: str) -> None:
    await begin(store, thread)
    assert await store.replay(thread, at(2)) == Forked()
    assert await store.replay(thread, at(2**53 - 1)) == Forked()


async def test_cursor_at_zero_with_a_tag_is_crafted(store: RedisStore, thread: str) -> None:
    await begin(store, thread)
    assert await store.replay(thread, at(0, "x")) == Forked()


async def test_cursor_of_another_log_means_log_lost(store: RedisStore, thread: str) -> None:
    await begin(store, thread)
    assert await store.replay(thread, at(1, log="older")) == LogLost()
    assert await store.replay(thread, at(1, log="")) == LogLost()
    assert await store.replay(f"{thread}-none", at(1)) == LogLost()


async def test_after_a_flush_an_old_cursor_never_fits(store: RedisStore, thread: str) -> None:
    await begin(store, thread, log="first")
    await append(store, thread, 3, log="first")
    await store.delete(thread)
    await begin(store, thread, log="second")
    await append(store, thread, 5, log="second")
    assert await store.replay(thread, at(4, log="first")) == LogLost()
    # The same position under the new name: the tag tells.
    assert await store.replay(thread, at(3, "other", log="second")) == Forked()


async def test_long_replay_comes_in_whole_batches(store: RedisStore, thread: str) -> None:
    await begin(store, thread, count=3, body=b"[1,2,3]")
    await append(store, thread, 6)
    first = await store.replay(thread, EMPTY, limit=4)
    assert tags(first) == ["t1", "t4"]
    assert isinstance(first, Replay)
    assert first.more
    rest = await store.replay(thread, first.batches[-1].cursor, limit=100)
    assert tags(rest) == ["t5", "t6", "t7", "t8", "t9"]
    assert isinstance(rest, Replay)
    assert not rest.more


async def test_replay_of_exactly_the_limit_is_complete(store: RedisStore, thread: str) -> None:
    await begin(store, thread)
    await append(store, thread, 3)
    result = await store.replay(thread, at(1), limit=3)
    assert tags(result) == ["t2", "t3", "t4"]
    assert isinstance(result, Replay)
    assert not result.more


async def test_replay_crosses_many_chunks_without_hole_or_repeat(store: RedisStore, thread: str) -> None:
    await begin(store, thread)
    await append(store, thread, 400)
    cursor, seen = EMPTY, []
    while True:
        result = await store.replay(thread, cursor, limit=130)
        assert isinstance(result, Replay)
        seen += [batch.seq for batch in result.batches]
        cursor = result.batches[-1].cursor
        if not result.more:
            break
    assert seen == list(range(1, 402))
    assert tags(await store.replay(thread, at(100))) == [f"t{n}" for n in range(101, 402)]


async def test_replay_is_bounded_in_bytes(store: RedisStore, thread: str) -> None:
    big = b"x" * 1_500_000
    await begin(store, thread, body=big)
    await append(store, thread, 4, body=big)
    result = await store.replay(thread, EMPTY)
    assert tags(result) == ["t1", "t2", "t3"]
    assert isinstance(result, Replay)
    assert result.more


# --- trimming


async def test_log_is_trimmed_to_so_many_events_behind_the_checkpoint(store: RedisStore, thread: str) -> None:
    await begin(store, thread)
    await append(store, thread, 8)
    await append(store, thread, checkpoint=b"cp", keep=3)
    await append(store, thread, 2)
    assert await store.replay(thread, at(6)) == Gone()
    assert tags(await store.replay(thread, at(7))) == ["t8", "t9", "t10", "t11", "t12"]
    assert tags(await store.replay(thread, at(10))) == ["t11", "t12"]
    assert contiguous(await store.join(thread, page=1))


async def test_trimming_never_cuts_a_batch_or_reaches_past_the_checkpoint(store: RedisStore, thread: str) -> None:
    await begin(store, thread, count=4, body=b"[1,2,3,4]")
    await append(store, thread, count=1, body=b"[5,6,7,8]", checkpoint=b"cp", keep=0)
    joined = await store.join(thread, page=1)
    assert joined.checkpoint_seq == joined.head.seq
    await append(store, thread, 2)
    assert contiguous(await store.join(thread, page=1))
    assert isinstance(await store.replay(thread, joined.head.cursor), Replay)


async def test_without_a_checkpoint_nothing_is_trimmed(store: RedisStore, thread: str) -> None:
    await begin(store, thread)
    await append(store, thread, 30, keep=1)
    assert len(tags(await store.replay(thread, EMPTY))) == 31


async def test_log_stays_bounded_over_many_checkpoints(store: RedisStore, server: RedisServer, thread: str) -> None:
    await begin(store, thread)
    for _ in range(30):
        await append(store, thread, 9)
        await append(store, thread, checkpoint=b"cp", keep=20)
    assert server.client().xlen(store.keys.of(thread).log) <= 21


async def test_cursors_are_the_heads(store: RedisStore, thread: str) -> None:
    await begin(store, thread)
    await append(store, thread, 2)
    assert await store.cursors([thread, f"{thread}-none"]) == [at(3), EMPTY]
    assert await store.cursors([]) == []
