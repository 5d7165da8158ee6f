"""Claims: one connection works on an action, for as long as it is there."""

from __future__ import annotations

import pytest

from thread.dsl import ANN, BOB, World, accepted, moot, refused
from waitpoint.thread import (
    CancelAction,
    ClaimAction,
    Expire,
    FailAction,
    Lapse,
    LapseClaim,
    ReleaseAction,
    RenewClaim,
    Rules,
    Stop,
    Submit,
    appointment,
    deadline,
    next_steps,
)
from waitpoint.thread import facts as f
from waitpoint_protocol import events as e

LIFE = Rules().claim


def claim(world: World, action: str, tab: str, by=ANN, id: str | None = None):  # type: ignore[no-untyped-def]
    return world.do(ClaimAction(id or world.command_id(), by, action, tab))


def submit(world: World, action: str, tab: str, by=ANN):  # type: ignore[no-untyped-def]
    return world.do(Submit(world.command_id(), by, action, True, tab))


def test_only_the_tab_that_claimed_a_client_tool_may_answer_it() -> None:
    world = World()
    (action,) = world.waiting(kind="client-tool")
    accepted(claim(world, action, "tab1"))
    late = refused(submit(world, action, "tab2", BOB), "busy")
    assert late.retry_ms
    assert "Ann" in late.message
    refused(world.do(FailAction(world.command_id(), ANN, action, "no camera", "tab2")), "busy")
    refused(submit(world, action, ""), "busy")
    accepted(submit(world, action, "tab1"))


def test_a_client_tool_that_nobody_claimed_may_be_answered_from_anywhere() -> None:
    world = World()
    (action,) = world.waiting(kind="client-tool")
    accepted(submit(world, action, "", BOB))


@pytest.mark.parametrize("kind", [None, "external"])
def test_a_claim_on_another_wait_keeps_nobody_from_answering(kind: str | None) -> None:
    world = World()
    (action,) = world.waiting(kind=kind)
    accepted(claim(world, action, "tab1"))
    accepted(submit(world, action, "tab2", BOB))


@pytest.mark.parametrize("way", ["cancel", "stop", "message", "expire"])
def test_people_and_deadlines_end_a_claimed_client_tool(way: str) -> None:
    world = World()
    (action,) = world.waiting(kind="client-tool", expires_in=1000)
    accepted(claim(world, action, "tab1"))
    match way:
        case "cancel":
            world.do(CancelAction(world.command_id(), BOB, action))
        case "stop":
            world.do(Stop(world.command_id(), BOB))
        case "message":
            world.say(BOB)
        case _:
            world.now += 1000
            world.do(Expire(action))
    assert world.thread.action(action) is None
    refused(submit(world, action, "tab1"), "expired" if way == "expire" else "already-resolved")


def test_a_claim_lapses_unless_it_is_renewed_and_everybody_hears_of_it_once() -> None:
    world = World()
    (action,) = world.waiting(kind="client-tool")
    accepted(claim(world, action, "tab1"))
    world.events.clear()
    world.now += LIFE - 1
    assert LapseClaim(action) not in next_steps(world.thread, now=world.now, fence=1)
    moot(world.do(Lapse(action)))
    accepted(world.do(RenewClaim("x", ANN, action, "tab1")))
    assert world.events == [], "a renewal is nobody's business"
    world.now += LIFE - 1
    refused(submit(world, action, "tab2"), "busy")
    world.now += 1
    assert next_steps(world.thread, now=world.now, fence=1) == [LapseClaim(action)]
    accepted(world.do(Lapse(action)))
    assert world.events == [e.ActionClaimed(action=action)]
    moot(world.do(Lapse(action)))
    refused(world.do(RenewClaim("y", ANN, action, "tab1")), "forbidden")


def test_a_claim_that_ran_out_is_void_even_before_anybody_wrote_it_down() -> None:
    world = World()
    (action,) = world.waiting(kind="client-tool")
    accepted(claim(world, action, "tab1"))
    world.now += LIFE
    accepted(claim(world, action, "tab2", BOB))
    refused(world.do(RenewClaim("x", ANN, action, "tab1")), "forbidden")
    refused(submit(world, action, "tab1"), "busy")
    accepted(submit(world, action, "tab2", BOB))


def test_somebody_is_due_when_a_claim_runs_out() -> None:
    world = World()
    (action,) = world.waiting(kind="client-tool", expires_in=2 * LIFE)
    assert appointment(world.thread) == world.now + 2 * LIFE
    accepted(claim(world, action, "tab1"))
    assert appointment(world.thread) == deadline(world.thread) == world.now + LIFE
    accepted(world.do(ReleaseAction(world.command_id(), ANN, action, "tab1")))
    assert appointment(world.thread) == world.now + 2 * LIFE


def test_a_repeated_claim_is_the_same_over_its_connection_and_a_new_one_over_another() -> None:
    world = World()
    (action,) = world.waiting(kind="client-tool")
    assert not accepted(claim(world, action, "tab1", id="same")).dup
    assert accepted(claim(world, action, "tab1", id="same")).dup
    # The reply was lost with the connection, and the client sends its command again over the next one.
    refused(claim(world, action, "tab2", id="same"), "busy")
    accepted(world.do(ReleaseAction(world.command_id(), ANN, action, "tab1")))
    again = accepted(claim(world, action, "tab2", id="same"))
    assert not again.dup
    assert world.thread.actions[0].claim is not None
    assert world.thread.actions[0].claim.connection == "tab2"


def test_a_repeated_claim_never_brings_back_an_action_that_ended() -> None:
    world = World()
    (action,) = world.waiting(kind="client-tool")
    accepted(claim(world, action, "tab1", id="same"))
    accepted(submit(world, action, "tab1"))
    refused(claim(world, action, "tab1", id="same"), "already-resolved")


def test_the_claim_of_an_action_ends_with_it() -> None:
    world = World()
    (action,) = world.waiting(kind="client-tool")
    accepted(claim(world, action, "tab1"))
    accepted(submit(world, action, "tab1"))
    assert not any(isinstance(fact, f.ActionClaimed) and fact.claim is None for fact in world.facts)
    assert deadline(world.thread) is None
