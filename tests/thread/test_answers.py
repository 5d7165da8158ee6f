"""Promises 1-3: one winner, addressed, validated at the door."""

from __future__ import annotations

import pytest

from thread.dsl import ANN, BOB, World, accepted, moot, refused
from waitpoint.thread import CancelAction, ClaimAction, EnterTool, Expire, FailAction, ReleaseAction, next_steps
from waitpoint.thread import facts as f
from waitpoint.thread.evolve import REMEMBERED


def test_an_answer_readies_its_call_and_no_other() -> None:
    world = World()
    first, second = world.waiting("call1", "call2")
    accepted(world.submit(second))
    assert next_steps(world.thread, now=world.now, fence=1) == [EnterTool("call2")]
    assert world.call("call1").action == first


def test_second_answer_gets_already_resolved_with_who_and_how() -> None:
    world = World()
    (action,) = world.waiting()
    accepted(world.submit(action, True, by=ANN))
    late = refused(world.submit(action, False, by=BOB), "already-resolved")
    assert late.winner is not None
    assert (late.winner.how, late.winner.by) == ("submitted", ANN)
    assert "Ann" in late.message


@pytest.mark.parametrize("first", ["submit", "cancel", "fail", "expire", "stop"])
@pytest.mark.parametrize("second", ["submit", "cancel", "fail"])
def test_whatever_ends_an_action_first_wins(first: str, second: str) -> None:
    world = World()
    (action,) = world.waiting(expires_in=1000)
    _end(world, first, action)
    how = {"submit": "submitted", "cancel": "cancelled", "fail": "failed", "expire": "expired", "stop": "cancelled"}
    late = _end(world, second, action)
    assert refused(late, "expired" if first == "expire" else "already-resolved").winner.how == how[first]  # type: ignore[union-attr]
    resolved = [fact for fact in world.facts if isinstance(fact, f.ActionResolved)]
    assert len(resolved) == 1


def _end(world: World, way: str, action: str):  # type: ignore[no-untyped-def]
    from waitpoint.thread import Stop

    match way:
        case "submit":
            return world.submit(action)
        case "cancel":
            return world.do(CancelAction(world.command_id(), BOB, action, "no need"))
        case "fail":
            return world.do(FailAction(world.command_id(), BOB, action, "no camera"))
        case "stop":
            return world.do(Stop(world.command_id(), BOB))
        case _:
            world.now += 2000
            return world.do(Expire(action))


def test_a_late_answer_never_lands_on_a_newer_question() -> None:
    world = World()
    (old,) = world.waiting()
    accepted(world.submit(old, False))
    world.returns("call1", {"approved": False})
    world.model_calls("call2")
    new = world.suspends("call2")
    refused(world.submit(old, True, by=BOB), "already-resolved")
    assert world.thread.action(new) is not None
    assert world.call("call2").action == new


def test_a_repeat_gets_the_first_reply_and_changes_nothing() -> None:
    world = World()
    (action,) = world.waiting()
    first = accepted(world.submit(action, id="same"))
    before = world.thread
    again = accepted(world.submit(action, id="same"))
    assert again.dup
    assert again.facts == ()
    assert again.reply == first.reply
    assert world.thread == before


def test_a_repeat_is_known_long_after_it_left_the_control_state() -> None:
    world = World()
    world.say(id="first")
    for _ in range(REMEMBERED + 5):
        world.model_calls()
        world.closes()
        world.say()
    assert accepted(world.say(id="first").last).dup


def test_the_same_id_with_another_payload_is_refused() -> None:
    world = World()
    (action,) = world.waiting()
    accepted(world.submit(action, True, id="same"))
    refused(world.submit(action, False, id="same"), "id-conflict")


def test_the_same_id_from_somebody_else_is_another_command() -> None:
    world = World()
    (action,) = world.waiting()
    accepted(world.submit(action, True, by=ANN, id="same"))
    refused(world.submit(action, True, by=BOB, id="same"), "already-resolved")


@pytest.mark.parametrize("data", ["true", 1, "yes", None, 0, [], {}])
def test_a_bad_answer_bounces_and_the_tool_keeps_waiting(data: object) -> None:
    world = World()
    (action,) = world.waiting()
    before, facts = world.thread, len(world.facts)
    bounced = refused(world.submit(action, data), "invalid")
    assert bounced.errors[0].code == "bool_type"
    assert world.thread == before
    assert len(world.facts) == facts


def test_ten_bad_answers_then_a_good_one() -> None:
    world = World()
    (action,) = world.waiting()
    for _ in range(10):
        refused(world.submit(action, "maybe"), "invalid")
    accepted(world.submit(action, False))
    assert len(world.call("call1").visits) == 1


def test_false_is_an_answer() -> None:
    world = World()
    (action,) = world.waiting()
    accepted(world.submit(action, False))
    assert [fact.data for fact in world.facts if isinstance(fact, f.ActionResolved)] == [False]


def test_cancel_and_fail_are_never_validated() -> None:
    for command in (CancelAction("x", ANN, "a", None), FailAction("x", ANN, "a", "broken")):
        world = World()
        (action,) = world.waiting()
        accepted(world.do(type(command)(command.id, command.by, action, *_rest(command))))
        assert world.thread.turn is not None
        assert world.thread.turn.phase == "model"


def _rest(command: CancelAction | FailAction) -> tuple[str | None]:
    return (command.reason,) if isinstance(command, CancelAction) else (command.message,)


def test_an_unknown_action_is_a_definite_error() -> None:
    refused(World().submit("made-up"), "unknown-action")


def test_a_running_or_finished_call_cannot_be_answered() -> None:
    world = World()
    world.say().model_calls("call1")
    refused(world.submit("call1"), "unknown-action")
    world.returns("call1")
    refused(world.submit("call1"), "unknown-action")


def test_only_the_audience_may_answer() -> None:
    world = World()
    (action,) = world.waiting(audience=("bob",))
    refused(world.submit(action, by=ANN), "forbidden")
    accepted(world.submit(action, by=BOB))


def test_an_answer_after_the_deadline_gets_expired_even_before_anybody_wrote_it_down() -> None:
    world = World()
    (action,) = world.waiting(expires_in=1000)
    world.now += 1000
    refused(world.submit(action), "expired")
    accepted(world.do(Expire(action)))
    late = refused(world.submit(action), "expired")
    assert late.winner is not None
    assert late.winner.by.kind == "system"


def test_expiry_is_moot_before_the_deadline_and_fires_once() -> None:
    world = World()
    (action,) = world.waiting(expires_in=1000)
    moot(world.do(Expire(action)))
    world.now += 1000
    accepted(world.do(Expire(action)))
    moot(world.do(Expire(action)))


def test_a_claim_keeps_other_tabs_out_until_it_is_released() -> None:
    world = World()
    (action,) = world.waiting()
    accepted(world.do(ClaimAction("claim1", ANN, action, "tab1")))
    refused(world.do(ClaimAction("claim2", ANN, action, "tab2")), "busy")
    refused(world.do(ReleaseAction("claim3", ANN, action, "tab2")), "forbidden")
    accepted(world.do(ReleaseAction("claim4", ANN, action, "tab1")))
    accepted(world.do(ClaimAction("claim5", ANN, action, "tab2")))
