"""Decide: a thread and a command go in; facts, a refusal or "moot" come out. Nothing else changes anything.

The order of checks for an answer is PROTOCOL.md's: known, repeat of the same id, still pending, allowed, not expired,
schema. Size, shape and the right to see the thread were checked before the command came here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, assert_never
from urllib.parse import quote

from waitpoint_protocol.codes import RefusalCode
from waitpoint_protocol.frames import FieldError
from waitpoint_protocol.timestamps import from_millis
from waitpoint_protocol.values import Value

from . import commands as c
from . import facts as f
from .evolve import evolve_all
from .model import CLIENT_TOOL, SYSTEM, Action, Actor, Call, Claim, Outcome, Queued, Request, Resolution, Thread, Turn

__all__ = ["Accepted", "Context", "Decision", "Ids", "Moot", "Past", "Refused", "Rules", "decide", "outcome_key"]


class Ids(Protocol):
    """Where new ids come from. Injected, so that decisions can be replayed."""

    def new(self, kind: str) -> str:
        """A fresh id; ``kind`` is a one-letter prefix for people who read logs."""
        ...


@dataclass(frozen=True, slots=True)
class Rules:
    """Limits of a thread. ``queue_bytes`` counts the JSON of queued messages, ``claim`` is in ms.

    ``requests`` are those whose continuation has not run yet.
    """

    step_cap: int = 16
    model_attempts: int = 3
    queue_messages: int = 16
    queue_bytes: int = 262_144
    claim: int = 15_000
    requests: int = 16


@dataclass(frozen=True, slots=True)
class Past:
    """What the outcome table knows of this command and its action, looked up because the control state did not."""

    outcome: Outcome | None = None
    resolution: Resolution | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """Everything a decision may depend on besides the thread: the store's clock (ms), ids, limits, memory, schemas."""

    now: int
    ids: Ids
    check_answer: Callable[[Action, Value], Sequence[FieldError]]
    rules: Rules = field(default_factory=Rules)
    past: Past = field(default_factory=Past)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The facts to commit; none for a repeat (``dup``). ``reply`` goes into the ack."""

    facts: tuple[f.Fact, ...]
    reply: dict[str, Any] = field(default_factory=dict)
    dup: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """A coded no; nothing is written."""

    code: RefusalCode
    message: str
    errors: tuple[FieldError, ...] = ()
    winner: Resolution | None = None
    retry_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Moot:
    """What the driver reports or wants no longer matters: the thread has moved on."""

    why: str


Decision = Accepted | Refused | Moot


def outcome_key(actor: Actor, command_id: str) -> str:
    """Where the outcome of a command is kept. Scoped by identity: ids of others are never answered."""
    # Both ids may hold a colon; written like this, none of them can be read as part of the other.
    return ":".join((actor.kind, quote(actor.id, safe=""), command_id))


def decide(thread: Thread, command: c.Command, context: Context) -> Decision:
    """What ``command`` does to ``thread``."""
    match command:
        case c.Submit() | c.CancelAction() | c.FailAction() | c.ClaimAction() | c.ReleaseAction():
            return _on_action(thread, command, context)
        case c.SendMessage() | c.Stop():
            repeat = _repeat(thread, command, context)
            if repeat is not None:
                return repeat
            if isinstance(command, c.Stop):
                return _stop(thread, command, context)
            return _send(thread, command, context)
        case c.RenewClaim():
            return _renew(thread, command, context)
        case c.OpenRequest():
            return _repeat(thread, command, context) or _open_request(thread, command, context)
        case c.Expire():
            return _expire(thread, command, context)
        case c.Lapse():
            return _lapse(thread, command, context)
        case _:
            return _driver(thread, command, context)


# --- people


def _digest(command: c.PersonCommand) -> str:
    """A digest of what is asked, without who and under which id, to tell a repeat from a reused id."""
    match command:
        case c.SendMessage(parts=parts):
            asked: list[Value] = ["message", parts]
        case c.Submit(action=action, data=data):
            asked = ["submit", action, data]
        case c.CancelAction(action=action, reason=reason):
            asked = ["cancel", action, reason]
        case c.FailAction(action=action, message=message):
            asked = ["fail", action, message]
        case c.ClaimAction(action=action):
            asked = ["claim", action]
        case c.ReleaseAction(action=action):
            asked = ["release", action]
        case c.RenewClaim(action=action):
            asked = ["renew", action]
        case c.OpenRequest(continuation=continuation, wait_point=wait_point, input=input):
            asked = ["request", continuation, wait_point, input]
        case c.Stop():
            asked = ["stop"]
        case _:
            assert_never(command)
    spelled = json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(spelled.encode()).hexdigest()[:32]


def _repeat(thread: Thread, command: c.PersonCommand, context: Context) -> Accepted | Refused | None:
    known = thread.outcome(outcome_key(command.by, command.id)) or context.past.outcome
    if known is None:
        return None
    if known.digest != _digest(command):
        return Refused("id-conflict", f"command id {command.id} was used for something else; make a new id per command")
    return Accepted((), known.reply, dup=True)


def _accept(command: c.PersonCommand, facts: Sequence[f.Fact], reply: dict[str, Any] | None = None) -> Accepted:
    reply = reply or {}
    outcome = Outcome(outcome_key(command.by, command.id), _digest(command), reply)
    return Accepted((f.CommandAccepted(outcome), *facts), reply)


def _on_action(
    thread: Thread,
    command: c.Submit | c.CancelAction | c.FailAction | c.ClaimAction | c.ReleaseAction,
    context: Context,
) -> Decision:
    action = thread.action(command.action)
    resolution = thread.resolution(command.action) or context.past.resolution
    if action is None and resolution is None:
        return Refused("unknown-action", f"no action {command.action} in this thread")
    repeat = _repeat(thread, command, context)
    if repeat is not None:
        return repeat
    if action is None:
        assert resolution is not None
        return late(resolution)
    # The application itself is asked nothing: it said who the audience is.
    if action.audience is not None and command.by.kind == "person" and command.by.id not in action.audience:
        return Refused("forbidden", "this action is for somebody else to answer")
    if action.expires_at is not None and action.expires_at <= context.now:
        # The deadline rules, even if no driver has written the expiry down yet.
        return Refused("expired", f"this action expired at {from_millis(action.expires_at)}")
    if isinstance(command, (c.Submit, c.FailAction)) and _in_other_hands(action, command.connection, context):
        return _claimed(action)
    match command:
        case c.Submit(data=data):
            errors = tuple(context.check_answer(action, data))
            if errors:
                return Refused("invalid", _summary(errors), errors=errors)
            resolution = Resolution("submitted", command.by, context.now)
            fact = f.ActionResolved(action.id, action.call, resolution, True, data, action.redact)
            return _accept(command, [fact], {"action": action.id})
        case c.CancelAction(reason=reason):
            resolution = Resolution("cancelled", command.by, context.now, reason=reason)
            facts = _end_waiting(thread, action, resolution)
        case c.FailAction(message=message):
            resolution = Resolution("failed", command.by, context.now, message=message)
            facts = _end_waiting(thread, action, resolution)
        case c.ClaimAction() | c.ReleaseAction():
            return _claim(action, command, context)
        case _:
            assert_never(command)
    return _accept(command, [*facts, *_barrier(thread, facts, context)], {"action": action.id})


def late(resolution: Resolution) -> Refused:
    """The refusal that tells a late sender how the action ended."""
    at = from_millis(resolution.at)
    if resolution.how == "expired":
        return Refused("expired", f"this action expired at {at}", winner=resolution)
    return Refused("already-resolved", f"{resolution.how} by {resolution.by.label} at {at}", winner=resolution)


def _summary(errors: Sequence[FieldError]) -> str:
    first = errors[0]
    where = ".".join(str(step) for step in first.path)
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{where}: {first.message}{more}" if where else f"{first.message}{more}"


def _in_other_hands(action: Action, connection: str, context: Context) -> bool:
    """Whether somebody else runs this client tool. Other actions may be answered whoever works on them."""
    holder = action.held(context.now)
    return action.kind == CLIENT_TOOL and holder is not None and holder.connection != connection


def _claimed(action: Action) -> Refused:
    assert action.claim is not None
    return Refused("busy", f"claimed by {action.claim.by.label} in another tab", retry_ms=1000)


def _claim(action: Action, command: c.ClaimAction | c.ReleaseAction, context: Context) -> Decision:
    # Neither is remembered by its id: a claim belongs to a connection, and its repeat may come over another one.
    reply = {"action": action.id}
    if isinstance(command, c.ReleaseAction):
        if action.claim is None or action.claim.connection != command.connection:
            return Refused("forbidden", "this connection does not hold the claim")
        return Accepted((f.ActionClaimed(action.id, None),), reply)
    holder, until = action.held(context.now), context.now + context.rules.claim
    if holder is None:
        return Accepted((f.ActionClaimed(action.id, Claim(command.by, command.connection, until)),), reply)
    if holder.connection != command.connection:
        return _claimed(action)
    return Accepted((f.ClaimRenewed(action.id, until),), reply, dup=True)


def _renew(thread: Thread, command: c.RenewClaim, context: Context) -> Decision:
    action = thread.action(command.action)
    if action is None or action.claim is None or action.claim.connection != command.connection:
        return Refused("forbidden", "this connection does not hold the claim")
    return Accepted((f.ClaimRenewed(action.id, context.now + context.rules.claim),), {"action": action.id})


def _send(thread: Thread, command: c.SendMessage, context: Context) -> Decision:
    at = from_millis(context.now)
    message_id = context.ids.new("m")
    message: Any = {
        "id": message_id,
        "role": "user",
        "parts": command.parts,
        "status": "final",
        "at": at,
        "by": command.by.wire(),
    }
    if thread.turn is None:
        opened = f.TurnOpened(context.ids.new("m"), context.now, command.by)
        return _accept(command, [f.MessageAdded(message), opened], {"message": message_id})
    waiting = _of_tools(thread)
    refusing = [action for action in waiting if action.on_message == "refuse"]
    if refusing:
        return Refused("waiting", f"{refusing[0].name} must be answered or cancelled before the next message")
    if len(thread.queue) >= context.rules.queue_messages:
        return Refused("busy", "too many messages wait for their turn", retry_ms=2000)
    if sum(queued.size for queued in thread.queue) + command.size > context.rules.queue_bytes:
        return Refused("busy", "the messages that wait for their turn are too large together", retry_ms=2000)
    facts: list[f.Fact] = [f.MessageQueued(message, command.size)]
    abandoned = [action for action in waiting if action.on_message == "cancel"]
    for action in abandoned:
        resolution = Resolution("cancelled", command.by, context.now, reason="a new message was sent instead")
        facts.extend(_end_waiting(thread, action, resolution))
    if abandoned and len(abandoned) == len(waiting):
        facts.append(f.TurnSuperseded())
    facts.extend(_barrier(thread, facts, context))
    return _accept(command, facts, {"message": message_id, "queued": True})


def _open_request(thread: Thread, command: c.OpenRequest, context: Context) -> Decision:
    if len(thread.requests) >= context.rules.requests:
        return Refused("busy", f"{len(thread.requests)} requests wait in this thread already", retry_ms=2000)
    action_id = context.ids.new("a")
    action = Action(
        id=action_id,
        call=action_id,  # there is none; the name of nothing is still one that nothing else has
        tool=command.continuation,
        wait_point=command.wait_point,
        schema=command.schema,
        at=context.now,
        expires_at=None if command.expires_in is None else context.now + command.expires_in,
        audience=command.audience,
        redact=command.redact,
    )
    request = Request(
        action_id, command.continuation, command.wait_point, command.input, context.now, command.unanswered
    )
    return _accept(command, [f.RequestOpened(request, action)], {"action": action_id})


def _of_tools(thread: Thread) -> list[Action]:
    """What waits in the open turn. Requests are nobody's turn: neither a message nor a stop ends them."""
    return [action for action in thread.actions if thread.request(action.id) is None]


