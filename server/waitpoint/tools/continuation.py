"""Continuations: what application code registers to go on with when a request of its own was answered.

Knows one function and one ended action. When it runs, and that it runs under a lease, is the runner's business.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from waitpoint_protocol.frames import FieldError
from waitpoint_protocol.values import Value

from ..errors import DefinitionError
from .contract import Misfit
from .entry import ActionRef
from .schema import fingerprint
from .stored import check_against
from .waitpoint import WaitPoint

__all__ = ["Continuation", "ContinuationContext", "Say"]

logger = logging.getLogger(__name__)

GRACE = 1.0
"""Seconds a cancelled continuation has to end before it is left behind."""

MAX_ERROR_TEXT = 2_000

Say = Callable[[str, str, str], Awaitable[None]]
"""Says something in a thread as the application: ``say(thread, text, id)``."""


@dataclass(slots=True, eq=False)
class ContinuationContext:
    """One run of a continuation: which request, how it ended, and the way back into its thread."""

    thread_id: str

    action: ActionRef
    """What was asked, when, and who ended it."""

    how: Literal["submitted", "cancelled", "failed", "expired"]
    """How it ended. Other than ``submitted`` only for continuations registered with ``unanswered=True``."""

    reason: str | None
    message: str | None
    """What was said when it was cancelled, or failed."""

    attempt: int
    """Counts runs, from 1; above 1 an earlier one was cut off by a crash."""

    deps: Any
    _data: Value
    _say: Say | None
    _said: int = 0

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt: give it to services that should act once."""
        return "wp_" + hashlib.sha256(f"{self.thread_id}\0{self.action.id}".encode()).hexdigest()[:40]

    async def say(self, text: str) -> None:
        """Send a message to the thread, which the model answers. What an earlier attempt said is not said again.

        So say the same things in the same order at every attempt.
        """
        if self._say is None:
            raise RuntimeError("nobody listens here")
        self._said += 1
        await self._say(self.thread_id, text, f"{self.action.id}:{self._said}")


class Continuation:
    """A registered continuation. Made by ``@chat.continuation("name")``."""

    def __init__(
        self,
        name: str,
        function: Callable[[ContinuationContext, Any], Any],
        point: WaitPoint[Any, Any] | None,
        *,
        max_attempts: int,
        unanswered: bool,
    ) -> None:
        if not inspect.iscoroutinefunction(function):
            raise DefinitionError(f"continuation {name} is an async function: async def {name}(ctx, answer)")
        if not isinstance(max_attempts, int) or max_attempts < 1:
            raise DefinitionError(f"continuation {name}: max_attempts is a whole number from 1 up")
        self.name = name
        self.function = function
        self.point = point
        self.max_attempts = max_attempts
        self.unanswered = unanswered

    def check_answer(self, schema: dict[str, Any], value: Value) -> list[FieldError]:
        """What is wrong with an answer: by the type, while that is what was asked for, else by the stored schema."""
        if self.point is not None and self.point.fingerprint == fingerprint(schema):
            return self.point.check_resume(value)
        return check_against(schema, value)

    async def run(self, context: ContinuationContext) -> str | None:
        """Run it once; what went wrong, if anything did. Raises only when it is cancelled from outside."""
        # In a task of its own: what the author cancels inside must not look like a lost lease.
        body = asyncio.create_task(self._body(context), name=f"continuation {self.name} {context.action.id}")
        try:
            await asyncio.wait({body})
        except asyncio.CancelledError:
            body.cancel()
            await asyncio.wait({body}, timeout=GRACE)
            raise
        if body.cancelled():
            return self._wrong(context, "it was cancelled from inside")
        return body.result()

    async def _body(self, context: ContinuationContext) -> str | None:
        try:
            answer = context._data
            if context.how == "submitted" and self.point is not None:
                answer = self.point.resume.parse(answer)
            await self.function(context, answer)
        except Misfit as misfit:
            return self._wrong(context, f"the accepted answer no longer fits: {misfit}")
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:  # also SystemExit, which would otherwise stop the whole server
            logger.exception("continuation %s of thread %s raised", self.name, context.thread_id)
            return f"{type(error).__name__}: {error}"[:MAX_ERROR_TEXT]
        return None

    def _wrong(self, context: ContinuationContext, what: str) -> str:
        logger.error("continuation %s of thread %s did not go on: %s", self.name, context.thread_id, what)
        return what
