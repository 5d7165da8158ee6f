"""How facts change the control state. Total over what ``decide`` produces; decides nothing itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from . import facts as f
from .model import Action, Call, CallState, Queued, Request, Run, Thread, Turn, Visit
from .moves import check_move

__all__ = ["REMEMBERED", "evolve", "evolve_all"]

REMEMBERED = 16
"""Outcomes kept in the control state; older ones are looked up in the store's outcome table."""


def evolve_all(thread: Thread, facts: Iterable[f.Fact]) -> Thread:
    """Apply facts in order."""
    for fact in facts:
        thread = evolve(thread, fact)
    return thread


def evolve(thread: Thread, fact: f.Fact) -> Thread:
    """The control state after ``fact``."""
    match fact:
        case f.CommandAccepted(outcome):
            return replace(thread, outcomes=(*thread.outcomes, outcome)[-REMEMBERED:])
        case f.MessageAdded(message):
            return replace(thread, queue=tuple(q for q in thread.queue if q.message["id"] != message["id"]))
        case f.MessageQueued(message, size):
            return replace(thread, queue=(*thread.queue, Queued(message, size)))
        case f.TurnOpened(message_id, at, by):
            return replace(thread, turn=Turn(message_id, at=at, by=by))
        case f.RunStarted(run, fence):
            return replace(thread, run=Run(run, fence))
        case f.RunFinished():
            return replace(thread, run=None)
        case f.TurnClosed():
            return replace(thread, turn=None)
        case f.ActionClaimed(action_id, claim):
            return replace(
                thread,
                actions=tuple(replace(a, claim=claim) if a.id == action_id else a for a in thread.actions),
            )
        case f.ClaimRenewed(action_id, expires_at):
            return replace(
                thread,
                actions=tuple(_renewed(a, expires_at) if a.id == action_id else a for a in thread.actions),
            )
        case f.RequestOpened(request, action):
            return replace(thread, actions=(*thread.actions, action), requests=(*thread.requests, request))
        case f.ContinuationStarted(action_id, attempt, fence):
            return _with_request(thread, replace(_request(thread, action_id), attempt=attempt, fence=fence))
        case f.ContinuationYielded(action_id):
            request = _request(thread, action_id)
            return _with_request(thread, replace(request, attempt=request.attempt - 1, fence=0))
        case f.ContinuationEnded(action_id):
            return replace(thread, requests=tuple(r for r in thread.requests if r.action != action_id))
        case f.ActionResolved(action_id) if thread.request(action_id) is not None:
            return _answered(thread, fact)
        case _:
            if thread.turn is None:
                raise AssertionError(f"{type(fact).__name__} outside a turn")
            return _in_turn(thread, thread.turn, fact)


def _in_turn(
    thread: Thread,
    turn: Turn,
    fact: f.TurnSuperseded
    | f.StepStarted
    | f.StepYielded
    | f.StepFinished
    | f.StepAdvanced
    | f.CallOpened
    | f.ExecutionStarted
    | f.ExecutionYielded
    | f.StepRecorded
    | f.ActionSuspended
    | f.ActionResolved
    | f.CallReturned
    | f.CallFailed
    | f.TurnClosing,
) -> Thread:
    match fact:
        case f.TurnSuperseded():
            return replace(thread, turn=replace(turn, superseded=True))
        case f.StepStarted(_, attempt, fence):
            return replace(thread, turn=replace(turn, step_attempt=attempt, step_fence=fence))
        case f.StepYielded():
            # The fence stays non-zero: whatever was streamed must be reset by the next attempt.
            return replace(thread, turn=replace(turn, step_attempt=turn.step_attempt - 1, step_fence=-1))
        case f.StepFinished():
            return replace(thread, turn=replace(turn, phase="tools"))
        case f.StepAdvanced(step):
            fresh = replace(turn, phase="model", step=step, step_attempt=0, step_fence=0, calls=())
            return replace(thread, turn=fresh)
        case f.TurnClosing(reason, error_text):
            return replace(thread, turn=replace(turn, phase="closing", reason=reason, error_text=error_text))
        case f.CallOpened(call_id, tool):
            return replace(thread, turn=replace(turn, calls=(*turn.calls, Call(call_id, tool))))
        case f.ExecutionStarted(call_id, attempt, fence):
            call = _moved(turn, call_id, "running")
            return replace(thread, turn=turn.with_call(replace(call, attempt=attempt, fence=fence)))
        case f.ExecutionYielded(call_id):
            call = _call(turn, call_id)
            return replace(thread, turn=turn.with_call(replace(call, attempt=call.attempt - 1, fence=0)))
        case f.StepRecorded(call_id, name):
            call = _call(turn, call_id)
            return replace(thread, turn=turn.with_call(replace(call, steps=(*call.steps, name))))
        case f.ActionSuspended(action):
            call = _moved(turn, action.call, "waiting")
            waiting = replace(call, action=action.id, entry=None, attempt=0, fence=0)
            return replace(thread, actions=(*thread.actions, action), turn=turn.with_call(waiting))
        case f.ActionResolved():
            return _resolved(thread, turn, fact)
        case f.CallReturned(call_id):
            return replace(thread, turn=turn.with_call(_moved(turn, call_id, "output-available")))
        case f.CallFailed(call_id):
            return replace(thread, turn=turn.with_call(_moved(turn, call_id, "output-error")))
        case _:
            assert_never(fact)


def _answered(thread: Thread, fact: f.ActionResolved) -> Thread:
    request = _request(thread, fact.action)
    if request.resolution is not None or thread.action(fact.action) is None:
        raise AssertionError("only a pending action is resolved, and only once")
    left = replace(thread, actions=tuple(action for action in thread.actions if action.id != fact.action))
    if fact.answered or request.unanswered:
        return _with_request(left, replace(request, resolution=fact.resolution))
    return replace(left, requests=tuple(r for r in left.requests if r.action != fact.action))


def _request(thread: Thread, action: str) -> Request:
    request = thread.request(action)
    if request is None:
        raise AssertionError(f"no request {action}")
    return request


def _with_request(thread: Thread, changed: Request) -> Thread:
    return replace(thread, requests=tuple(changed if r.action == changed.action else r for r in thread.requests))


def _renewed(action: Action, expires_at: int) -> Action:
    if action.claim is None:
        raise AssertionError("only a claim that is held is renewed")
    return replace(action, claim=replace(action.claim, expires_at=expires_at))


def _resolved(thread: Thread, turn: Turn, fact: f.ActionResolved) -> Thread:
    call = _call(turn, fact.call)
    action = thread.action(fact.action)
    if action is None or call.action != fact.action:
        raise AssertionError("only a pending action is resolved, and only once")
    visit = Visit(fact.action, action.wait_point, action.at, fact.resolution, action.style)
    call = replace(
        call,
        action=None,
        entry=fact.action if fact.answered else None,
        visits=(*call.visits, visit),
    )
    left = tuple(other for other in thread.actions if other.id != fact.action)
    return replace(thread, actions=left, turn=turn.with_call(call))


def _call(turn: Turn, call_id: str) -> Call:
    call = turn.call(call_id)
    if call is None:
        raise AssertionError(f"no call {call_id} in this step")
    return call


def _moved(turn: Turn, call_id: str, state: CallState) -> Call:
    call = _call(turn, call_id)
    check_move(call.state, state)
    return replace(call, state=state)
