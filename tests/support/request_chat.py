"""A chat whose application code asks outside of tools. A tool stands in for that code, so that a test can reach it."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

from pydantic import BaseModel

from support.chats import approve, journal, script, slow
from waitpoint import Chat, ContinuationContext, ScriptedModel, ToolContext, WaitPoint, tool


class Invoice(BaseModel):
    number: int


class Verdict(BaseModel):
    approved: bool
    comment: str | None = None


release = WaitPoint("release", suspend=Invoice, resume=Verdict)
brief = WaitPoint("brief", suspend=Invoice, resume=Verdict, expires_in=0.5)


@tool
async def ask_outside(ctx: ToolContext, number: int, on_answer: str, key: str = "") -> str:
    """What a webhook or a job of the application would do."""
    point = brief if on_answer == "whatever" else release
    return await chat.request(ctx.thread_id, point, Invoice(number=number), on_answer=on_answer, id=key or None)


chat = Chat(ScriptedModel(script), [ask_outside, approve, slow])


@chat.continuation("pay", release)
async def pay(ctx: ContinuationContext, answer: Verdict) -> None:
    """Note the answer, and tell the thread."""
    journal("paid", number=ctx.action.input["number"], approved=answer.approved, attempt=ctx.attempt, how=ctx.how)
    await ctx.say(f"Invoice {ctx.action.input['number']}: {answer.approved}")


@chat.continuation("stumble", release)
async def stumble(ctx: ContinuationContext, answer: Verdict) -> None:
    """Take the server down at the first attempt, after having said something."""
    journal("stumbled", attempt=ctx.attempt, key=ctx.idempotency_key)
    await ctx.say("Said once.")
    if ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)


@chat.continuation("linger", release, max_attempts=5)
async def linger(ctx: ContinuationContext, answer: Verdict) -> None:
    """Take a while."""
    journal("lingering", attempt=ctx.attempt)
    await asyncio.sleep(3)
    journal("lingered", attempt=ctx.attempt)


@chat.continuation("broken")
async def broken(ctx: ContinuationContext, answer: Any) -> None:
    """Raise what no server should die of."""
    journal("broken", answer=answer)
    raise SystemExit(3)


@chat.continuation("whatever", brief, unanswered=True)
async def whatever(ctx: ContinuationContext, answer: Verdict | None) -> None:
    """Hear of every end."""
    journal("ended", how=ctx.how, answered=answer is not None, reason=ctx.reason)
