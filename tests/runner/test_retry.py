"""When a model step that failed is asked again (case 45)."""

from __future__ import annotations

import pytest

from waitpoint import ModelError
from waitpoint.runner.retry import LONGEST, RETRIES, pause


def test_what_may_not_help_is_not_tried() -> None:
    assert pause(ModelError("no credit"), 0, 0.5) is None


def test_pauses_grow_and_the_tries_end() -> None:
    error = ModelError("busy", retryable=True)
    assert [pause(error, retry, 0.5) for retry in range(RETRIES)] == [0.5, 1.0, 2.0]
    assert pause(error, RETRIES, 0.5) is None


def test_threads_that_failed_together_do_not_ask_again_together() -> None:
    error = ModelError("busy", retryable=True)
    assert pause(error, 0, 0.0) == 0.25
    assert pause(error, 0, 1.0) == 0.75


@pytest.mark.parametrize("wanted", [0.0, 7.0, LONGEST])
def test_the_provider_is_left_alone_for_as_long_as_it_asks(wanted: float) -> None:
    seconds = pause(ModelError("busy", retryable=True, retry_after=wanted), 0, 0.0)
    assert seconds is not None
    assert wanted < seconds <= wanted + 1


def test_who_asks_for_too_long_a_pause_is_not_waited_for() -> None:
    assert pause(ModelError("busy", retryable=True, retry_after=LONGEST + 1), 0, 0.5) is None