def _stop(thread: Thread, command: c.Stop, context: Context) -> Decision:
    turn = thread.turn
    if turn is None or turn.phase == "closing":
        return _accept(command, [])
    facts: list[f.Fact] = []
    for action in _of_tools(thread):
        resolution = Resolution("cancelled", command.by, context.now, reason="stopped")
        facts.extend(_end_waiting(thread, action, resolution))
    ended = {fact.call for fact in facts if isinstance(fact, f.CallFailed)}
    facts.extend(
        f.CallFailed(call.id, f"Stopped by {command.by.label}.")
        for call in turn.calls
        if not call.terminal and call.id not in ended
    )
    facts.append(f.TurnClosing("stopped"))
    return _accept(command, facts)


def _end_waiting(thread: Thread, action: Action, resolution: Resolution) -> list[f.Fact]:
    """An action ends without an answer: the call ends with it, in words the model sees."""
    resolved = f.ActionResolved(action.id, action.call, resolution, redact=action.redact)
    if thread.request(action.id) is not None:
        return [resolved]
    return [resolved, f.CallFailed(action.call, unanswered(action.name, resolution))]


def unanswered(name: str, resolution: Resolution) -> str:
    """What the model is told of a wait that ended without an answer."""
    match resolution.how:
        case "cancelled":
            reason = f": {resolution.reason}" if resolution.reason else ""
            return f"{name} was cancelled by {resolution.by.label}{reason}."
        case "failed":
            return f"{name} failed: {resolution.message}"
        case "expired":
            return f"{name} expired: nobody answered in time."
        case _:
            raise AssertionError("a submitted action has an answer")


