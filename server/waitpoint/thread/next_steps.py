"""What a driver should do next, derived from the control state alone. Recovery is asking again.

A step that is under way in this very driver is not named again; one that was cut off with another driver is.
"""

from __future__ import annotations

from dataclasses import dataclass

from .model import Call, Request, Thread, Turn

__all__ = [
    "CallModel",
    "ContinueRequest",
    "EnterTool",
    "ExpireAction",
    "FinishTurn",
    "LapseClaim",
    "Step",
    "appointment",
    "busy_with",
    "deadline",
    "next_steps",
]


@dataclass(frozen=True, slots=True)
class CallModel:
    """Ask the model for step ``step``."""

    step: int


@dataclass(frozen=True, slots=True)
class EnterTool:
    """Enter the tool of this call, at its first entry or with the answer that came in."""

    call: str


@dataclass(frozen=True, slots=True)
class ContinueRequest:
    """Run the continuation of this request."""

    action: str


@dataclass(frozen=True, slots=True)
class ExpireAction:
    """Let this action lapse."""

    action: str


@dataclass(frozen=True, slots=True)
class LapseClaim:
    """Give this action back to whoever can do it: the connection that had claimed it is gone."""

    action: str


@dataclass(frozen=True, slots=True)
class FinishTurn:
    """Close the assistant message."""


Step = CallModel | EnterTool | ContinueRequest | ExpireAction | LapseClaim | FinishTurn


def next_steps(thread: Thread, *, now: int, fence: int) -> list[Step]:
    """What the holder of ``fence`` should start now (``now``: ms on the store's clock)."""
    steps: list[Step] = [
        ExpireAction(action.id)
        for action in thread.actions
        if action.expires_at is not None and action.expires_at <= now
    ]
    steps.extend(
        LapseClaim(action.id) for action in thread.actions if action.claim is not None and action.held(now) is None
    )
    steps.extend(ContinueRequest(request.action) for request in thread.requests if _to_continue(request, fence))
    turn = thread.turn
    if turn is None:
        return steps
    match turn.phase:
        case "closing":
            steps.append(FinishTurn())
        case "model":
            if turn.step_fence != fence:
                steps.append(CallModel(turn.step))
        case "tools":
            steps.extend(EnterTool(call.id) for call in turn.calls if _ready(call, fence))
    return steps


def busy_with(thread: Thread, *, fence: int) -> bool:
    """Whether the holder of ``fence`` has something under way."""
    if any(request.fence == fence for request in thread.requests):
        return True
    turn = thread.turn
    if turn is None:
        return False
    if turn.phase == "model":
        return turn.step_fence == fence
    return any(call.state == "running" and call.fence == fence for call in turn.calls)


def appointment(thread: Thread) -> int | None:
    """When the thread next needs a driver if nobody drives it now: 0 is at once, ``None`` is not before a command."""
    turn = thread.turn
    if any(_to_continue(request, -1) for request in thread.requests):
        return 0
    if turn is not None and (turn.phase != "tools" or _any_ready(turn)):
        return 0
    return deadline(thread)


def deadline(thread: Thread) -> int | None:
    """The next moment at which something in the thread runs out by itself."""
    expiries = [action.expires_at for action in thread.actions if action.expires_at is not None]
    lapses = [action.claim.expires_at for action in thread.actions if action.claim is not None]
    return min([*expiries, *lapses], default=None)


def _any_ready(turn: Turn) -> bool:
    # No driver: fence -1 is held by nobody, so every running call counts as cut off.
    return any(_ready(call, -1) for call in turn.calls)


def _to_continue(request: Request, fence: int) -> bool:
    return request.resolution is not None and request.fence != fence


def _ready(call: Call, fence: int) -> bool:
    match call.state:
        case "input-available":
            return True
        case "waiting":
            return call.action is None
        case "running":
            return call.fence != fence
        case _:
            return False
