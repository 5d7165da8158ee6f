"""A cursor's place in the ring, whatever the batches' sizes and however much was dropped."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from waitpoint.hub.ring import AHEAD, UNKNOWN, Ring
from waitpoint.store.types import Batch
from waitpoint_protocol.frames import Cursor

_counts = st.lists(st.integers(1, 4), min_size=1, max_size=40)


def chain(counts: list[int], log: str = "L") -> list[Batch]:
    batches: list[Batch] = []
    seq, prev = 1, ""
    for number, count in enumerate(counts):
        batches.append(Batch(log=log, seq=seq, count=count, prev=prev, tag=f"t{number}", body=b"x" * 10))
        seq, prev = seq + count, f"t{number}"
    return batches


def filled(batches: list[Batch], max_batches: int = 16, max_bytes: int = 10_000) -> Ring:
    ring = Ring(max_batches, max_bytes)
    for batch in batches:
        ring.append(batch)
    return ring


@given(_counts)
def test_the_cursor_after_a_batch_is_where_the_next_one_is(counts: list[int]) -> None:
    batches = chain(counts)
    ring = filled(batches)
    for number, batch in enumerate(batches):
        at = ring.locate(batch.cursor)
        if number + 1 >= ring.first:
            assert at == number + 1
            assert at == ring.end or ring.entry(at).batch is batches[at]
        else:
            assert at is UNKNOWN


@given(_counts, st.integers(0, 200))
def test_a_place_that_no_batch_ends_at_is_unknown(counts: list[int], seq: int) -> None:
    batches = chain(counts)
    ring = filled(batches)
    at = ring.locate(Cursor(log="L", seq=seq, tag="not a tag of this log"))
    assert at is (AHEAD if seq > batches[-1].last else UNKNOWN)
    assert ring.locate(Cursor(log="other", seq=seq, tag="t0")) is UNKNOWN


@given(_counts)
def test_the_start_of_a_log_is_known_while_its_first_batch_is_here(counts: list[int]) -> None:
    ring = filled(chain(counts))
    nothing, start = Cursor(log="", seq=0, tag=""), Cursor(log="L", seq=0, tag="")
    if ring.first == 0:
        assert ring.locate(nothing) == ring.locate(start) == 0
    else:
        assert ring.locate(nothing) is ring.locate(start) is UNKNOWN


@given(st.integers(1, 500))
def test_a_ring_stays_within_its_bounds_and_keeps_most_of_them(number: int) -> None:
    ring = filled(chain([1] * number), max_batches=50, max_bytes=300)
    assert ring.end == number
    held = ring.end - ring.first
    assert held <= 30  # 10 bytes each
    assert held >= min(number, 25)


def test_one_batch_larger_than_the_ring_is_kept_for_those_who_are_live() -> None:
    ring = filled(chain([1, 1, 1]), max_bytes=5)
    assert ring.end - ring.first == 1
    assert ring.locate(chain([1, 1])[-1].cursor) == ring.first


def test_an_index_of_a_former_life_is_never_valid_again() -> None:
    ring = filled(chain([1, 1, 1]))
    old_end = ring.end
    again = chain([2, 2], log="M")
    ring.restart(again, again[-1].cursor)
    assert ring.first >= old_end
    assert ring.locate(chain([1, 1, 1])[-1].cursor) is UNKNOWN
    assert ring.locate(again[0].cursor) == ring.first + 1


def test_an_empty_log_has_its_start_as_its_end() -> None:
    assert Ring(4, 100).locate(Cursor(log="", seq=0, tag="")) == 0
