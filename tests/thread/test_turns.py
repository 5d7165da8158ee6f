"""Promises 5, 6 and 8 as rules: barrier, stop, new messages, crashes, hand-over."""

from __future__ import annotations

import pytest

from thread.dsl import ANN, BOB, World, accepted, moot, refused
from waitpoint.thread import (
    CallModel,
    CancelAction,
    EnterTool,
    FailAction,
    FailCall,
    FailStep,
    FinishStep,
    FinishTurn,
    OpenedCall,
    Return,
    Rules,
    Settle,
    StartExecution,
    StartStep,
    Stop,
    Suspend,
    appointment,
    next_steps,
)
from waitpoint.thread import facts as f
from waitpoint.thread.project import live_view
from waitpoint_protocol.state import ThreadState, empty
from waitpoint_protocol.view import fold


def steps(world: World, fence: int = 1) -> list[object]:
    return list(next_steps(world.thread, now=world.now, fence=fence))


def test_a_message_opens_a_turn_and_the_model_is_due() -> None:
    world = World().say()
    assert appointment(world.thread) == 0
    assert steps(world) == [CallModel(0)]


def test_the_model_continues_only_when_every_call_has_its_result() -> None:
    world = World().say().model_calls("a", "b", "c")
    world.returns("a")
    action = world.suspends("b")
    world.do(StartExecution(1, "c"))
    world.do(FailCall(1, "c", "boom"))
    assert steps(world) == []
    assert appointment(world.thread) is None
    world.submit(action)
    world.returns("b")
    assert steps(world) == [CallModel(1)]


def test_one_answered_of_six_leaves_five_untouched() -> None:
    world = World()
    actions = world.waiting(*[f"call{n}" for n in range(6)])
    world.submit(actions[2])
    world.returns("call2")
    assert len(world.thread.actions) == 5
    assert steps(world) == []


def test_submit_reject_cancel_and_fail_in_one_batch_ask_the_model_once() -> None:
    world = World()
    a, b, c, d = world.waiting("a", "b", "c", "d")
    world.submit(a, True)
    world.submit(b, False)
    world.do(CancelAction("x", ANN, c))
    world.do(FailAction("y", ANN, d, "no printer"))
    world.returns("a")
    world.returns("b")
    ends = [
        world.facts[i] for i in range(len(world.facts)) if isinstance(world.facts[i], f.CallReturned | f.CallFailed)
    ]
    assert {type(fact).__name__ for fact in ends} == {"CallReturned", "CallFailed"}
    assert sum(isinstance(fact, f.StepAdvanced) for fact in world.facts) == 1


def test_a_call_that_cannot_be_run_fails_beside_its_siblings() -> None:
    world = World().say()
    world.do(StartStep(1))
    world.do(
        FinishStep(1, 0, "tool-calls", None, (OpenedCall("a", "gone", {}, "no such tool"), OpenedCall("b", "t", {})))
    )
    assert steps(world) == [EnterTool("b")]
    assert world.call("a").state == "output-error"


def test_calls_that_all_fail_at_once_still_reach_the_model() -> None:
    world = World().say()
    world.do(StartStep(1))
    world.do(FinishStep(1, 0, "tool-calls", None, (OpenedCall("a", "gone", {}, "no such tool"),)))
    assert steps(world) == [CallModel(1)]


def test_stop_while_waiting_cancels_with_actor_and_reason_and_ends_the_turn() -> None:
    world = World()
    (action,) = world.waiting()
    accepted(world.do(Stop("s", BOB)))
    assert steps(world) == [FinishTurn()]
    world.closes()
    assert world.thread.turn is None
    late = refused(world.submit(action), "already-resolved")
    assert late.winner is not None
    assert (late.winner.how, late.winner.by, late.winner.reason) == ("cancelled", BOB, "stopped")
    world.say()
    assert steps(world) == [CallModel(0)]


def test_stop_while_nothing_happens_is_accepted() -> None:
    accepted(World().do(Stop("s", ANN)))


def test_what_a_tool_returns_after_a_stop_is_moot() -> None:
    world = World().say().model_calls("a")
    world.do(StartExecution(1, "a"))
    world.do(Stop("s", ANN))
    moot(world.do(Return(1, "a", "late")))


def test_a_message_while_the_model_streams_queues_and_opens_the_next_turn() -> None:
    world = World().say()
    world.do(StartStep(1))
    queued = accepted(world.say(BOB, "and another thing").last)
    assert queued.reply["queued"] is True
    world.do(FinishStep(1, 0, "stop"))
    world.closes()
    assert world.thread.queue == ()
    assert steps(world) == [CallModel(0)]
    assert world.thread.turn is not None
    assert world.thread.turn.by == BOB


def test_a_message_instead_of_an_answer_abandons_the_wait() -> None:
    world = World()
    (action,) = world.waiting()
    world.say(text="make it cheaper")
    assert world.call("call1").state == "output-error"
    assert steps(world) == [FinishTurn()]
    refused(world.submit(action), "already-resolved")
    world.closes()
    assert steps(world) == [CallModel(0)]


def test_a_wait_may_keep_waiting_while_messages_queue() -> None:
    world = World()
    (action,) = world.waiting(on_message="keep")
    assert accepted(world.say().last).reply["queued"] is True
    accepted(world.submit(action))


def test_a_wait_may_refuse_messages() -> None:
    world = World()
    world.waiting(on_message="refuse")
    refused(world.say().last, "waiting")


