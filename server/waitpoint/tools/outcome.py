"""An execution as the runner asks for it, and the three ways it can end.

Knows plain values only, as they lie in the store; ``execute.py`` turns them into an author's types.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from waitpoint_protocol.values import Value

from .context import Identity, Report
from .entry import ActionRef
from .waitpoint import OnMessage, WaitStyle

__all__ = [
    "EntryData",
    "Execution",
    "Failure",
    "InitialEntry",
    "Outcome",
    "Output",
    "ResumeEntry",
    "Suspended",
    "VisitData",
]


@dataclass(frozen=True, slots=True)
class InitialEntry:
    """The model called the tool."""


@dataclass(frozen=True, slots=True)
class ResumeEntry:
    """The answer ``data`` to the wait point ``name`` was accepted."""

    name: str
    data: Value
    action: ActionRef


EntryData = InitialEntry | ResumeEntry


@dataclass(frozen=True, slots=True)
class VisitData:
    """A finished visit. ``answer`` counts when it was submitted, ``reason`` when cancelled, ``message`` when failed."""

    name: str
    suspended_at: str
    input: Value
    status: Literal["submitted", "cancelled", "failed", "expired"]
    resolved_at: str
    answer: Value = None
    reason: str | None = None
    message: str | None = None
    action: str = ""
    style: WaitStyle = "entry"
    by: Mapping[str, Any] | None = None


def _ignore(_: Report) -> None:
    """Nobody is interested."""


async def _forget(_name: str, _value: Value) -> None:
    """Nobody keeps it."""


@dataclass(frozen=True, slots=True)
class Execution:
    """One entry of one tool call.

    ``entry`` is that of the last declared wait point that was answered; inline waits and the approval gate are only in
    ``history``. ``steps`` are the results kept at earlier entries; ``record`` keeps a new one and returns when it is
    safe. ``approval`` is the action by which the call was approved.
    """

    thread_id: str
    message_id: str
    tool_call_id: str
    input: Value
    entry: EntryData = field(default_factory=InitialEntry)
    history: Sequence[VisitData] = ()
    attempt: int = 1
    identity: Identity | None = None
    deps: Any = None
    report: Callable[[Report], None] = _ignore
    steps: Mapping[str, Value] = field(default_factory=dict)
    record: Callable[[str, Value], Awaitable[None]] = _forget
    approval: str | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """The tool ended with this output."""

    value: Value


@dataclass(frozen=True, slots=True)
class Suspended:
    """The tool waits for people. ``input`` is what they are asked, ``schema`` what they may answer."""

    wait_point: str
    input: Value
    schema: dict[str, Any]
    kind: str | None = None
    expires_in_ms: int | None = None
    on_message: OnMessage = "cancel"
    audience: tuple[str, ...] | None = None
    redact: bool = False
    style: WaitStyle = "entry"


@dataclass(frozen=True, slots=True)
class Failure:
    """The call ends in ``output-error`` with this text, which the model and the clients see."""

    error_text: str


Outcome = Output | Suspended | Failure
