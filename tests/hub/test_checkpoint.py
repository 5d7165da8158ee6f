"""A view taken apart and put together again is the same view."""

from __future__ import annotations

import json

from waitpoint.thread.snapshot import build, checkpoint, trim
from waitpoint_protocol.state import Message, ThreadState, empty


def _message(id: str, status: str = "final") -> Message:
    return {"id": id, "role": "assistant", "parts": [], "status": status, "at": "2026-01-01T00:00:00.000Z"}  # type: ignore[typeddict-item]


def _state() -> ThreadState:
    return {
        "thread": "t1",
        "status": "waiting",
        "messages": [_message("m1"), _message("m2"), _message("m3", "open")],
        "before": 7,
        "pending": [],
        "queued": [_message("m4")],
        "title": "Report",
    }


def test_a_checkpoint_and_the_finished_messages_make_the_view() -> None:
    finished = [json.dumps(_message("m1")).encode(), json.dumps(_message("m2")).encode()]
    assert build("t1", checkpoint(_state()), finished, 7) == _state()


def test_a_checkpoint_holds_no_finished_message() -> None:
    assert [m["id"] for m in json.loads(checkpoint(_state()))["state"]["messages"]] == ["m3"]


def test_a_thread_without_a_checkpoint_is_empty() -> None:
    assert build("t1", b"", [], 0) == empty("t1")


def test_trimming_counts_what_it_cuts_and_keeps_the_open_message() -> None:
    state = _state()
    trim(state, 1)
    assert [m["id"] for m in state["messages"]] == ["m2", "m3"]
    assert state["before"] == 8


def test_trimming_leaves_a_short_view_alone() -> None:
    state = _state()
    trim(state, 2)
    assert state == _state()
