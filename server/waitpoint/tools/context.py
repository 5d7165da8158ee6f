"""What a tool body is given: the original call, why it runs, and the ways to suspend and to report.

Knows one execution. Does not know the thread, the store or the runner: what it reports goes through a callback.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol

from typing_extensions import TypeVar

from waitpoint_protocol.events import DataEvent, ToolProgress
from waitpoint_protocol.state import Progress
from waitpoint_protocol.values import Value, normalise

from .contract import encode
from .entry import Entry, Resume, Visit
from .leaving import Abandoned, Leaving, Suspension
from .steps import Stepping, Steps, inside_step
from .waitpoint import WaitPoint

if TYPE_CHECKING:
    from .inline import Answers

__all__ = ["Identity", "Report", "ToolContext", "ToolInput"]

D = TypeVar("D", default=Any)
S = TypeVar("S")

MAX_PROGRESS_MESSAGE = 1_000
MAX_DATA = 256 * 1024
"""Bytes of UTF-8 JSON that one ``emit`` may show."""

Report = ToolProgress | DataEvent
"""What a tool may say while it runs, as the events it becomes."""


class Identity(Protocol):
    """For whom the tool runs."""

    @property
    def id(self) -> str: ...


class ToolInput:
    """The tool's parameters as the model gave them: ``ctx.input.report_id`` or ``ctx.input["report_id"]``."""

    __slots__ = ()

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


@dataclass(slots=True, eq=False, repr=False)
class ToolContext(Stepping, Generic[D]):
    """One execution of one tool call. Annotate ``ctx: ToolContext[MyDeps]`` to have ``ctx.deps`` typed."""

    input: ToolInput
    """The original call, the same at every entry; for a gated tool, what was approved."""

    entry: Entry
    """Why the body runs: ``Initial()`` or ``Resume(name, data, action)``."""

    suspend_history: Sequence[Visit]
    """Every finished visit of this call to a wait point, oldest first."""

    thread_id: str
    message_id: str
    tool_call_id: str
    tool_name: str

    attempt: int
    """Counts entries at this same place, from 1; above 1 an earlier execution was cut off."""

    identity: Identity | None
    deps: D

    _report: Callable[[Report], None]
    _answers: Answers
    _steps: Steps
    _approval: str | None = None
    _left: Leaving | None = None
    _over: bool = False

    def suspend(self, point: WaitPoint[S, Any], data: S) -> NoReturn:
        """Stop here and wait: ``return ctx.suspend(approval, Ask(...))``.

        The call leaves the body at once. The tool is entered again, from its top, when an answer was accepted.
        """
        self._require_inside()
        self._leave(Suspension(point, data))

    @property
    def idempotency_key(self) -> str:
        """The same whenever this place of the call is reached, and at no other; for services that should act once.

        A place is a step, or else what lies between two answers: it changes with the entry, and where an inline
        ``suspend()`` returns.
        """
        entry = self.entry.action.id if isinstance(self.entry, Resume) else self._approval or "initial"
        step = inside_step()
        place = self._answers.last_action or entry if step is None else f"step {step}"
        return "wp_" + _digest(self.thread_id, self.message_id, self.tool_call_id, place)[:40]

    def progress(self, fraction: float | None = None, message: str | None = None) -> None:
        """Show how far the tool is: a fraction from 0 to 1, a sentence, or both."""
        self._require_running()
        said: Progress = {}
        if fraction is not None:
            if math.isnan(fraction):
                raise ValueError("progress is a fraction from 0 to 1, not NaN")
            said["fraction"] = float(min(max(fraction, 0.0), 1.0))
        if message is not None:
            said["message"] = normalise(message[:MAX_PROGRESS_MESSAGE])
        self._report(ToolProgress(tool_call_id=self.tool_call_id, progress=said))

    def emit(self, name: str, data: Value, id: str | None = None) -> None:
        """Show application data in the message; the same ``id`` (default: one per call and name) replaces it."""
        self._require_running()
        made = id if id is not None else "d_" + _digest(self.tool_call_id, name)[:24]
        value = normalise(data)
        if (size := len(encode(value))) > MAX_DATA:
            raise ValueError(f"too-large: {size} bytes of data; the limit is {MAX_DATA}")
        self._report(DataEvent(id=made, name=name, data=value))

    def _require_inside(self) -> None:
        """For what may leave the body or is counted: neither of them inside a step, and nothing after leaving."""
        self._require_running()
        if self._left is not None:
            raise self._left
        if (step := inside_step()) is not None:
            self._leave(
                Abandoned(
                    f"{self.tool_name} waits or begins a step inside its step {step}; a step runs once, so do that "
                    "before or after it."
                )
            )

    def _leave(self, leaving: Leaving) -> NoReturn:
        if self._left is None:  # parallel branches: the first one counts
            self._left = leaving
        raise self._left

    def _require_running(self) -> None:
        # A task or thread the body left behind must not speak for a call that has ended.
        if self._over:
            raise RuntimeError(f"this execution of {self.tool_name} is over; await everything the tool starts")


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
