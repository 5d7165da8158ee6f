"""An execution as the runner asks for it, and the three ways it can end.

Knows plain values only, as they lie in the store; ``execute.py`` turns them into an author's types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from waitpoint_protocol.values import Value

from .context import Identity, Report
from .entry import ActionRef
from .waitpoint import OnMessage

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


def _ignore(_: Report) -> None:
    """Nobody is interested."""


@dataclass(frozen=True, slots=True)
class Execution:
    """One entry of one tool call."""

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


@dataclass(frozen=True, slots=True)
class Failure:
    """The call ends in ``output-error`` with this text, which the model and the clients see."""

    error_text: str


Outcome = Output | Suspended | Failure
