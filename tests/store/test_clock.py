"""The estimate of the store's time stays inside what each reply proves."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from waitpoint.store.clock import StoreClock


def test_before_the_first_reply_it_is_this_machines_clock() -> None:
    assert abs(StoreClock().now() - time.time() * 1000) < 1000


def test_a_store_an_hour_ahead_is_followed() -> None:
    clock = StoreClock()
    sent = time.monotonic()
    there = int(time.time() * 1000) + 3_600_000
    clock.learn(there, sent, time.monotonic())
    assert abs(clock.now() - there) < 50


def test_a_slow_reply_does_not_spoil_what_a_fast_one_taught() -> None:
    clock = StoreClock()
    base = time.monotonic()
    clock.learn(1_000_000, base - 0.001, base)
    before = clock.now()
    # Read somewhere within ten seconds: compatible with what is known, so nothing changes.
    clock.learn(1_000_000, base - 5, base + 5)
    assert abs(clock.now() - before) < 20


def test_a_store_whose_clock_was_set_back_is_followed() -> None:
    clock = StoreClock()
    base = time.monotonic()
    clock.learn(5_000_000, base - 0.001, base)
    clock.learn(1_000_000, base - 0.001, base)
    assert abs(clock.now() - 1_000_000 - (time.monotonic() - base) * 1000) < 20


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=20))
def test_the_estimate_is_never_off_by_more_than_the_last_round_trip(trips: list[tuple[int, int]]) -> None:
    clock = StoreClock()
    offset, at = 7_000_000.0, 1000.0
    for there, back in trips:
        store_time = int((at + there / 1000) * 1000 + offset)
        clock.learn(store_time, at, at + (there + back) / 1000)
        assert clock._offset is not None
        assert abs(clock._offset - offset) <= there + back + 1
        at += 1.0
