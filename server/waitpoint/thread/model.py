"""The control state of a thread: small, and enough to decide every command.

Knows what is open, who waits for what, and what was lately accepted. Does not hold inputs, answers, outputs or finished
messages: those lie beside it in the store, by id, so that a commit costs the same however much was said.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import TypeAdapter

from waitpoint_protocol import state as wire

__all__ = [
    "CLIENT_TOOL",
    "OPEN_STATES",
    "TERMINAL",
    "Action",
    "Actor",
    "Call",
    "CallState",
    "Claim",
    "OnMessage",
    "Outcome",
    "Queued",
    "Request",
    "Resolution",
    "Run",
    "Thread",
    "Turn",
    "Visit",
    "WaitStyle",
    "dump",
    "empty",
    "load",
]

FORMAT = 1
"""Version of the stored form; a reader refuses a newer one rather than guess."""

CallState = Literal["input-available", "running", "waiting", "output-available", "output-error"]
OnMessage = Literal["cancel", "keep", "refuse"]
How = Literal["submitted", "cancelled", "failed", "expired"]
WaitStyle = Literal["entry", "inline", "approval"]
"""Who made the wait: the tool at a declared wait point, an inline ``suspend()``, or the approval gate before the tool.
It is stored because the name does not tell, and a later build must not take one for another."""

CLIENT_TOOL = "client-tool"
"""The kind of a wait that code in one tab ends; while a tab has claimed it, nobody else may answer."""

TERMINAL: frozenset[str] = frozenset({"output-available", "output-error"})
OPEN_STATES: frozenset[str] = frozenset({"input-available", "running", "waiting"})


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did something."""

    id: str
    kind: Literal["person", "system"] = "person"
    name: str | None = None

    def wire(self) -> wire.Actor:
        """As clients see it."""
        spelled: wire.Actor = {"id": self.id, "kind": self.kind}
        if self.name is not None:
            spelled["name"] = self.name
        return spelled

    @property
    def label(self) -> str:
        """A name for people."""
        return self.name or self.id


SYSTEM = Actor("system", "system")


@dataclass(frozen=True, slots=True)
class Resolution:
    """How an action ended, by whom and when (ms since the epoch). The answer itself is stored by action id."""

    how: How
    by: Actor
    at: int
    reason: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """The connection that works on an action only one tab may do, until ``expires_at`` (ms) unless it is renewed."""

    by: Actor
    connection: str
    expires_at: int


@dataclass(frozen=True, slots=True)
class Action:
    """A pending visit to a wait point. ``audience`` names who may answer (``None``: all who may write)."""

    id: str
    call: str
    tool: str
    wait_point: str
    schema: dict[str, Any]
    at: int
    expires_at: int | None = None
    on_message: OnMessage = "cancel"
    audience: tuple[str, ...] | None = None
    redact: bool = False
    kind: str | None = None
    claim: Claim | None = None
    style: WaitStyle = "entry"

    @property
    def name(self) -> str:
        """The name clients see: ``toolName.waitPoint``."""
        return f"{self.tool}.{self.wait_point}"

    def held(self, now: int) -> Claim | None:
        """The claim, unless whoever had it fell silent."""
        return self.claim if self.claim is not None and self.claim.expires_at > now else None


