"""The chat that system tests talk to.

The user's message is the script: a JSON list with one entry per model step, each a list of ``[tool, input]`` calls or a
text. So a test says exactly what the model does. Every tool entry is written to the file named by
``WAITPOINT_TEST_JOURNAL``, one JSON line each, appended atomically, so effects can be counted over all processes.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import Any, Literal

from pydantic import BaseModel

from waitpoint import Call, Chat, Initial, ModelRequest, Resume, ScriptedModel, ToolContext, WaitPoint, tool
from waitpoint.models import to_turns


def journal(kind: str, **entry: Any) -> None:
    """Note an effect where every process of the test can be counted."""
    path = os.environ.get("WAITPOINT_TEST_JOURNAL")
    if path is None:
        return
    line = json.dumps({"kind": kind, "pid": os.getpid(), **entry}) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


class Question(BaseModel):
    prompt: str


class Approval(BaseModel):
    approved: bool
    comment: str | None = None


class Nested(BaseModel):
    street: str
    number: int


class Details(BaseModel):
    audience: Literal["team", "board"]
    deadline: str | None = None
    address: Nested | None = None


class FileRef(BaseModel):
    fileId: str


approval = WaitPoint("approval", suspend=Question, resume=Approval)
collect_details = WaitPoint("collectDetails", suspend=Question, resume=Details)
approve_draft = WaitPoint("approveDraft", suspend=Question, resume=Approval)
attach_file = WaitPoint("attachReferenceFile", suspend=Question, resume=FileRef)
value_points = {
    "bool": WaitPoint("bool", suspend=Question, resume=bool),
    "int": WaitPoint("int", suspend=Question, resume=int),
    "str": WaitPoint("str", suspend=Question, resume=str),
    "list": WaitPoint("list", suspend=Question, resume=list[int]),
    "object": WaitPoint("object", suspend=Question, resume=dict[str, int]),
    "nullable": WaitPoint("nullable", suspend=Question, resume=int | None),
    "any": WaitPoint("any", suspend=Question, resume=Any),
}
keep = WaitPoint("keep", suspend=Question, resume=bool, on_message="keep")
refuse = WaitPoint("refuse", suspend=Question, resume=bool, on_message="refuse")
within_an_hour = WaitPoint("withinAnHour", suspend=Question, resume=Approval, expires_in=3600)


@tool(waits=[approval])
async def approve(ctx: ToolContext, label: str = "") -> dict[str, Any]:
    """Ask for approval."""
    match ctx.entry:
        case Resume(name="approval", data=Approval() as answer):
            journal("approved", call=ctx.tool_call_id, label=label, data=answer.model_dump(), attempt=ctx.attempt)
            return {"label": label, "approved": answer.approved, "comment": answer.comment}
        case _:
            journal("asked", call=ctx.tool_call_id, label=label, attempt=ctx.attempt)
            return ctx.suspend(approval, Question(prompt=f"Approve {label}?"))


@tool(waits=[within_an_hour])
async def approve_in_time(ctx: ToolContext) -> bool:
    """Ask for approval within an hour."""
    match ctx.entry:
        case Resume(data=Approval() as answer):
            return answer.approved
        case _:
            return ctx.suspend(within_an_hour, Question(prompt="Approve soon?"))


@tool(waits=[collect_details, approve_draft, attach_file])
async def draft(ctx: ToolContext, report_id: str) -> dict[str, Any]:
    """Three waits in a row."""
    history = [(visit.name, visit.status) for visit in ctx.suspend_history]
    journal("draft", call=ctx.tool_call_id, entry=getattr(ctx.entry, "name", "initial"), history=history)
    match ctx.entry:
        case Initial():
            return ctx.suspend(collect_details, Question(prompt="For whom?"))
        case Resume(name="collectDetails", data=Details() as details):
            return ctx.suspend(approve_draft, Question(prompt=f"Draft for {details.audience}. Good?"))
        case Resume(name="approveDraft", data=Approval(approved=False) as answer):
            return {"status": "rejected", "comment": answer.comment}
        case Resume(name="approveDraft"):
            return ctx.suspend(attach_file, Question(prompt=f"File for {report_id}?"))
        case Resume(name="attachReferenceFile", data=FileRef() as file):
            return {"status": "done", "fileId": file.fileId, "reportId": report_id, "history": len(history)}
        case _:
            raise AssertionError("unreachable")


@tool(waits=list(value_points.values()))
async def value(ctx: ToolContext, kind: str) -> Any:
    """Wait for a value of some kind and return it as it came."""
    match ctx.entry:
        case Resume(data=data):
            journal("value", call=ctx.tool_call_id, data=data)
            return {"got": data}
        case _:
            return ctx.suspend(value_points[kind], Question(prompt=kind))


@tool(waits=[keep, refuse])
async def policy(ctx: ToolContext, how: str) -> str:
    """Wait under a message policy."""
    match ctx.entry:
        case Resume(data=bool() as data):
            return f"answered {data}"
        case _:
            return ctx.suspend(keep if how == "keep" else refuse, Question(prompt=how))


@tool
async def slow(ctx: ToolContext, seconds: float, label: str = "") -> str:
    """Take a while."""
    journal("slow", call=ctx.tool_call_id, label=label, attempt=ctx.attempt)
    await asyncio.sleep(seconds)
    journal("slow-done", call=ctx.tool_call_id, label=label, attempt=ctx.attempt)
    return f"slept {label}"


@tool
async def block(ctx: ToolContext, how: str, seconds: float) -> str:
    """Block the event loop, as careless tools do."""
    journal("block", call=ctx.tool_call_id, attempt=ctx.attempt)
    if how == "sleep":
        time.sleep(seconds)  # noqa: ASYNC251 - the carelessness is the point
    else:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass
    return "blocked"


@tool
async def fast(ctx: ToolContext, label: str = "") -> str:
    """Return at once."""
    journal("fast", call=ctx.tool_call_id, label=label)
    return f"fast {label}"


@tool
async def fail(ctx: ToolContext, label: str = "") -> str:
    """Raise."""
    raise RuntimeError(f"failed {label}")


@tool
async def typed(ctx: ToolContext, number: int) -> int:
    """Take a number; a bad call never reaches it."""
    journal("typed", call=ctx.tool_call_id)
    return number


@tool
async def wrong_output(ctx: ToolContext) -> int:
    """Return what its schema forbids."""
    return "not a number"  # type: ignore[return-value]


async def script(request: ModelRequest) -> Any:
    """Play the step that the user's message asks for."""
    turns = to_turns(request.messages)  # every call has exactly one result, or this raises
    journal("model", thread=request.thread_id, step=request.step, turns=len(turns))
    said = next(message for message in reversed(request.messages) if message["role"] == "user")
    text = "".join(part["text"] for part in said["parts"] if part["type"] == "text")
    try:
        steps = json.loads(text)
    except ValueError:
        yield f"You said: {text}"
        return
    if request.step >= len(steps):
        results = []
        for turn in turns:
            for result in getattr(turn, "results", ()):
                results.append([result.tool_name, result.error_text or result.output])
        yield f"Results: {json.dumps(results)}"
        return
    step = steps[request.step]
    if isinstance(step, str):
        yield step
    elif isinstance(step, dict):
        # {"words": n, "delay": s}: a long stream; {"silence": s}: says nothing for a while.
        if "silence" in step:
            await asyncio.sleep(step["silence"])
        for number in range(step.get("words", 0)):
            yield f"word{number} "
            await asyncio.sleep(step.get("delay", 0))
    else:
        for name, arguments in step:
            yield Call(name, arguments)


chat = Chat(
    ScriptedModel(script),
    [approve, approve_in_time, draft, value, policy, slow, block, fast, fail, typed, wrong_output],
)
