"""Promise 8 as rules: what a tool did once is kept for its later entries; and waits keep how they were made."""

from __future__ import annotations

import pytest

from thread.dsl import ANN, World, accepted, moot
from waitpoint.thread import FinishStep, OpenedCall, RecordStep, StartExecution, StartStep, Stop, Suspend
from waitpoint.thread import facts as f


def entered(call: str = "call1") -> World:
    world = World().say().model_calls(call)
    world.do(StartExecution(1, call))
    return world


def test_a_result_is_kept_through_waits_and_crashes() -> None:
    world = entered()
    accepted(world.do(RecordStep(1, "call1", "charge#0", {"id": 7})))
    accepted(world.do(Suspend(1, "call1", "input", {}, {}, kind="input", style="inline")))
    world.submit(world.thread.actions[0].id)
    world.do(StartExecution(2, "call1"))
    world.do(StartExecution(3, "call1"))
    assert world.call("call1").steps == ("charge#0",)
    assert world.values["step:call1:charge#0"] == {"id": 7}


def test_the_first_result_stands() -> None:
    world = entered()
    world.do(RecordStep(1, "call1", "charge#0", "first"))
    moot(world.do(RecordStep(1, "call1", "charge#0", "second")))
    assert world.values["step:call1:charge#0"] == "first"


def test_calls_do_not_share_results() -> None:
    world = World().say().model_calls("a", "b")
    for call in ("a", "b"):
        world.do(StartExecution(1, call))
        accepted(world.do(RecordStep(1, call, "charge#0", call)))
    assert (world.values["step:a:charge#0"], world.values["step:b:charge#0"]) == ("a", "b")


@pytest.mark.parametrize("how", ["stale", "stopped", "waiting"])
def test_a_result_of_an_execution_that_is_over_is_not_taken(how: str) -> None:
    world = entered()
    fence = 1
    if how == "stale":
        world.do(StartExecution(2, "call1"))
    elif how == "stopped":
        world.do(Stop("s", ANN))
    else:
        world.do(Suspend(1, "call1", "input", {}, {}))
    moot(world.do(RecordStep(fence, "call1", "charge#0", 1)))
    assert "step:call1:charge#0" not in world.values


def test_results_go_when_the_model_has_had_them() -> None:
    world = World().say().model_calls("a", "b")
    world.do(StartExecution(1, "a"))
    world.do(RecordStep(1, "a", "charge#0", 1))
    world.returns("a")
    assert "step:a:charge#0" in world.values
    world.returns("b")
    assert world.values == {}


def test_the_input_of_a_call_that_ends_as_it_is_opened_is_not_left_behind() -> None:
    world = World().say()
    world.do(StartStep(1))
    world.do(FinishStep(1, 0, "stop", None, (OpenedCall("a", "approve", {}, "no such tool"),)))
    assert world.values == {}


def test_clients_hear_nothing_of_a_step() -> None:
    world = entered()
    before = list(world.events)
    world.do(RecordStep(1, "call1", "charge#0", 1))
    assert world.events == before


@pytest.mark.parametrize("style", ["entry", "inline", "approval"])
def test_a_finished_visit_says_how_it_was_made(style: str) -> None:
    world = entered()
    world.do(Suspend(1, "call1", "approval", {}, {}, style=style))  # type: ignore[arg-type]
    world.submit(world.thread.actions[0].id)
    assert [visit.style for visit in world.call("call1").visits] == [style]
    assert any(isinstance(fact, f.ActionResolved) for fact in world.facts)
