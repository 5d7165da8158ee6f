"""The checker finds what it is there to find: each kind of broken promise, planted in a history that was whole."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from chaos.checker import check, takeovers
from chaos.history import Command, Fault, History, Observer, Reply

LEASE = 1.5


def whole() -> History:
    """One message, one wait with two answers of which one won, one takeover after a kill."""
    history = History(seed=1, started=0.0, ended=20.0)
    winner = Command("c2", "submit", "t", "a1", "n2", [Reply({"type": "ack", "id": "c2"}, 0, 5.0, 5.1)])
    refusal = {"type": "reject", "id": "c3", "code": "already-resolved", "message": "", "winner": {"how": "submitted"}}
    loser = Command("c3", "submit", "t", "a1", "n3", [Reply(refusal, 1, 5.0, 5.2)])
    said = Command("c1", "message", "t", None, "n1", [Reply({"type": "ack", "id": "c1"}, 0, 1.0, 1.1)])
    history.commands = {command.id: command for command in (said, winner, loser)}
    resolution = {"how": "submitted", "by": {"id": "anonymous"}, "data": {"nonce": "n2"}}
    events: list[dict[str, Any]] = [
        {"type": "message-added"},
        {"type": "action-pending", "action": {"id": "a1"}},
        {"type": "action-resolved", "action": "a1", "resolution": resolution},
        {"type": "run-finish"},
    ]
    for seq, event in enumerate(events, 1):
        history.saw("t", "log", seq, json.dumps(event))
    entry = {"kind": "enter", "tool": "ask", "thread": "t", "call": "call", "key": "k", "pid": 7, "instance": 0}
    again = {**entry, "action": "a1", "answer": "n2", "key": "k2"}
    history.journal = [
        {**entry, "action": None, "answer": None, "attempt": 1, "at": 2.0},
        {**again, "attempt": 1, "at": 5.2},
        {**again, "attempt": 2, "at": 7.0, "pid": 8, "instance": 1},
    ]
    history.faults = [Fault("kill", 0, 5.5, 6.0, pid=7)]
    part = {
        "type": "tool",
        "toolName": "ask",
        "toolCallId": "call",
        "state": "output-available",
        "output": "n2",
        "actions": [{"id": "a1", "resolution": resolution}],
    }
    user = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": json.dumps({"nonce": "n1"})}]}
    assistant = {"id": "m2", "role": "assistant", "parts": [part], "reason": "stop"}
    history.messages = {"t": [user, assistant]}
    cursor = {"log": "log", "seq": 4, "tag": "x"}
    state = {"status": "idle", "pending": [], "queued": [], "before": 0, "messages": [user, assistant]}
    history.finals = {"t": Observer("fresh", "t", cursor, state, [])}
    history.observers = [Observer("tab", "t", dict(cursor), copy.deepcopy(state), [])]
    return history


def event(history: History, seq: int, **changes: Any) -> None:
    positions = history.events["t/log"]
    positions[seq] = json.dumps({**json.loads(positions[seq]), **changes})


def second_ack(history: History) -> None:
    history.commands["c3"].replies = [Reply({"type": "ack", "id": "c3"}, 1, 5.0, 5.2)]


def lost_answer(history: History) -> None:
    event(history, 3, type="unheard-of")
    history.journal = history.journal[:1]


def other_answer_won(history: History) -> None:
    event(history, 3, resolution={"how": "submitted", "data": {"nonce": "n3"}})


def accepted_and_refused(history: History) -> None:
    refusal = {"type": "reject", "id": "c2", "code": "already-resolved", "message": "", "winner": {"how": "submitted"}}
    history.commands["c2"].replies.append(Reply(refusal, 0, 6.0, 6.1))


def another_reply_to_a_repeat(history: History) -> None:
    history.commands["c1"].replies.append(Reply({"type": "ack", "id": "c1", "message": "m9", "dup": True}, 0, 6.0, 6.1))


def told_of_another_end(history: History) -> None:
    frame = history.commands["c3"].replies[0].frame
    assert frame is not None
    frame["winner"] = {"how": "cancelled"}


def silence_about_the_action(history: History) -> None:
    frame = history.commands["c3"].replies[0].frame
    assert frame is not None
    frame["code"] = "unknown-action"


def message_twice(history: History) -> None:
    history.messages["t"].insert(0, history.messages["t"][0])


def message_lost(history: History) -> None:
    del history.messages["t"][0]


def resolved_twice(history: History) -> None:
    history.events["t/log"][4] = history.events["t/log"][3]


def tool_saw_another_answer(history: History) -> None:
    history.journal[1]["answer"] = "n3"


def entered_again_for_nothing(history: History) -> None:
    history.faults = [Fault("script-flush", None, 5.5, 5.5)]


def entered_again_after_a_fault_elsewhere(history: History) -> None:
    history.faults = [Fault("kill", 2, 5.5, 6.0, pid=9)]


def same_attempt_twice(history: History) -> None:
    history.journal[2]["attempt"] = 1


def once_twice(history: History) -> None:
    for entry in history.journal:
        entry["tool"] = "once"


def key_changed(history: History) -> None:
    history.journal[2]["key"] = "k3"


def hole(history: History) -> None:
    del history.events["t/log"][2]


def two_events_at_one_position(history: History) -> None:
    history.saw("t", "log", 4, json.dumps({"type": "run-start"}))


def second_log(history: History) -> None:
    history.saw("t", "log2", 1, json.dumps({"type": "run-start"}))


def wrong_output(history: History) -> None:
    history.messages["t"][1]["parts"][0]["output"] = "n3"


def open_call_in_a_finished_message(history: History) -> None:
    history.messages["t"][1]["parts"][0]["state"] = "waiting"


def call_failed(history: History) -> None:
    history.messages["t"][1]["parts"][0].update(state="output-error", errorText="The stored input is gone.")


def turn_failed(history: History) -> None:
    history.messages["t"][1].update(reason="error", errorText="The model failed: StoreUnavailable")


def never_rests(history: History) -> None:
    history.finals["t"].state["status"] = "running"


def stays_behind(history: History) -> None:
    history.observers[0].cursor["seq"] = 3


def differs(history: History) -> None:
    history.observers[0].state["messages"] = history.observers[0].state["messages"][:1]


def lease_left(history: History) -> None:
    history.leftovers = ["t: still has a lease"]


def exception(history: History) -> None:
    history.tracebacks = ["Traceback (most recent call last)"]


PLANTED: list[tuple[Callable[[History], None], str]] = [
    (second_ack, "2 commands were told that they resolved it"),
    (lost_answer, "the answer is lost"),
    (other_answer_won, "acknowledged (submit n2), but the log says"),
    (accepted_and_refused, "both accepted and refused"),
    (another_reply_to_a_repeat, "different replies"),
    (told_of_another_end, "told {'how': 'cancelled'}"),
    (silence_about_the_action, "refused with unknown-action"),
    (message_twice, "there 2 times"),
    (message_lost, "there 0 times"),
    (resolved_twice, "resolved 2 times"),
    (tool_saw_another_answer, "saw n3"),
    (entered_again_for_nothing, "no fault explains it"),
    (entered_again_after_a_fault_elsewhere, "no fault explains it"),
    (same_attempt_twice, "entered twice as attempt 1"),
    (once_twice, "at most once"),
    (key_changed, "idempotency key changed"),
    (hole, "no client was ever sent positions [2]"),
    (two_events_at_one_position, "to one client and"),
    (second_log, "has had 2 logs"),
    (wrong_output, "returned n3"),
    (open_call_in_a_finished_message, "its message is finished, and it is waiting"),
    (call_failed, "ended in an error: The stored input is gone."),
    (turn_failed, "a turn ended in an error"),
    (never_rests, "does not come to rest"),
    (stays_behind, "ended at"),
    (differs, "differs from a fresh snapshot"),
    (lease_left, "still has a lease"),
    (exception, "unexpected exception"),
]


def test_a_whole_history_has_no_violation() -> None:
    assert check(whole(), lease=LEASE) == []


@pytest.mark.parametrize(("plant", "said"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
def test_a_planted_violation_is_found(plant: Callable[[History], None], said: str) -> None:
    history = whole()
    plant(history)
    violations = check(history, lease=LEASE)
    assert any(said in violation for violation in violations), violations


def test_a_takeover_is_timed_from_the_death_to_the_next_entry() -> None:
    assert takeovers(whole()) == [pytest.approx(1.5)]


def test_a_takeover_under_another_fault_is_told_apart() -> None:
    history = whole()
    assert takeovers(history, undisturbed=True) == [pytest.approx(1.5)]
    history.faults.append(Fault("store-pause", None, 6.0, 6.5))
    assert takeovers(history, undisturbed=True) == []
    assert takeovers(history) == [pytest.approx(1.5)]


def test_what_had_ended_before_the_death_was_not_taken_over() -> None:
    history = whole()
    history.journal.append(
        {"kind": "leave", "thread": "t", "call": "call", "action": "a1", "attempt": 1, "pid": 7, "at": 5.4}
    )
    assert takeovers(history) == []
