"""Requests: waits outside any turn, and the continuations that go on with their answers."""

from __future__ import annotations

from typing import Any

import pytest

from thread.dsl import ANN, BOB, World, accepted, moot, refused
from waitpoint.thread import (
    Actor,
    CancelAction,
    ContinueRequest,
    Expire,
    ExpireAction,
    FailAction,
    FinishContinuation,
    OpenRequest,
    Settle,
    StartContinuation,
    Stop,
    appointment,
    next_steps,
)
from waitpoint.thread import facts as f
from waitpoint.thread.project import answer_id, live_view
from waitpoint_protocol import events as e
from waitpoint_protocol.state import empty
from waitpoint_protocol.view import apply

APP = Actor("application", "system")


def opened(world: World, id: str | None = None, **options: Any) -> str:
    """Open a request; the action's id."""
    command = OpenRequest(
        id or world.command_id(), APP, "paid", "approval", {"prompt": "Pay?"}, {"type": "boolean"}, **options
    )
    return str(accepted(world.do(command)).reply["action"])


def todo(world: World, fence: int = 1) -> list[Any]:
    return next_steps(world.thread, now=world.now, fence=fence)


def test_a_request_waits_without_a_turn_and_its_continuation_runs_with_the_answer() -> None:
    world = World()
    action = opened(world)
    assert (todo(world), appointment(world.thread)) == ([], None)
    [pending] = world.events
    assert pending.action["name"] == "paid.approval"
    assert pending.action["input"] == {"prompt": "Pay?"}
    assert pending.action["origin"] == {
        "toolName": "paid",
        "suspendName": "approval",
        "messageId": "",
        "toolCallId": action,
    }
    accepted(world.submit(action, True))
    assert (todo(world), appointment(world.thread)) == ([ContinueRequest(action)], 0)
    assert world.values == {answer_id(action): True}
    accepted(world.do(StartContinuation(1, action)))
    assert todo(world) == []
    accepted(world.do(FinishContinuation(1, action)))
    accepted(world.do(Settle(1)))
    assert world.values == {}
    assert (world.thread.requests, world.thread.actions, appointment(world.thread)) == ((), (), None)
    assert [type(event) for event in world.events[2:]] == [e.RunStart, e.RunFinish]
    assert world.events[-1].status == "idle"


def test_a_bad_answer_bounces_and_the_second_one_is_too_late() -> None:
    world = World()
    action = opened(world)
    refused(world.submit(action, "yes"), "invalid")
    accepted(world.submit(action, True, by=ANN))
    assert refused(world.submit(action, False, by=BOB), "already-resolved").winner is not None
    accepted(world.do(StartContinuation(1, action)))
    accepted(world.do(FinishContinuation(1, action)))
    assert refused(world.submit(action, False, by=BOB), "already-resolved").winner.by == ANN  # type: ignore[union-attr]


def test_a_repeated_request_asks_nothing_anew() -> None:
    world = World()
    first = opened(world, id="same")
    assert opened(world, id="same") == first
    assert accepted(world.last).dup
    assert len(world.thread.actions) == 1
    other = OpenRequest("same", APP, "paid", "approval", {"prompt": "Other?"}, {"type": "boolean"})
    refused(world.do(other), "id-conflict")


@pytest.mark.parametrize("way", ["cancel", "fail", "expire"])
@pytest.mark.parametrize("unanswered", [False, True])
def test_without_an_answer_the_continuation_runs_only_if_it_wants_to(way: str, unanswered: bool) -> None:
    world = World()
    action = opened(world, unanswered=unanswered, expires_in=1000)
    match way:
        case "cancel":
            accepted(world.do(CancelAction(world.command_id(), BOB, action, "no need")))
        case "fail":
            accepted(world.do(FailAction(world.command_id(), BOB, action, "cannot")))
        case _:
            assert appointment(world.thread) == world.now + 1000
            world.now += 1000
            assert todo(world) == [ExpireAction(action)]
            accepted(world.do(Expire(action)))
    assert todo(world) == ([ContinueRequest(action)] if unanswered else [])
    assert world.values == {}
    how = {"cancel": "cancelled", "fail": "failed", "expire": "expired"}[way]
    late = refused(world.submit(action), "expired" if way == "expire" else "already-resolved")
    assert late.winner is not None
    assert late.winner.how == how


