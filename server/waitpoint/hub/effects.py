"""What a session wants done, as a closed union. Shapes only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from waitpoint_protocol import frames
from waitpoint_protocol.codes import Close

__all__ = ["Authenticate", "CloseSocket", "Effect", "Handle", "Join", "Leave", "LoadHistory", "Reauthenticate", "Send"]


@dataclass(frozen=True, slots=True)
class Send:
    """Send this frame."""

    frame: frames.ServerFrame


@dataclass(frozen=True, slots=True)
class CloseSocket:
    """Send what is waiting, then close. The last effect of a session."""

    code: Close
    reason: str


@dataclass(frozen=True, slots=True)
class Authenticate:
    """Ask who this is; answer with ``Session.authenticated`` or ``Session.unauthenticated``."""

    hello: frames.Hello


@dataclass(frozen=True, slots=True)
class Reauthenticate:
    """Ask who this is now; answer with ``Session.reauthenticated`` or ``Session.unauthenticated``."""

    auth: frames.Auth


@dataclass(frozen=True, slots=True)
class Handle:
    """Take a command to the desk; answer with ``Session.replied``."""

    command: frames.Command


@dataclass(frozen=True, slots=True)
class LoadHistory:
    """Read a page of finished messages; answer with ``Session.history_loaded``."""

    history: frames.History


@dataclass(frozen=True, slots=True)
class Join:
    """Follow a thread from a cursor (or from a snapshot), anew if it is followed already.

    A refusal is told with ``Session.join_refused``.
    """

    thread: str
    cursor: frames.Cursor | None
    id: str | None


@dataclass(frozen=True, slots=True)
class Leave:
    """Follow a thread no longer."""

    thread: str


Effect: TypeAlias = Send | CloseSocket | Authenticate | Reauthenticate | Handle | LoadHistory | Join | Leave
