"""What follows from facts outside the control state: events for clients, values to store, values no longer needed.

Knows facts, events and value ids; no store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, assert_never

from waitpoint_protocol import events as e
from waitpoint_protocol import state as wire
from waitpoint_protocol.timestamps import from_millis
from waitpoint_protocol.values import Value

from . import facts as f
from .model import Action, Claim, Request, Resolution, Thread

__all__ = [
    "answer_id",
    "drops",
    "input_id",
    "live_view",
    "project",
    "question_id",
    "step_id",
    "values",
    "wire_action",
    "wire_resolution",
]


def input_id(call: str) -> str:
    """Where the input of a call is stored."""
    return f"in:{call}"


def question_id(action: str) -> str:
    """Where what an action asks is stored."""
    return f"ask:{action}"


def answer_id(action: str) -> str:
    """Where the answer of an action is stored."""
    return f"ans:{action}"


def step_id(call: str, step: str) -> str:
    """Where the result of a step of a call is stored."""
    return f"step:{call}:{step}"


def values(facts: Iterable[f.Fact]) -> dict[str, Value]:
    """Large values that these facts brought, by id."""
    stored: dict[str, Value] = {}
    for fact in facts:
        match fact:
            case f.CallOpened(call, _, _, input):
                stored[input_id(call)] = input
            case f.StepRecorded(call, name, value):
                stored[step_id(call, name)] = value
            case f.ActionSuspended(action, input):
                stored[question_id(action.id)] = input
            case f.ActionResolved(action_id, answered=True, data=data):
                stored[answer_id(action_id)] = data
            case _:
                pass
    return stored


def drops(thread: Thread, facts: Sequence[f.Fact]) -> list[str]:
    """Value ids that nothing needs after these facts; ``thread`` is the state before them."""
    gone = [answer_id(fact.action) for fact in facts if isinstance(fact, f.ContinuationEnded)]
    ends = [at for at, fact in enumerate(facts) if isinstance(fact, (f.StepAdvanced, f.TurnClosed))]
    if thread.turn is None or not ends:
        return gone
    # A call that cannot be run ends in the commit that opened it; what that commit brought is not needed either.
    gone += _of_calls(thread, facts[: ends[-1]])
    for call in thread.turn.calls:
        gone.append(input_id(call.id))
        gone += [step_id(call.id, step) for step in call.steps]
        for visit in call.visits:
            gone += [question_id(visit.action), answer_id(visit.action)]
        if call.action is not None:
            gone += [question_id(call.action), answer_id(call.action)]
    return gone


def _of_calls(thread: Thread, facts: Sequence[f.Fact]) -> list[str]:
    """Ids of values that these facts brought to calls; those of requests outlive any turn."""
    requests = {request.action for request in thread.requests}
    requests |= {fact.request.action for fact in facts if isinstance(fact, f.RequestOpened)}
    return list(values(fact for fact in facts if getattr(fact, "action", None) not in requests))


def project(facts: Iterable[f.Fact]) -> list[e.Event]:
    """The events that clients see of these facts."""
    return [event for fact in facts for event in _events(fact)]


def _events(fact: f.Fact) -> list[e.Event]:
    match fact:
        case f.MessageAdded(message):
            return [e.MessageAdded(message=message)]
        case f.MessageQueued(message):
            return [e.MessageQueued(message=message)]
        case f.TurnOpened(message_id, at):
            return [e.MessageStart(message_id=message_id, at=from_millis(at))]
        case f.RunStarted(run, _, at):
            return [e.RunStart(run=run, at=from_millis(at))]
        case f.RunFinished(run, status, at):
            return [e.RunFinish(run=run, status=status, at=from_millis(at))]
        case f.StepStarted(step, _, _, reset):
            return [e.StepReset(step=step)] if reset else []
        case f.StepFinished(step, reason, usage):
            return [e.StepFinish(step=step, reason=reason, usage=usage)]
        case f.CallOpened(call, tool, step, input):
            return [e.ToolInputAvailable(tool_call_id=call, tool_name=tool, step=step, input=input)]
        case f.ExecutionStarted(call, attempt):
            return [e.ToolRunning(tool_call_id=call, attempt=attempt)]
        case f.ActionSuspended(action, input, message):
            return [e.ActionPending(action=wire_action(action, input, message))]
        case f.RequestOpened(request, action):
            return [e.ActionPending(action=wire_action(action, request.input, ""))]
        case f.ActionClaimed(action_id, claim):
            return [e.ActionClaimed(action=action_id, claim=_wire_claim(claim))]
        case f.ActionResolved():
            resolution = wire_resolution(fact.resolution)
            if fact.answered and fact.redact:
                resolution["redacted"] = True
            elif fact.answered:
                resolution["data"] = fact.data
            return [e.ActionResolved(action=fact.action, tool_call_id=fact.call, resolution=resolution)]
        case f.CallReturned(call, output):
            return [e.ToolOutputAvailable(tool_call_id=call, output=output)]
        case f.CallFailed(call, error_text):
            return [e.ToolOutputError(tool_call_id=call, error_text=error_text)]
        case f.TurnClosed(message, reason, error_text):
            return [e.MessageFinish(message_id=message["id"], reason=reason, error_text=error_text)]
        case (
            f.CommandAccepted()
            | f.TurnSuperseded()
            | f.StepAdvanced()
            | f.StepYielded()
            | f.ExecutionYielded()
            | f.ClaimRenewed()
            | f.ContinuationStarted()
            | f.ContinuationYielded()
            | f.ContinuationEnded()
            | f.StepRecorded()
            | f.TurnClosing()
        ):
            return []
        case _:
            assert_never(fact)


def wire_action(action: Action, input: Value, message: str) -> wire.Action:
    """An action as clients see it."""
    spelled: wire.Action = {
        "id": action.id,
        "name": action.name,
        "input": input,
        "schema": action.schema,
        "origin": {
            "toolName": action.tool,
            "suspendName": action.wait_point,
            "messageId": message,
            "toolCallId": action.call,
        },
        "at": from_millis(action.at),
    }
    if action.kind is not None:
        spelled["kind"] = action.kind
    if action.expires_at is not None:
        spelled["expiresAt"] = from_millis(action.expires_at)
    return spelled


def wire_resolution(resolution: Resolution) -> wire.Resolution:
    """A resolution as clients see it, without the answer."""
    spelled: wire.Resolution = {
        "how": resolution.how,
        "by": resolution.by.wire(),
        "at": from_millis(resolution.at),
    }
    if resolution.reason is not None:
        spelled["reason"] = resolution.reason
    if resolution.message is not None:
        spelled["message"] = resolution.message
    return spelled


def _wire_claim(claim: Claim | None) -> wire.Claim | None:
    return None if claim is None else {"by": claim.by.wire(), "connection": claim.connection}


def _requested(thread: Thread) -> list[tuple[Action, Request]]:
    asked = [(action, thread.request(action.id)) for action in thread.actions]
    return [(action, request) for action, request in asked if request is not None]


def _pending(action: Action, input: Value) -> wire.Action:
    spelled = wire_action(action, input, "")
    claim = _wire_claim(action.claim)
    if claim is not None:
        spelled["claim"] = claim
    return spelled


def live_view(thread: Thread) -> wire.ThreadState:
    """The live part of the view at the moment a turn opened or closed, when nothing is in the open message yet.

    What waits then are requests, which no turn ends.

    Derived from the control state, so the instance that takes a message needs no fold to write a checkpoint.
    """
    view: Any = {
        "thread": thread.id,
        "status": "idle" if thread.run is None else "running",
        "messages": [],
        "before": 0,
        "pending": [_pending(action, request.input) for action, request in _requested(thread)],
        "queued": [queued.message for queued in thread.queue],
    }
    if thread.turn is not None:
        at = from_millis(thread.turn.at)
        opened = {"id": thread.turn.message, "role": "assistant", "parts": [], "status": "open", "at": at}
        view["messages"].append(opened)
    if thread.title is not None:
        view["title"] = thread.title
    result: wire.ThreadState = view
    return result