def _barrier(thread: Thread, facts: Sequence[f.Fact], context: Context) -> list[f.Fact]:
    """When the last call of the step has its result: ask the model again, or end the turn. No timer decides this."""
    turn = evolve_all(thread, facts).turn
    if turn is None or turn.phase != "tools" or not all(call.terminal for call in turn.calls):
        return []
    if turn.superseded:
        return [f.TurnClosing("superseded")]
    if turn.step + 1 >= context.rules.step_cap:
        return [f.TurnClosing("step-cap", f"Stopped after {turn.step + 1} steps, the most a turn may have.")]
    return [f.StepAdvanced(turn.step + 1)]


# --- deadlines


def _expire(thread: Thread, command: c.Expire, context: Context) -> Decision:
    action = thread.action(command.action)
    if action is None or action.expires_at is None:
        return Moot("the action is not pending with a deadline")
    if action.expires_at > context.now:
        return Moot("the deadline has not passed")
    facts = _end_waiting(thread, action, Resolution("expired", SYSTEM, context.now))
    return Accepted((*facts, *_barrier(thread, facts, context)))


def _lapse(thread: Thread, command: c.Lapse, context: Context) -> Decision:
    action = thread.action(command.action)
    if action is None or action.claim is None or action.held(context.now) is not None:
        return Moot("the claim is not to lapse")
    return Accepted((f.ActionClaimed(action.id, None),))