def test_the_queue_is_bounded() -> None:
    world = World(rules=Rules(queue_messages=2, queue_bytes=1000)).say().say().say()
    refused(world.say().last, "busy")
    world = World(rules=Rules(queue_messages=9, queue_bytes=10)).say()
    refused(world.say(text="x" * 11).last, "busy")


def test_the_step_cap_ends_a_turn_with_a_reason() -> None:
    world = World(rules=Rules(step_cap=2)).say()
    world.model_calls("a")
    world.returns("a")
    world.model_calls("b")
    world.returns("b")
    assert steps(world) == [FinishTurn()]
    closing = [fact for fact in world.facts if isinstance(fact, f.TurnClosing)]
    assert closing[0].reason == "step-cap"
    assert "2 steps" in (closing[0].error_text or "")


def test_a_model_failure_ends_the_turn_visibly() -> None:
    world = World().say()
    world.do(StartStep(1))
    world.do(FailStep(1, 0, "quota exceeded"))
    world.closes()
    closed = [fact for fact in world.facts if isinstance(fact, f.TurnClosed)]
    assert closed[0].message["errorText"] == "quota exceeded"


def test_a_new_driver_enters_a_cut_off_call_again_with_the_next_attempt() -> None:
    world = World().say().model_calls("a")
    world.do(StartExecution(1, "a"))
    assert steps(world, fence=2) == [EnterTool("a")]
    world.do(StartExecution(2, "a"))
    assert (world.call("a").attempt, world.call("a").fence) == (2, 2)


def test_a_stale_driver_changes_nothing() -> None:
    world = World().say().model_calls("a")
    world.do(StartExecution(1, "a"))
    world.do(StartExecution(2, "a"))
    moot(world.do(Return(1, "a", "late")))
    moot(world.do(FailCall(1, "a", "late")))
    assert world.call("a").state == "running"


def test_attempts_are_capped() -> None:
    world = World().say().model_calls("a")
    for fence in (1, 2, 3):
        world.do(StartExecution(fence, "a", max_attempts=3))
    world.do(StartExecution(4, "a", max_attempts=3))
    assert [fact.call for fact in world.facts if isinstance(fact, f.CallFailed)] == ["a"]
    assert steps(world, fence=4) == [CallModel(1)]


def test_on_crash_fail_never_enters_twice() -> None:
    world = World().say().model_calls("a")
    world.do(StartExecution(1, "a", on_crash="fail"))
    world.do(StartExecution(2, "a", on_crash="fail"))
    started = [fact for fact in world.facts if isinstance(fact, f.ExecutionStarted)]
    assert len(started) == 1
    assert steps(world, fence=2) == [CallModel(1)]


def test_a_cut_off_model_step_is_reset_and_asked_again() -> None:
    world = World().say()
    world.do(StartStep(1))
    assert steps(world, fence=2) == [CallModel(0)]
    world.do(StartStep(2))
    assert [event.type for event in world.events if event.type == "step-reset"] == ["step-reset"]
    moot(world.do(FinishStep(1, 0, "stop")))


def test_a_model_step_that_takes_instances_down_is_given_up() -> None:
    world = World().say()
    for fence in range(1, 6):
        world.do(StartStep(fence))
    assert steps(world, fence=6) == [FinishTurn()]


def test_a_hand_over_counts_as_no_crash() -> None:
    world = World().say().model_calls("a")
    world.do(StartExecution(1, "a"))
    world.do(Settle(1))
    assert appointment(world.thread) == 0
    world.do(StartExecution(2, "a", on_crash="fail"))
    assert (world.call("a").state, world.call("a").attempt) == ("running", 1)


def test_an_answer_starts_counting_attempts_anew() -> None:
    world = World().say().model_calls("a")
    world.do(StartExecution(1, "a"))
    world.do(StartExecution(2, "a"))
    world.do(Suspend(2, "a", "approval", {}, {"type": "boolean"}))
    action = world.thread.actions[-1].id
    world.submit(action)
    world.do(StartExecution(3, "a"))
    assert world.call("a").attempt == 1


def test_the_run_is_announced_once_per_driver() -> None:
    world = World().say().model_calls("a", "b")
    world.returns("a")
    world.suspends("b")
    world.do(Settle(1))
    kinds = [event.type for event in world.events if event.type.startswith("run-")]
    assert kinds == ["run-start", "run-finish"]


@pytest.mark.parametrize("fence", [1, 2])
def test_settling_without_a_run_is_moot(fence: int) -> None:
    moot(World().say().do(Settle(fence)))


def test_the_live_view_is_what_the_events_fold_to_when_a_turn_opens_and_closes() -> None:
    """A checkpoint made without a fold must be the fold, to the last timestamp."""
    world = World()
    view = empty("t")

    def folded() -> ThreadState:
        fold(view, world.events)
        world.events.clear()
        live = [message for message in view["messages"] if message["status"] == "open"]
        return {**view, "messages": live}

    world.say()
    world.now += 7
    assert live_view(world.thread) == folded()
    world.do(StartStep(1))
    world.say(BOB, "queued").say(ANN, "queued too")
    world.now += 7
    world.do(FinishStep(1, 0, "stop"))
    world.closes()
    world.now += 7
    assert live_view(world.thread) == folded()
    world.model_calls()
    world.closes()
    assert live_view(world.thread) == folded()