@dataclass(frozen=True, slots=True)
class Visit:
    """A finished visit to a wait point."""

    action: str
    wait_point: str
    at: int
    resolution: Resolution
    style: WaitStyle = "entry"


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call of the current step.

    ``action`` is the pending action while it waits. ``entry`` is the answered action to re-enter with (``None``: the
    first entry). ``attempt`` counts entries at this place, ``fence`` is that of the running execution. ``steps`` names
    the results that are kept for the next entry; the results themselves are stored beside the control state.
    """

    id: str
    tool: str
    state: CallState = "input-available"
    action: str | None = None
    entry: str | None = None
    attempt: int = 0
    fence: int = 0
    visits: tuple[Visit, ...] = ()
    steps: tuple[str, ...] = ()

    @property
    def terminal(self) -> bool:
        return self.state in TERMINAL


@dataclass(frozen=True, slots=True)
class Turn:
    """What follows a person's message until the assistant message is finished.

    ``phase``: the model streams (``model``), calls are open (``tools``), or the message is to be closed (``closing``).
    ``step_fence`` is the fence under which the current model step was started, 0 if it was not. ``by`` is who
    spoke, ``at`` when the assistant message was opened (ms).
    """

    message: str
    phase: Literal["model", "tools", "closing"] = "model"
    step: int = 0
    step_attempt: int = 0
    step_fence: int = 0
    calls: tuple[Call, ...] = ()
    at: int = 0
    by: Actor | None = None
    superseded: bool = False
    reason: str = ""
    error_text: str | None = None

    def call(self, call_id: str) -> Call | None:
        return next((call for call in self.calls if call.id == call_id), None)

    def with_call(self, changed: Call) -> Turn:
        return replace(self, calls=tuple(changed if call.id == changed.id else call for call in self.calls))


@dataclass(frozen=True, slots=True)
class Run:
    """The time during which one instance drives the thread."""

    id: str
    fence: int


@dataclass(frozen=True, slots=True)
class Queued:
    """A message that waits for the open turn to end."""

    message: wire.Message
    size: int


@dataclass(frozen=True, slots=True)
class Request:
    """A wait that application code opened outside any tool, until its continuation has gone on with the answer.

    ``input`` is what is asked; it lies here, and is small, since checkpoints need it. ``resolution`` is there once the
    action ended and the continuation is to run; ``unanswered``: also if it ended without an answer. ``attempt`` counts
    executions of the continuation, ``fence`` is that of the running one.
    """

    action: str
    continuation: str
    wait_point: str
    input: Any
    at: int
    unanswered: bool = False
    resolution: Resolution | None = None
    attempt: int = 0
    fence: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """An accepted command: its key (identity and command id), a digest of what it asked, and the reply it got."""

    key: str
    digest: str
    reply: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Thread:
    """The control state, whole."""

    id: str
    format: int = FORMAT
    run: Run | None = None
    turn: Turn | None = None
    actions: tuple[Action, ...] = ()
    requests: tuple[Request, ...] = ()
    queue: tuple[Queued, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    title: str | None = None

    def action(self, action_id: str) -> Action | None:
        return next((action for action in self.actions if action.id == action_id), None)

    def request(self, action_id: str) -> Request | None:
        """The request that this action belongs to; ``None`` for one of a tool."""
        return next((request for request in self.requests if request.action == action_id), None)

    def resolution(self, action_id: str) -> Resolution | None:
        """How an action of the current step, or of a request, ended, if it did."""
        request = self.request(action_id)
        if request is not None:
            return request.resolution
        for call in self.turn.calls if self.turn else ():
            for visit in call.visits:
                if visit.action == action_id:
                    return visit.resolution
        return None

    def outcome(self, key: str) -> Outcome | None:
        return next((outcome for outcome in self.outcomes if outcome.key == key), None)


_THREAD: TypeAdapter[Thread] = TypeAdapter(Thread)
_RESOLUTION: TypeAdapter[Resolution] = TypeAdapter(Resolution)
_OUTCOME: TypeAdapter[Outcome] = TypeAdapter(Outcome)


class NewerFormat(Exception):
    """The control state was written by a newer build; this instance must not touch the thread."""


def empty(thread: str) -> Thread:
    """A thread in which nothing has happened yet."""
    return Thread(thread)


def dump(thread: Thread) -> bytes:
    """Encode for the store."""
    return _THREAD.dump_json(thread, exclude_defaults=True)


def load(thread: str, stored: bytes) -> Thread:
    """Decode what the store holds; empty bytes are an empty thread. Raises :class:`NewerFormat`."""
    if not stored:
        return empty(thread)
    loaded = _THREAD.validate_json(stored)
    if loaded.format > FORMAT:
        raise NewerFormat(f"thread {thread} is stored in format {loaded.format}; this build knows {FORMAT}")
    return loaded


def dump_resolution(resolution: Resolution) -> bytes:
    return _RESOLUTION.dump_json(resolution, exclude_defaults=True)


def load_resolution(stored: bytes) -> Resolution:
    return _RESOLUTION.validate_json(stored)


def dump_outcome(outcome: Outcome) -> bytes:
    return _OUTCOME.dump_json(outcome)


def load_outcome(stored: bytes) -> Outcome:
    return _OUTCOME.validate_json(stored)