# --- the driver


def _driver(
    thread: Thread,
    command: c.StartStep
    | c.FinishStep
    | c.FailStep
    | c.StartExecution
    | c.RecordStep
    | c.Suspend
    | c.Return
    | c.FailCall
    | c.StartContinuation
    | c.FinishContinuation
    | c.CloseTurn
    | c.Settle,
    context: Context,
) -> Decision:
    if thread.run is not None and command.fence < thread.run.fence:
        return Moot("another instance drives the thread")
    if isinstance(command, c.Settle):
        return _settle(thread, command, context)
    decided: Decision
    if isinstance(command, (c.StartContinuation, c.FinishContinuation)):
        decided = _continue(thread, command)
    elif thread.turn is None:
        decided = Moot("the turn is over")
    else:
        decided = _in_turn(thread, thread.turn, command, context)
    if isinstance(decided, Accepted) and (thread.run is None or thread.run.fence != command.fence):
        started = f.RunStarted(context.ids.new("r"), command.fence, context.now)
        return replace(decided, facts=(started, *decided.facts))
    return decided


def _in_turn(
    thread: Thread,
    turn: Turn,
    command: c.StartStep
    | c.FinishStep
    | c.FailStep
    | c.StartExecution
    | c.RecordStep
    | c.Suspend
    | c.Return
    | c.FailCall
    | c.CloseTurn,
    context: Context,
) -> Decision:
    match command:
        case c.StartStep():
            return _start_step(turn, command, context)
        case c.FinishStep() | c.FailStep():
            return _end_step(thread, turn, command, context)
        case c.StartExecution():
            return _start_execution(thread, turn, command, context)
        case c.RecordStep():
            return _record_step(turn, command)
        case c.Suspend():
            return _suspend(turn, command, context)
        case c.Return() | c.FailCall():
            return _end_call(thread, turn, command, context)
        case c.CloseTurn():
            return _close(thread, turn, command, context)
        case _:
            assert_never(command)


