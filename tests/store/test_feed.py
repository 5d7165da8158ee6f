"""The chain of one followed thread, without a store: what is next, what is old, what only the store can tell."""

from __future__ import annotations

import logging

import pytest

from waitpoint.store import Batch, Feed, Head, Joined
from waitpoint.store.feed import contiguous


def batch(seq: int, *, count: int = 1, prev: str | None = None, tag: str | None = None, log: str = "L") -> Batch:
    before = f"t{seq - 1}" if seq > 1 else ""
    return Batch(log, seq, count, before if prev is None else prev, f"t{seq}" if tag is None else tag, b"[0]")


def joined(*batches: Batch, checkpoint_seq: int = 0, seq: int | None = None, tag: str | None = None) -> Joined:
    last = batches[-1] if batches else None
    head = Head(
        log="L" if batches or checkpoint_seq else "",
        seq=seq if seq is not None else last.last if last else checkpoint_seq,
        tag=tag if tag is not None else last.tag if last else (f"t{checkpoint_seq}" if checkpoint_seq else ""),
        rev=1,
        control=b"",
        fence=0,
        owner="",
        lease_until=0,
        now=1,
    )
    return Joined(head, b"", checkpoint_seq, batches, (), 0)


class Heard:
    def __init__(self) -> None:
        self.seqs: list[int] = []
        self.resets: list[str] = []

    def on_batch(self, batch: Batch) -> None:
        self.seqs.append(batch.seq)

    def on_reset(self, why: str) -> None:
        self.resets.append(why)


def feed_at(*batches: Batch, **limits: int) -> Feed:
    feed = Feed("t", **limits)
    feed.start(joined(*batches))
    return feed


def test_batch_that_continues_the_chain_is_next() -> None:
    feed = feed_at(batch(1), batch(2))
    assert feed.verdict(batch(3)) == "next"


@pytest.mark.parametrize(
    "stranger",
    [
        batch(4),  # a hole
        batch(3, prev="other"),  # follows something else
        batch(3, log="M"),  # another log
        batch(2, tag="other"),  # a position that I have, with other data
        batch(1, log="M"),
        Batch("", 0, 0, "", "", b""),  # the thread was deleted
    ],
)
def test_batch_that_does_not_fit_is_for_the_store_to_judge(stranger: Batch) -> None:
    assert feed_at(batch(1), batch(2)).verdict(stranger) == "odd"


def test_batch_that_was_delivered_is_old() -> None:
    feed = feed_at(batch(1), batch(2))
    feed.deliver(batch(3))
    for seq in (1, 2, 3):
        assert feed.verdict(batch(seq)) == "old"


def test_first_batch_of_an_empty_thread_is_next() -> None:
    feed = feed_at()
    assert feed.verdict(batch(1)) == "next"
    assert feed.verdict(batch(2)) == "odd"


def test_old_batch_is_known_even_when_it_has_left_the_ring() -> None:
    feed = feed_at(batch(1), ring_events=2)
    for seq in range(2, 10):
        feed.deliver(batch(seq))
    assert [entry.seq for entry in feed.ring] == [8, 9]
    assert feed.verdict(batch(3)) == "old"


def test_ring_is_bounded_in_events_and_bytes_and_ends_at_the_head() -> None:
    feed = feed_at(ring_events=10)
    for n in range(10):
        feed.deliver(batch(n * 4 + 1, count=4, prev=feed.head.tag))
    assert [entry.seq for entry in feed.ring] == [33, 37]
    assert feed.ring[-1].cursor == feed.head

    small = feed_at(ring_bytes=7)
    for seq in range(1, 6):
        small.deliver(batch(seq))
    assert [entry.seq for entry in small.ring] == [4, 5]


def test_batch_larger_than_the_ring_empties_it_and_still_moves_the_head() -> None:
    feed = feed_at(ring_bytes=2)
    feed.deliver(batch(1))
    assert list(feed.ring) == []
    assert feed.head.seq == 1


def test_start_forgets_the_past() -> None:
    feed = feed_at(batch(1), batch(2))
    feed.start(joined(batch(1, tag="x")))
    assert [entry.tag for entry in feed.ring] == ["x"]
    assert feed.verdict(batch(1)) == "odd"
    assert feed.verdict(batch(2, prev="x")) == "next"


def test_listeners_hear_in_order_and_a_failing_one_costs_the_others_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Heard):
        def on_batch(self, batch: Batch) -> None:
            raise ValueError("mine")

    feed, heard = feed_at(), Heard()
    feed.add(Broken())
    feed.add(heard)
    with caplog.at_level(logging.ERROR):
        feed.deliver(batch(1))
        feed.deliver(batch(2))
    assert heard.seqs == [1, 2]
    assert "a listener failed" in caplog.text


def test_listener_may_leave_while_it_is_told() -> None:
    feed, heard = feed_at(), Heard()

    class Leaving(Heard):
        def on_batch(self, batch: Batch) -> None:
            super().on_batch(batch)
            feed.remove(self)

    leaving = Leaving()
    feed.add(leaving)
    feed.add(heard)
    feed.deliver(batch(1))
    feed.deliver(batch(2))
    assert (leaving.seqs, heard.seqs) == ([1], [1, 2])
    assert feed.remove(leaving) is False


def test_held_batches_are_bounded() -> None:
    feed = feed_at()
    for seq in range(1, 3000):
        feed.hold(batch(seq))
    held, overflowed = feed.take_held()
    assert overflowed
    assert len(held) <= 1024
    assert feed.take_held() == ([], False)


def test_joined_before_a_join_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="not joined yet"):
        _ = Feed("t").joined


@pytest.mark.parametrize(
    ("case", "whole"),
    [
        (joined(), True),
        (joined(checkpoint_seq=5), True),
        (joined(batch(6), batch(7), checkpoint_seq=5), True),
        (joined(batch(6, count=3), batch(9, prev="t6"), checkpoint_seq=5), True),
        (joined(batch(7), checkpoint_seq=5), False),  # a hole after the checkpoint
        (joined(batch(6), batch(8), checkpoint_seq=5), False),  # a hole in the middle
        (joined(batch(6), batch(7, prev="x"), checkpoint_seq=5), False),  # another chain
        (joined(batch(6), checkpoint_seq=5, seq=9), False),  # the head is further on
        (joined(batch(6), checkpoint_seq=5, tag="x"), False),
        (joined(checkpoint_seq=5, seq=6), False),
    ],
)
def test_contiguity_is_demanded_from_the_checkpoint_to_the_head(case: Joined, whole: bool) -> None:
    assert contiguous(case) is whole
