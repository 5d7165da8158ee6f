"""Edges that only real runs showed: runs that were cut off after their last step, ids that look alike, late repeats."""

from __future__ import annotations

from thread.dsl import ANN, World, accepted, moot
from waitpoint.thread import Actor, SendMessage, Settle, appointment, next_steps
from waitpoint.thread import facts as f
from waitpoint.thread.decide import outcome_key


def test_a_run_that_was_cut_off_with_nothing_left_to_do_is_finished_by_the_next_driver() -> None:
    world = World()
    world.waiting("call1")  # the driver died between the suspension and its settling
    run = world.thread.run
    assert run is not None
    assert next_steps(world.thread, now=world.now, fence=2) == []
    decided = accepted(world.do(Settle(2)))
    assert [type(fact) for fact in decided.facts] == [f.RunFinished]
    assert world.events[-1].type == "run-finish"
    assert world.events[-1].run == run.id
    assert world.events[-1].status == "waiting"
    assert appointment(world.thread) is None
    moot(world.do(Settle(2)))


def test_a_stale_driver_does_not_finish_the_run_of_a_newer_one() -> None:
    world = World()
    world.waiting("call1")
    world.submit(world.thread.actions[0].id)
    world.returns("call1", fence=2)
    moot(world.do(Settle(1)))
    assert world.thread.run is not None
    assert world.thread.run.fence == 2


def test_ids_with_colons_never_name_the_outcome_of_somebody_else() -> None:
    pairs = [("a", "b:c"), ("a:b", "c"), ("a%3Ab", "c"), ("a:", "b:c"), ("", "a:b:c")]
    keys = [outcome_key(Actor(identity), command) for identity, command in pairs]
    assert len(set(keys)) == len(pairs)


def test_a_repeat_of_an_accepted_message_gets_its_reply_when_a_new_one_would_be_refused() -> None:
    world = World().say(id="first")
    world.model_calls("call1")
    world.suspends("call1", on_message="refuse")
    for n in range(40):  # the control state remembers only the newest outcomes
        world.do(SendMessage(f"refused{n}", ANN, [{"type": "text", "text": "x", "state": "done"}], 1))
        world.submit(world.thread.actions[0].id, "not a boolean")
    repeated = accepted(world.say(id="first").last)
    assert repeated.dup
