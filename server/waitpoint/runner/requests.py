"""Continuing a request: what application code registered runs with the answer, under the lease of its thread.

Knows requests, answers and continuations; nothing of turns, models and tools.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Protocol

from waitpoint_protocol.timestamps import from_millis

from ..desk import Driven, Snapshot
from ..store.types import Store
from ..thread import FinishContinuation, Request, Resolution, StartContinuation
from ..thread.project import answer_id
from ..tools import ActionRef, Continuation, ContinuationContext
from ..tools.continuation import Say
from .lease import Lease
from .log import DriverLog

__all__ = ["Continuing", "continue_request"]

logger = logging.getLogger(__name__)


class Continuing(Protocol):
    """What a chat brings to it."""

    @property
    def continuations(self) -> Mapping[str, Continuation]: ...
    @property
    def deps(self) -> Any: ...
    @property
    def say(self) -> Say | None: ...


async def continue_request(
    chat: Continuing, log: DriverLog, store: Store, lease: Lease, snapshot: Snapshot, action: str
) -> None:
    """Run the continuation of an ended request: once, or again after a crash that cut it off."""
    request = snapshot.thread.request(action)
    if request is None or request.resolution is None:
        return
    continuation = chat.continuations.get(request.continuation)
    attempts = 0 if continuation is None else continuation.max_attempts
    started = await log.command(StartContinuation(log.fence, action, max_attempts=attempts))
    if not isinstance(started, Driven) or started.committed is None:
        return
    request = started.snapshot.thread.request(action)
    if continuation is None or request is None or request.resolution is None:
        why = "it is not registered here" if continuation is None else "the server stopped each time it ran"
        logger.error("thread %s: continuation of request %s was given up: %s", log.thread, action, why)
        return
    stored = await lease.ask(lambda: store.values(log.thread, [answer_id(action)]))
    context = _context(chat, log.thread, request, request.resolution, stored[0])
    lease.trust()
    error = await continuation.run(context)
    await log.command(FinishContinuation(log.fence, action, error))


def _context(
    chat: Continuing, thread: str, request: Request, resolution: Resolution, answer: bytes | None
) -> ContinuationContext:
    return ContinuationContext(
        thread_id=thread,
        action=ActionRef(
            id=request.action,
            name=f"{request.continuation}.{request.wait_point}",
            input=request.input,
            suspended_at=from_millis(request.at),
            resumed_at=from_millis(resolution.at),
            by=resolution.by.wire(),
        ),
        how=resolution.how,
        reason=resolution.reason,
        message=resolution.message,
        attempt=request.attempt,
        deps=chat.deps,
        _data=None if answer is None else json.loads(answer),
        _say=chat.say,
    )