def _continue(thread: Thread, command: c.StartContinuation | c.FinishContinuation) -> Decision:
    request = thread.request(command.action)
    if request is None or request.resolution is None:
        return Moot("there is nothing to continue")
    if isinstance(command, c.FinishContinuation):
        if request.fence != command.fence:
            return Moot("the continuation is not this driver's any more")
        return Accepted((f.ContinuationEnded(request.action, command.error_text),))
    if request.fence == command.fence:
        return Moot("this driver has already started the continuation")
    if request.attempt >= command.max_attempts:
        text = f"The server stopped while it ran, {request.attempt} times; giving up."
        return Accepted((f.ContinuationEnded(request.action, text),))
    return Accepted((f.ContinuationStarted(request.action, request.attempt + 1, command.fence),))


def _start_step(turn: Turn, command: c.StartStep, context: Context) -> Decision:
    if turn.phase != "model":
        return Moot("the model is not to be asked now")
    if turn.step_fence == command.fence:
        return Moot("this driver has already started the step")
    attempt = turn.step_attempt + 1
    reset = turn.step_fence != 0
    started = f.StepStarted(turn.step, attempt, command.fence, reset)
    if attempt > context.rules.model_attempts:
        # The instances that asked the model died each time; going on would take the next one down too.
        text = f"The model step was cut off {attempt - 1} times; giving up."
        return Accepted((started, f.TurnClosing("error", text)))
    return Accepted((started,))


def _end_step(thread: Thread, turn: Turn, command: c.FinishStep | c.FailStep, context: Context) -> Decision:
    if turn.phase != "model" or turn.step != command.step or turn.step_fence != command.fence:
        return Moot("the step is not this driver's any more")
    if isinstance(command, c.FailStep):
        return Accepted((f.TurnClosing("error", command.error_text),))
    facts: list[f.Fact] = []
    for opened in command.calls:
        facts.append(f.CallOpened(opened.id, opened.tool, turn.step, opened.input))
    facts.append(f.StepFinished(turn.step, command.reason, command.usage))
    facts.extend(f.CallFailed(opened.id, opened.error) for opened in command.calls if opened.error is not None)
    if not command.calls:
        facts.append(f.TurnClosing(command.reason))
        return Accepted(tuple(facts))
    return Accepted((*facts, *_barrier(thread, facts, context)))


def _start_execution(thread: Thread, turn: Turn, command: c.StartExecution, context: Context) -> Decision:
    call = turn.call(command.call)
    if turn.phase != "tools" or call is None or call.terminal or call.action is not None:
        return Moot("the call is not to be entered")
    if call.state == "running" and call.fence == command.fence:
        return Moot("this driver has already entered the call")
    cut_off = call.state == "running" and call.fence != 0
    facts: list[f.Fact]
    if cut_off and command.on_crash == "fail":
        facts = [f.CallFailed(call.id, "The server stopped while the tool ran; it is not run again.")]
        return Accepted((*facts, *_barrier(thread, facts, context)))
    if cut_off and call.attempt >= command.max_attempts:
        facts = [f.CallFailed(call.id, f"The server stopped while the tool ran, {call.attempt} times; giving up.")]
        return Accepted((*facts, *_barrier(thread, facts, context)))
    return Accepted((f.ExecutionStarted(call.id, call.attempt + 1, command.fence),))


