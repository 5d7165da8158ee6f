"""What can be asked of a thread: by people (with a command id and an actor), and by the driver (with its fence).

Imperative names; a command says what is wanted and never what will happen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from waitpoint_protocol import state as wire
from waitpoint_protocol.values import Value

from .model import Actor, OnMessage, WaitStyle

__all__ = [
    "CancelAction",
    "ClaimAction",
    "CloseTurn",
    "Command",
    "DriverCommand",
    "Expire",
    "FailAction",
    "FailCall",
    "FailStep",
    "FinishContinuation",
    "FinishStep",
    "Lapse",
    "OpenRequest",
    "OpenedCall",
    "PersonCommand",
    "RecordStep",
    "ReleaseAction",
    "RenewClaim",
    "Return",
    "SendMessage",
    "Settle",
    "StartContinuation",
    "StartExecution",
    "StartStep",
    "Stop",
    "Submit",
    "Suspend",
]


@dataclass(frozen=True, slots=True)
class SendMessage:
    """Say something; opens a turn, or queues while one is open."""

    id: str
    by: Actor
    parts: list[wire.Part]
    size: int


@dataclass(frozen=True, slots=True)
class Submit:
    """Answer an action with data that matches its resume schema."""

    id: str
    by: Actor
    action: str
    data: Value
    connection: str = ""


@dataclass(frozen=True, slots=True)
class CancelAction:
    """Abandon an action."""

    id: str
    by: Actor
    action: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class FailAction:
    """Say that an action could not be done."""

    id: str
    by: Actor
    action: str
    message: str
    connection: str = ""


@dataclass(frozen=True, slots=True)
class ClaimAction:
    """Take an action for one connection."""

    id: str
    by: Actor
    action: str
    connection: str


@dataclass(frozen=True, slots=True)
class ReleaseAction:
    """Give a claimed action back."""

    id: str
    by: Actor
    action: str
    connection: str


@dataclass(frozen=True, slots=True)
class OpenRequest:
    """Ask something outside any turn; the continuation goes on with the answer. ``expires_in`` is in ms."""

    id: str
    by: Actor
    continuation: str
    wait_point: str
    input: Value
    schema: dict[str, Any]
    expires_in: int | None = None
    audience: tuple[str, ...] | None = None
    redact: bool = False
    unanswered: bool = False


@dataclass(frozen=True, slots=True)
class RenewClaim:
    """The connection that has claimed an action is still there. Nobody is told, and it has no reply to remember."""

    id: str
    by: Actor
    action: str
    connection: str


@dataclass(frozen=True, slots=True)
class Stop:
    """End the open turn."""

    id: str
    by: Actor


@dataclass(frozen=True, slots=True)
class StartStep:
    """The driver is about to call the model."""

    fence: int


@dataclass(frozen=True, slots=True)
class OpenedCall:
    """A tool call the model made. ``error`` is why it cannot be run (unknown tool, bad input)."""

    id: str
    tool: str
    input: Value
    error: str | None = None


@dataclass(frozen=True, slots=True)
class FinishStep:
    """The model's answer is complete."""

    fence: int
    step: int
    reason: str
    usage: dict[str, int] | None = None
    calls: tuple[OpenedCall, ...] = ()


@dataclass(frozen=True, slots=True)
class FailStep:
    """The model cannot answer."""

    fence: int
    step: int
    error_text: str


@dataclass(frozen=True, slots=True)
class StartExecution:
    """The driver is about to enter a tool. The tool's own crash rules go along."""

    fence: int
    call: str
    max_attempts: int = 3
    on_crash: Literal["retry", "fail"] = "retry"


@dataclass(frozen=True, slots=True)
class Suspend:
    """A tool stopped at a wait point. ``expires_in`` is in ms."""

    fence: int
    call: str
    wait_point: str
    input: Value
    schema: dict[str, Any]
    expires_in: int | None = None
    on_message: OnMessage = "cancel"
    audience: tuple[str, ...] | None = None
    redact: bool = False
    kind: str | None = None
    style: WaitStyle = "entry"


@dataclass(frozen=True, slots=True)
class RecordStep:
    """A running tool did something once; its result is kept for every later entry of the call."""

    fence: int
    call: str
    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class Return:
    """A tool ended with an output."""

    fence: int
    call: str
    output: Value


@dataclass(frozen=True, slots=True)
class FailCall:
    """A tool call ended in an error. ``running`` False: it could not even be entered."""

    fence: int
    call: str
    error_text: str
    running: bool = True


@dataclass(frozen=True, slots=True)
class StartContinuation:
    """The driver is about to run the continuation of a request."""

    fence: int
    action: str
    max_attempts: int = 3


@dataclass(frozen=True, slots=True)
class FinishContinuation:
    """The continuation ended; ``error_text`` says why it could not do what it should."""

    fence: int
    action: str
    error_text: str | None = None


@dataclass(frozen=True, slots=True)
class Expire:
    """An action's deadline has passed."""

    action: str


@dataclass(frozen=True, slots=True)
class Lapse:
    """A claim was not renewed in time."""

    action: str


@dataclass(frozen=True, slots=True)
class CloseTurn:
    """Finish the open assistant message; ``parts`` is what it holds in the driver's fold."""

    fence: int
    message: wire.Message


@dataclass(frozen=True, slots=True)
class Settle:
    """The driver has nothing more to do, or must go: what it left running may be entered again."""

    fence: int


PersonCommand = (
    SendMessage | Submit | CancelAction | FailAction | ClaimAction | ReleaseAction | RenewClaim | OpenRequest | Stop
)
DriverCommand = (
    StartStep
    | FinishStep
    | FailStep
    | StartExecution
    | RecordStep
    | Suspend
    | Return
    | FailCall
    | StartContinuation
    | FinishContinuation
    | Expire
    | Lapse
    | CloseTurn
    | Settle
)
Command = PersonCommand | DriverCommand
