"""Builds of one chat, for tests of what a deploy changes while calls wait, and of what the model is told.

``old`` asks, ``new`` goes on. The tools of ``new`` have the names of those of ``old`` and differ in what their names
say. Scripted and journalled like ``chats.py``; each model request also notes the definitions and results it was given.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

from pydantic import BaseModel

from support import chats
from support.chats import Approval, Question, approve, fast, journal, slow
from support.odd_chat import lapse
from waitpoint import (
    Chat,
    Connection,
    Identity,
    ModelRequest,
    Resume,
    ScriptedModel,
    ToolContext,
    WaitPoint,
    client_tool,
    suspend,
    tool,
)
from waitpoint.models import ToolTurn, to_turns
from waitpoint.tools import confirm
from waitpoint_protocol.frames import Hello


async def told(request: ModelRequest) -> AsyncIterator[Any]:
    """Note what this request brings, then play the script."""
    definitions = [[tool.name, tool.description, tool.input_schema] for tool in request.tools]
    results = [
        [result.tool_call_id, result.tool_name, result.error_text or result.output]
        for turn in to_turns(request.messages)
        if isinstance(turn, ToolTurn)
        for result in turn.results
    ]
    journal("told", thread=request.thread_id, step=request.step, definitions=definitions, results=results)
    async for said in chats.script(request):
        yield said


class Street(BaseModel):
    street: str


class Address(BaseModel):
    street: str
    zip: str


def _where(resume: type[BaseModel]) -> WaitPoint[Question, Any]:
    return WaitPoint("where", suspend=Question, resume=resume)


# --- the old build


signature = WaitPoint("signature", suspend=Question, resume=Approval)
seal = WaitPoint("seal", suspend=Question, resume=Approval)
where_old, where_new = _where(Street), _where(Address)


@tool(name="renamed", waits=[signature])
async def renamed(ctx: ToolContext) -> str:
    """A tool that the next build calls something else."""
    return ctx.suspend(signature, Question(prompt="renamed"))


@tool(name="point_removed", waits=[signature])
async def point_removed_old(ctx: ToolContext) -> str:
    """A tool whose wait point the next build does not have."""
    return ctx.suspend(signature, Question(prompt="point_removed"))


@tool(name="answer_grew", waits=[where_old])
async def answer_grew_old(ctx: ToolContext) -> str:
    """A tool whose answer has one more required field in the next build."""
    return ctx.suspend(where_old, Question(prompt="answer_grew"))


@tool(name="input_changed", waits=[signature])
async def input_changed_old(ctx: ToolContext, amount: int) -> str:
    """A tool whose input has one more required field in the next build."""
    return ctx.suspend(signature, Question(prompt=f"input_changed {amount}"))


@tool(name="unchanged", waits=[signature])
async def unchanged(ctx: ToolContext) -> str:
    """A tool that stays as it is."""
    if signature.answered(ctx.entry):
        journal("entered", tool="unchanged")
        return f"approved: {ctx.entry.data.approved}"
    return ctx.suspend(signature, Question(prompt="unchanged"))


# --- the new build


@tool(name="point_removed", waits=[seal])
async def point_removed_new(ctx: ToolContext) -> str:
    """The wait point is called something else now."""
    journal("entered", tool="point_removed")
    return ctx.suspend(seal, Question(prompt="point_removed"))


@tool(name="answer_grew", waits=[where_new])
async def answer_grew_new(ctx: ToolContext) -> str:
    """The answer needs a zip code now."""
    journal("entered", tool="answer_grew")
    if where_new.answered(ctx.entry):
        return str(ctx.entry.data.zip)
    return ctx.suspend(where_new, Question(prompt="answer_grew"))


@tool(name="input_changed", waits=[signature])
async def input_changed_new(ctx: ToolContext, amount: int, currency: str) -> str:
    """The call needs a currency now."""
    journal("entered", tool="input_changed")
    return currency


# --- values, dependencies, time


def mirror(given: list[Any]) -> list[Any]:
    """What a step makes of values: the same."""
    journal("step", values=given)
    return given


@tool
async def keep_values(ctx: ToolContext, given: list[Any]) -> Any:
    """Take values, keep them in a step, ask with them, and return the ones that are answered."""
    kept = await ctx.step("keep", lambda: mirror(given))
    answer = suspend({"values": given}, "values")
    journal("values", input=given, kept=kept, answer=answer)
    return answer


class Keys:
    """Secrets of this process, read when they are needed."""

    build = os.environ.get("WAITPOINT_TEST_BUILD", "")

    def signing_key(self) -> str:
        key = os.environ.get("WAITPOINT_TEST_SECRET")
        if key is None:
            raise RuntimeError("WAITPOINT_TEST_SECRET is not set")
        return key


@tool(waits=[signature])
async def sign(ctx: ToolContext[Keys], document: str) -> dict[str, Any]:
    """Sign once somebody has agreed; needs a secret for that, and only then."""
    if isinstance(ctx.entry, Resume):
        key = ctx.deps.signing_key()
        by = ctx.entry.action.by
        who = ctx.identity.id if ctx.identity else None
        journal("signed", document=document, key=key, build=ctx.deps.build, by=by, identity=who)
        return {"signed": document, "build": ctx.deps.build, "by": who}
    return ctx.suspend(signature, Question(prompt=f"Sign {document}? Asked by build {ctx.deps.build}"))


@tool(timeout=0.4)
async def tardy(ctx: ToolContext, where: str) -> str:
    """Run out of time: in the body, in a step, after a wait, or while it is being cancelled."""
    match where:
        case "body":
            await asyncio.sleep(30)
        case "step":
            await ctx.step("long", lambda: asyncio.sleep(30))
        case "wait":
            suspend("Go on?")
            await asyncio.sleep(30)
        case "cleanup":
            try:
                await asyncio.sleep(30)
            finally:
                await asyncio.sleep(0.3)
    return "in time"


@tool(approval=True)
async def gated(amount: int) -> str:
    """Wait for approval before anything else."""
    return f"spent {amount}"


@tool
async def uncompilable() -> Any:
    """Ask with a schema that is none."""
    return suspend("?", response_schema={"type": "integr", "minimum": "low"})


def authenticate(connection: Connection, hello: Hello) -> Identity | None:
    """A token is a name."""
    return Identity(hello.token or "nobody")


_both = [approve, fast, slow, lapse, keep_values, sign, tardy, gated, confirm, unchanged, uncompilable]
_page = client_tool("getLocation", output=Street, description="Where the user is.")

old = Chat(
    ScriptedModel(told),
    [*_both, _page, renamed, point_removed_old, answer_grew_old, input_changed_old],
    deps=Keys(),
    authenticate=authenticate,
    instructions="Be brief.",
)
new = Chat(
    ScriptedModel(told),
    [*_both, _page, point_removed_new, answer_grew_new, input_changed_new],
    deps=Keys(),
    authenticate=authenticate,
    instructions="Be brief.",
)