def _running(turn: Turn, call_id: str, fence: int) -> Call | Moot:
    call = turn.call(call_id)
    if call is None or call.state != "running" or call.fence != fence:
        return Moot("the execution is not this driver's any more")
    return call


def _record_step(turn: Turn, command: c.RecordStep) -> Decision:
    call = _running(turn, command.call, command.fence)
    if isinstance(call, Moot):
        return call
    if command.name in call.steps:
        # The first result stands, whoever reports a second one.
        return Moot("the step has its result already")
    return Accepted((f.StepRecorded(call.id, command.name, command.value),))


def _suspend(turn: Turn, command: c.Suspend, context: Context) -> Decision:
    call = _running(turn, command.call, command.fence)
    if isinstance(call, Moot):
        return call
    action = Action(
        id=context.ids.new("a"),
        call=call.id,
        tool=call.tool,
        wait_point=command.wait_point,
        schema=command.schema,
        at=context.now,
        expires_at=None if command.expires_in is None else context.now + command.expires_in,
        on_message=command.on_message,
        audience=command.audience,
        redact=command.redact,
        kind=command.kind,
        style=command.style,
    )
    return Accepted((f.ActionSuspended(action, command.input, turn.message),))


def _end_call(thread: Thread, turn: Turn, command: c.Return | c.FailCall, context: Context) -> Decision:
    fact: f.Fact
    if isinstance(command, c.FailCall) and not command.running:
        call = turn.call(command.call)
        if turn.phase != "tools" or call is None or call.terminal or call.action is not None:
            return Moot("the call is not to be entered")
        fact = f.CallFailed(call.id, command.error_text)
    else:
        running = _running(turn, command.call, command.fence)
        if isinstance(running, Moot):
            return running
        if isinstance(command, c.Return):
            fact = f.CallReturned(running.id, command.output)
        else:
            fact = f.CallFailed(running.id, command.error_text)
    return Accepted((fact, *_barrier(thread, [fact], context)))


def _close(thread: Thread, turn: Turn, command: c.CloseTurn, context: Context) -> Decision:
    if turn.phase != "closing" or command.message["id"] != turn.message:
        return Moot("the turn is not to be closed")
    message: Any = {**command.message, "status": "final", "reason": turn.reason}
    if turn.error_text is not None:
        message["errorText"] = turn.error_text
    facts: list[f.Fact] = [f.TurnClosed(message, turn.reason, turn.error_text)]
    if thread.queue:
        facts.extend(f.MessageAdded(queued.message) for queued in thread.queue)
        facts.append(f.TurnOpened(context.ids.new("m"), context.now, _author(thread.queue[-1])))
    return Accepted(tuple(facts))


def _author(queued: Queued) -> Actor | None:
    by = queued.message.get("by")
    return None if by is None else Actor(by["id"], by["kind"], by.get("name"))


def _settle(thread: Thread, command: c.Settle, context: Context) -> Decision:
    if thread.run is None:
        return Moot("nobody started anything")
    # A run of an older fence was cut off; with nothing left to do for this driver either, it is over.
    facts: list[f.Fact] = []
    turn = thread.turn
    if turn is not None and turn.phase == "model" and turn.step_fence == command.fence:
        facts.append(f.StepYielded())
    if turn is not None:
        facts.extend(
            f.ExecutionYielded(call.id)
            for call in turn.calls
            if call.state == "running" and call.fence == command.fence
        )
    facts.extend(f.ContinuationYielded(request.action) for request in thread.requests if request.fence == command.fence)
    facts.append(f.RunFinished(thread.run.id, "idle" if turn is None else "waiting", context.now))
    return Accepted(tuple(facts))
