"""What happened to a thread, in the past tense: the only thing that changes the control state.

Facts carry everything that follows from them: events for clients, values to store, outcomes to remember.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from waitpoint_protocol import state as wire
from waitpoint_protocol.values import Value

from .model import Action, Actor, Claim, Outcome, Request, Resolution

__all__ = [
    "ActionClaimed",
    "ActionResolved",
    "ActionSuspended",
    "CallFailed",
    "CallOpened",
    "CallReturned",
    "ClaimRenewed",
    "CommandAccepted",
    "ContinuationEnded",
    "ContinuationStarted",
    "ContinuationYielded",
    "ExecutionStarted",
    "ExecutionYielded",
    "Fact",
    "MessageAdded",
    "MessageQueued",
    "RequestOpened",
    "RunFinished",
    "RunStarted",
    "StepAdvanced",
    "StepFinished",
    "StepRecorded",
    "StepStarted",
    "StepYielded",
    "TurnClosed",
    "TurnClosing",
    "TurnOpened",
    "TurnSuperseded",
]


@dataclass(frozen=True, slots=True)
class CommandAccepted:
    """A person's command took effect; its repeats get the same reply."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class MessageAdded:
    """A finished message joined the thread."""

    message: wire.Message


@dataclass(frozen=True, slots=True)
class MessageQueued:
    """A message waits for the open turn to end."""

    message: wire.Message
    size: int


@dataclass(frozen=True, slots=True)
class TurnOpened:
    """The assistant began to answer."""

    message: str
    at: int
    by: Actor | None = None


@dataclass(frozen=True, slots=True)
class TurnSuperseded:
    """A person said something else instead of answering; the turn ends as soon as its calls have."""


@dataclass(frozen=True, slots=True)
class RunStarted:
    """An instance drives the thread."""

    run: str
    fence: int
    at: int


@dataclass(frozen=True, slots=True)
class StepStarted:
    """The model is being called. ``reset``: an earlier attempt at this step may have streamed something."""

    step: int
    attempt: int
    fence: int
    reset: bool


@dataclass(frozen=True, slots=True)
class StepYielded:
    """The driver left a model step on purpose; the next attempt keeps its number."""


@dataclass(frozen=True, slots=True)
class StepFinished:
    """The model's answer is complete."""

    step: int
    reason: str
    usage: dict[str, int] | None


@dataclass(frozen=True, slots=True)
class StepAdvanced:
    """Every call of the step has its result; the model is asked again."""

    step: int


@dataclass(frozen=True, slots=True)
class CallOpened:
    """The model called a tool."""

    call: str
    tool: str
    step: int
    input: Value


@dataclass(frozen=True, slots=True)
class ExecutionStarted:
    """The tool is being entered."""

    call: str
    attempt: int
    fence: int


@dataclass(frozen=True, slots=True)
class ExecutionYielded:
    """The driver left a running tool on purpose; the next entry keeps its attempt number."""

    call: str


@dataclass(frozen=True, slots=True)
class StepRecorded:
    """What the tool did under this name has its result; it is not done again."""

    call: str
    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class ActionSuspended:
    """The tool waits."""

    action: Action
    input: Value
    message: str


@dataclass(frozen=True, slots=True)
class RequestOpened:
    """The application waits, outside any turn."""

    request: Request
    action: Action


@dataclass(frozen=True, slots=True)
class ContinuationStarted:
    """The continuation of a request is being run."""

    action: str
    attempt: int
    fence: int


@dataclass(frozen=True, slots=True)
class ContinuationYielded:
    """The driver left a running continuation on purpose; the next run keeps its attempt number."""

    action: str


@dataclass(frozen=True, slots=True)
class ContinuationEnded:
    """The request is done with."""

    action: str
    error_text: str | None = None


@dataclass(frozen=True, slots=True)
class ActionClaimed:
    """One connection took the action, or gave it back (``claim`` is ``None``)."""

    action: str
    claim: Claim | None


@dataclass(frozen=True, slots=True)
class ClaimRenewed:
    """Whoever has the action is still there; nobody is told."""

    action: str
    expires_at: int


@dataclass(frozen=True, slots=True)
class ActionResolved:
    """The action ended. ``answered`` tells that ``data`` is an answer, which may be null."""

    action: str
    call: str
    resolution: Resolution
    answered: bool = False
    data: Value = None
    redact: bool = False


@dataclass(frozen=True, slots=True)
class CallReturned:
    """The call has its output."""

    call: str
    output: Value


@dataclass(frozen=True, slots=True)
class CallFailed:
    """The call ended in an error."""

    call: str
    error_text: str


@dataclass(frozen=True, slots=True)
class TurnClosing:
    """Nothing more happens in this turn; its message is to be finished."""

    reason: str
    error_text: str | None = None


@dataclass(frozen=True, slots=True)
class TurnClosed:
    """The assistant message is finished."""

    message: wire.Message
    reason: str
    error_text: str | None = None


@dataclass(frozen=True, slots=True)
class RunFinished:
    """Nobody drives the thread any more."""

    run: str
    status: Literal["idle", "waiting"]
    at: int


Fact = (
    CommandAccepted
    | MessageAdded
    | MessageQueued
    | TurnOpened
    | TurnSuperseded
    | RunStarted
    | StepStarted
    | StepYielded
    | StepFinished
    | StepAdvanced
    | CallOpened
    | ExecutionStarted
    | ExecutionYielded
    | StepRecorded
    | ActionSuspended
    | ActionClaimed
    | ClaimRenewed
    | RequestOpened
    | ContinuationStarted
    | ContinuationYielded
    | ContinuationEnded
    | ActionResolved
    | CallReturned
    | CallFailed
    | TurnClosing
    | TurnClosed
    | RunFinished
)