def test_a_message_a_stop_and_a_whole_turn_leave_a_request_alone() -> None:
    world = World()
    request = opened(world)
    world.say().model_calls("call1")
    tool = world.suspends("call1")
    world.say(BOB, "something else")
    refused(world.submit(tool), "already-resolved")
    assert world.thread.turn is not None
    assert world.thread.turn.reason == "superseded"
    world.closes()
    world.model_calls("call2")
    world.suspends("call2", on_message="keep")
    accepted(world.do(Stop(world.command_id(), ANN)))
    world.closes()
    assert [action.id for action in world.thread.actions] == [request]
    accepted(world.submit(request))
    assert ContinueRequest(request) in todo(world)


def test_a_request_that_is_answered_while_a_turn_runs_continues_beside_it() -> None:
    world = World()
    request = opened(world)
    world.say().model_calls("call1")
    tool = world.suspends("call1")
    accepted(world.submit(request))
    assert (todo(world), appointment(world.thread)) == ([ContinueRequest(request)], 0)
    accepted(world.do(StartContinuation(1, request)))
    accepted(world.submit(tool))
    world.returns("call1")
    world.model_calls()
    world.closes()
    assert world.values == {answer_id(request): True}, "what the turn needed is gone, what the request needs is not"
    accepted(world.do(FinishContinuation(1, request)))
    assert world.values == {}


def test_a_continuation_that_was_cut_off_runs_again_and_a_stale_driver_is_not_heard() -> None:
    world = World()
    request = opened(world)
    accepted(world.submit(request))
    accepted(world.do(StartContinuation(1, request)))
    moot(world.do(StartContinuation(1, request)))
    assert todo(world, fence=2) == [ContinueRequest(request)]
    accepted(world.do(StartContinuation(2, request)))
    assert world.thread.requests[0].attempt == 2
    moot(world.do(FinishContinuation(1, request)))
    accepted(world.do(FinishContinuation(2, request)))
    moot(world.do(FinishContinuation(2, request)))


def test_a_continuation_that_takes_every_server_down_is_given_up() -> None:
    world = World()
    request = opened(world)
    accepted(world.submit(request))
    for fence in (1, 2, 3):
        accepted(world.do(StartContinuation(fence, request)))
    accepted(world.do(StartContinuation(4, request)))
    ended = world.facts[-1]
    assert isinstance(ended, f.ContinuationEnded)
    assert "3 times" in str(ended.error_text)
    assert todo(world, fence=5) == []


def test_a_continuation_that_is_handed_over_keeps_its_attempt_number() -> None:
    world = World()
    request = opened(world)
    accepted(world.submit(request))
    accepted(world.do(StartContinuation(1, request)))
    accepted(world.do(Settle(1)))
    assert appointment(world.thread) == 0
    accepted(world.do(StartContinuation(2, request)))
    assert world.thread.requests[0].attempt == 1


def test_only_so_many_requests_wait_in_a_thread() -> None:
    world = World()
    for _ in range(world.rules.requests):
        last = opened(world)
    one_more = OpenRequest("x", APP, "paid", "approval", {}, {"type": "boolean"})
    refused(world.do(one_more), "busy")
    accepted(world.do(CancelAction(world.command_id(), BOB, last)))
    accepted(world.do(one_more))


def test_only_the_audience_may_answer_a_request_and_the_application_always_may() -> None:
    world = World()
    for by, code in ((ANN, "forbidden"), (BOB, None), (APP, None)):
        action = opened(world, audience=("bob",))
        decision = world.submit(action, by=by)
        if code is None:
            accepted(decision)
        else:
            refused(decision, code)


def test_a_checkpoint_between_turns_shows_the_requests_that_wait() -> None:
    """Who joins from a checkpoint sees what one sees who was there all the time."""
    world = World()
    opened(world)
    gone = opened(world)
    view = empty("t")
    world.say().model_calls()
    accepted(world.submit(gone))
    world.closes()
    for event in world.events:
        apply(view, event)
    assert live_view(world.thread)["pending"] == view["pending"]
    assert len(view["pending"]) == 1
