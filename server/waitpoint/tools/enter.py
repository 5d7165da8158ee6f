"""What a tool body is given, made from what is stored of its call.

Knows how stored values become an author's types. Runs nothing.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Sequence
from typing import assert_never

from .context import Report, ToolContext
from .contract import Misfit
from .entry import (
    Cancel,
    CancelledVisit,
    Entry,
    ExpiredVisit,
    Fail,
    FailedVisit,
    Initial,
    Resume,
    SubmittedVisit,
    Visit,
)
from .inline import Answers
from .outcome import Execution, InitialEntry, ResumeEntry, VisitData
from .steps import Steps
from .tool import Tool

__all__ = ["Unenterable", "context_of"]

TAKEN_WITHIN = 30.0
"""Seconds for which a sync body waits until what it reports is taken; only a loop that stands still takes longer."""


class Unenterable(Exception):
    """What is stored of this call does not fit the tool as it is now."""


def context_of(tool: Tool, execution: Execution) -> ToolContext:
    try:
        given = tool.input.parse(execution.input)
    except Misfit as misfit:
        raise Unenterable(f"The input does not fit {tool.name}: {misfit}") from misfit
    return ToolContext(
        input=given,
        entry=_entry(tool, execution),
        suspend_history=tuple(_visit(tool, visit) for visit in execution.history),
        thread_id=execution.thread_id,
        message_id=execution.message_id,
        tool_call_id=execution.tool_call_id,
        tool_name=tool.name,
        attempt=execution.attempt,
        identity=execution.identity,
        deps=execution.deps,
        _report=_from_any_thread(execution.report),
        _answers=Answers(_inline(execution.history)),
        _steps=Steps(execution.steps, execution.record),
        _approval=execution.approval,
    )


def _inline(history: Sequence[VisitData]) -> Sequence[VisitData]:
    """The inline waits of this entry: what a body asked before a declared wait point belongs to an earlier one."""
    since = max((at + 1 for at, visit in enumerate(history) if visit.style == "entry"), default=0)
    return [visit for visit in history[since:] if visit.style == "inline" and visit.status == "submitted"]


def _entry(tool: Tool, execution: Execution) -> Entry:
    match execution.entry:
        case InitialEntry():
            return Initial()
        case ResumeEntry(name=name, data=data, action=action):
            point = tool.waits.get(name)
            if point is None:
                raise Unenterable(f"{tool.name} no longer has the wait point {name}; the answer has nowhere to go.")
            try:
                return Resume(name, point.resume.parse(data), action)
            except Misfit as misfit:
                raise Unenterable(
                    f"The accepted answer no longer fits the wait point {name} of {tool.name}: {misfit}"
                ) from misfit
        case entry:
            assert_never(entry)


def _visit(tool: Tool, visit: VisitData) -> Visit:
    match visit.status:
        case "submitted":
            answer = _parsed_if_it_fits(tool, visit)
            return SubmittedVisit(visit.name, visit.suspended_at, visit.input, visit.resolved_at, answer)
        case "cancelled":
            cancel = Cancel(visit.reason)
            return CancelledVisit(visit.name, visit.suspended_at, visit.input, visit.resolved_at, cancel)
        case "failed":
            fail = Fail(visit.message or "")
            return FailedVisit(visit.name, visit.suspended_at, visit.input, visit.resolved_at, fail)
        case "expired":
            return ExpiredVisit(visit.name, visit.suspended_at, visit.input, visit.resolved_at)
        case status:
            assert_never(status)


def _parsed_if_it_fits(tool: Tool, visit: VisitData) -> object:
    point = tool.waits.get(visit.name) if visit.style == "entry" else None
    if point is None:
        return visit.answer
    try:
        return point.resume.parse(visit.answer)
    except Misfit:  # an old answer is only history; it must not stop the call
        return visit.answer


def _from_any_thread(report: Callable[[Report], None]) -> Callable[[Report], None]:
    loop, home = asyncio.get_running_loop(), threading.get_ident()

    def hand_over(said: Report) -> None:
        if threading.get_ident() == home:
            report(said)
            return
        # The thread waits until it is taken: it hears of a refusal, and cannot get ahead without bound.
        taken: concurrent.futures.Future[None] = concurrent.futures.Future()

        def take() -> None:
            try:
                report(said)
            except Exception as error:
                taken.set_exception(error)
            else:
                taken.set_result(None)

        loop.call_soon_threadsafe(take)
        taken.result(TAKEN_WITHIN)

    return hand_over
