"""Why a tool body runs: its first entry, or an answer; and every earlier visit to a wait point of this call.

Knows what an author reads. Where it comes from and how it is stored is the runner's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal

from typing_extensions import TypeVar

from waitpoint_protocol.values import Value

__all__ = [
    "ActionRef",
    "Cancel",
    "CancelledVisit",
    "Entry",
    "ExpiredVisit",
    "Fail",
    "FailedVisit",
    "Initial",
    "Resume",
    "SubmittedVisit",
    "UnsupportedEntry",
    "Visit",
]

R = TypeVar("R", covariant=True, default=object)


@dataclass(frozen=True, slots=True)
class ActionRef:
    """The action whose answer a tool re-enters with. ``name`` is ``toolName.waitPoint``, ``by`` who answered."""

    id: str
    name: str
    input: Value
    suspended_at: str
    resumed_at: str
    by: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Initial:
    """The model called the tool; nobody has been asked yet."""

    type: ClassVar[Literal["initial"]] = "initial"


@dataclass(frozen=True, slots=True)
class Resume(Generic[R]):
    """An answer was accepted. ``name`` is the wait point's, ``data`` the answer in its resume type.

    Take the type with a class pattern, ``case Resume(name="approval", data=Decision() as decision)``, or with
    ``if approval.answered(ctx.entry): ctx.entry.data``.
    """

    type: ClassVar[Literal["resume"]] = "resume"
    name: str
    data: R
    action: ActionRef


Entry = Initial | Resume[object]


@dataclass(frozen=True, slots=True)
class Cancel:
    """Why a wait was abandoned, if somebody said."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    """Why a wait could not be fulfilled."""

    message: str


@dataclass(frozen=True, slots=True)
class SubmittedVisit:
    """A visit that was answered. ``resume`` has the wait point's type, or is plain JSON if it no longer fits it."""

    status: ClassVar[Literal["submitted"]] = "submitted"
    name: str
    suspended_at: str
    input: Value
    resumed_at: str
    resume: Any


@dataclass(frozen=True, slots=True)
class CancelledVisit:
    """A visit that was abandoned."""

    status: ClassVar[Literal["cancelled"]] = "cancelled"
    name: str
    suspended_at: str
    input: Value
    resolved_at: str
    cancel: Cancel


@dataclass(frozen=True, slots=True)
class FailedVisit:
    """A visit that whoever answered could not fulfil."""

    status: ClassVar[Literal["failed"]] = "failed"
    name: str
    suspended_at: str
    input: Value
    resolved_at: str
    fail: Fail


@dataclass(frozen=True, slots=True)
class ExpiredVisit:
    """A visit that nobody answered in time."""

    status: ClassVar[Literal["expired"]] = "expired"
    name: str
    suspended_at: str
    input: Value
    resolved_at: str


Visit = SubmittedVisit | CancelledVisit | FailedVisit | ExpiredVisit


class UnsupportedEntry(Exception):
    """Raise it at an entry the tool does not handle: ``case _: raise UnsupportedEntry``."""
