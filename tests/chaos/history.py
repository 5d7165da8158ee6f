"""What was done and seen in a chaos run, as values. Knows nothing of how it came about; the checker judges it.

Times are seconds since the epoch on this machine's clock, which every process of a run shares.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["DEFINITE", "Command", "Fault", "History", "Observer", "Reply"]

DEFINITE = frozenset({"already-resolved", "expired", "unknown-action", "invalid", "forbidden", "waiting", "busy"})
"""Refusals that settle a command; the others ask for a repeat."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What one sending of a command got; ``frame`` is ``None`` when no reply came."""

    frame: dict[str, Any] | None
    instance: int
    sent: float
    came: float


@dataclass(slots=True)
class Command:
    """A command, under one id for all its repeats. ``nonce`` is what it carries that nothing else does."""

    id: str
    kind: str
    thread: str
    action: str | None
    nonce: str
    replies: list[Reply] = field(default_factory=list)

    @property
    def acks(self) -> list[dict[str, Any]]:
        return [reply.frame for reply in self.replies if reply.frame is not None and reply.frame["type"] == "ack"]

    @property
    def refusals(self) -> list[dict[str, Any]]:
        """Definite ones."""
        frames = [reply.frame for reply in self.replies if reply.frame is not None]
        return [frame for frame in frames if frame["type"] == "reject" and frame["code"] in DEFINITE]


@dataclass(slots=True)
class Fault:
    """Something done to the system. ``instance`` is ``None`` when it hit the store, and so everybody."""

    kind: str
    instance: int | None
    started: float
    ended: float = 0.0
    pid: int | None = None


@dataclass(slots=True)
class Observer:
    """A client's view at the end."""

    name: str
    thread: str
    cursor: dict[str, Any]
    state: dict[str, Any]
    resets: list[str]


@dataclass(slots=True)
class History:
    """Everything the checker looks at."""

    seed: int
    started: float = 0.0
    ended: float = 0.0
    commands: dict[str, Command] = field(default_factory=dict)
    events: dict[str, dict[int, str]] = field(default_factory=dict)
    """Every event that any client was sent: by ``thread/log`` and position, spelled as sorted JSON."""
    complaints: list[str] = field(default_factory=list)
    """What clients saw at once to be wrong: a hole, a repeat, two events at one position, no convergence."""
    journal: list[dict[str, Any]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    observers: list[Observer] = field(default_factory=list)
    finals: dict[str, Observer] = field(default_factory=dict)
    """A fresh client's view of each thread at the end."""
    messages: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """All finished messages of each thread at the end."""
    leftovers: list[str] = field(default_factory=list)
    """What the store still holds at the end that an idle thread must not have: leases, appointments, open waits."""
    tracebacks: list[str] = field(default_factory=list)
    """Server log excerpts with an exception that nobody expected."""
    sockets: int = 0
    resumes: int = 0

    def saw(self, thread: str, log: str, seq: int, event: str) -> None:
        """A client was sent this event at this position."""
        known = self.events.setdefault(f"{thread}/{log}", {}).setdefault(seq, event)
        if known != event:
            self.complaints.append(f"{thread}: position {seq} is {known} to one client and {event} to another")
