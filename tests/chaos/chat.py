"""The chat of the chaos run: tools that write down every entry, with the answer they saw, before they do anything.

The user's message is the script: JSON with ``steps`` (as in ``support.chats``) and a ``nonce`` that names the message.
Each line of the journal is one atomic append, so a tool that dies leaves exactly what it had done.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from pydantic import BaseModel

from support.chats import journal
from waitpoint import Call, Chat, ModelRequest, Resume, ScriptedModel, ToolContext, WaitPoint, tool
from waitpoint.models import to_turns


class Question(BaseModel):
    label: str


class Answer(BaseModel):
    """The nonce names the answer: whoever sees it can say which command it came with."""

    nonce: str


decision = WaitPoint("decision", suspend=Question, resume=Answer, on_message="cancel")
patient = WaitPoint("patient", suspend=Question, resume=Answer, on_message="keep")
soon = WaitPoint("soon", suspend=Question, resume=Answer, expires_in=1.5)


def entered(ctx: ToolContext, answer: str | None = None) -> None:
    """Note that a tool body runs, and with what."""
    action = ctx.entry.action.id if isinstance(ctx.entry, Resume) else None
    journal(
        "enter",
        tool=ctx.tool_name,
        thread=ctx.thread_id,
        call=ctx.tool_call_id,
        action=action,
        answer=answer,
        attempt=ctx.attempt,
        key=ctx.idempotency_key,
        at=time.time(),
    )


def left(ctx: ToolContext) -> None:
    """Note that a tool body ended by itself."""
    action = ctx.entry.action.id if isinstance(ctx.entry, Resume) else None
    journal("leave", thread=ctx.thread_id, call=ctx.tool_call_id, action=action, attempt=ctx.attempt, at=time.time())


async def _ask(ctx: ToolContext, point: WaitPoint[Question, Answer], label: str, seconds: float) -> str:
    match ctx.entry:
        case Resume(data=Answer() as answer):
            entered(ctx, answer.nonce)
            await asyncio.sleep(seconds)
            left(ctx)
            return answer.nonce
        case _:
            entered(ctx)
            return ctx.suspend(point, Question(label=label))


@tool(waits=[decision], max_attempts=50)
async def ask(ctx: ToolContext, label: str, seconds: float = 0.0) -> str:
    """Wait for an answer, then work on it for a while."""
    return await _ask(ctx, decision, label, seconds)


@tool(waits=[patient], max_attempts=50)
async def ask_patiently(ctx: ToolContext, label: str, seconds: float = 0.0) -> str:
    """Like ask, but messages queue behind the wait."""
    return await _ask(ctx, patient, label, seconds)


@tool(waits=[soon], max_attempts=50)
async def ask_soon(ctx: ToolContext, label: str, seconds: float = 0.0) -> str:
    """Like ask, with a deadline."""
    return await _ask(ctx, soon, label, seconds)


@tool(waits=[decision, patient], max_attempts=50)
async def ask_twice(ctx: ToolContext, label: str) -> str:
    """Two waits in one call."""
    match ctx.entry:
        case Resume(name="decision", data=Answer() as answer):
            entered(ctx, answer.nonce)
            return ctx.suspend(patient, Question(label=f"{label} again"))
        case Resume(name="patient", data=Answer() as answer):
            entered(ctx, answer.nonce)
            return answer.nonce
        case _:
            entered(ctx)
            return ctx.suspend(decision, Question(label=label))


@tool(max_attempts=50)
async def work(ctx: ToolContext, seconds: float) -> str:
    """Run for a while; entered again when it was cut off."""
    entered(ctx)
    for n in range(4):
        ctx.progress(n / 4)
        await asyncio.sleep(seconds / 4)
    left(ctx)
    return "worked"


@tool(on_crash="fail")
async def once(ctx: ToolContext, seconds: float) -> str:
    """Run for a while; never entered again when it was cut off."""
    entered(ctx)
    await asyncio.sleep(seconds)
    left(ctx)
    return "worked once"


async def script(request: ModelRequest) -> Any:
    """Play the step that the user's message asks for."""
    to_turns(request.messages)  # every call has exactly one result, or this raises
    said = next(message for message in reversed(request.messages) if message["role"] == "user")
    text = "".join(part["text"] for part in said["parts"] if part["type"] == "text")
    steps = json.loads(text)["steps"]
    if request.step >= len(steps):
        yield "That is all."
        return
    step = steps[request.step]
    if isinstance(step, dict):
        for number in range(step["words"]):
            yield f"word{number} "
            await asyncio.sleep(step["delay"])
        return
    for name, arguments in step:
        yield Call(name, arguments)


chat = Chat(ScriptedModel(script), [ask, ask_patiently, ask_soon, ask_twice, work, once])
