"""Checked, not run: what a strict type checker must see in a tool author's code, and what it must refuse."""

from __future__ import annotations

from typing import Any, Literal, assert_type

from pydantic import BaseModel

from waitpoint.tools import Initial, Resume, ToolContext, UnsupportedEntry, WaitPoint, step, step_sync, suspend, tool


class Ask(BaseModel):
    prompt: str


class Details(BaseModel):
    audience: str


class Deps(BaseModel):
    region: str


collect = WaitPoint("collectDetails", suspend=Ask, resume=Details)
approve = WaitPoint("approve", suspend=Ask, resume=bool)
pick: WaitPoint[Ask, Literal["a", "b"]] = WaitPoint("pick", suspend=Ask, resume=Literal["a", "b"])


@tool(waits=[collect])
async def matched(ctx: ToolContext, report_id: str) -> Details:
    """Dispatch by match."""
    match ctx.entry:
        case Initial():
            return ctx.suspend(collect, Ask(prompt=report_id))
        case Resume(name="collectDetails", data=Details() as details):
            assert_type(details, Details)
            return details
        case _:
            raise UnsupportedEntry


@tool(waits=[collect, approve, pick])
async def asked(ctx: ToolContext[Deps]) -> Details:
    """Dispatch by if."""
    assert_type(ctx.deps, Deps)
    if isinstance(ctx.entry, Initial):
        return ctx.suspend(pick, Ask(prompt=ctx.deps.region))
    if pick.answered(ctx.entry):
        assert_type(ctx.entry.data, Literal["a", "b"])
        return ctx.suspend(approve, Ask(prompt="Sure?"))
    if approve.answered(ctx.entry):
        assert_type(ctx.entry.data, bool)
        return ctx.suspend(collect, Ask(prompt="For whom?"))
    if collect.answered(ctx.entry):
        assert_type(ctx.entry.data, Details)
        return ctx.entry.data
    raise UnsupportedEntry


@tool(waits=[collect])
async def mistaken(ctx: ToolContext) -> Details:
    """Each mistake is one the checker finds; an ignore that is not needed fails the check."""
    if collect.answered(ctx.entry):
        return Details(audience=ctx.entry.data.audienc)  # type: ignore[attr-defined]
    return ctx.suspend(collect, "For whom?")  # type: ignore[misc]


@tool
def inline() -> int:
    """The answer has the type that was asked for."""
    details = suspend({"question": "For whom?"}, response_schema=Details)
    assert_type(details, Details)
    assert_type(suspend("Sure?", "confirm", response_schema=bool), bool)
    assert_type(suspend("Sure?", response_schema=int, expires_in=60), int)
    assert_type(suspend("Anything?", response_schema={"type": "integer"}), Any)
    assert_type(suspend("Anything?"), Any)
    picked: Literal["a", "b"] = suspend("Which?", response_schema=Literal["a", "b"])
    suspend("Sure?", expires=60)  # type: ignore[call-overload]
    return len(details.audienc) + len(picked)  # type: ignore[attr-defined]


async def fetch() -> Details:
    return Details(audience="A")


@tool
async def stepped(ctx: ToolContext) -> str:
    """A step returns what its function does, async or not."""
    assert_type(await ctx.step("fetch", fetch, result_type=Details), Details)
    assert_type(await ctx.step("count", lambda: 1), int)
    assert_type(await step("text", lambda: "a"), str)
    assert_type(await step("fetch", fetch), Details)
    assert_type(ctx.step_sync("count", lambda: 1), int)
    assert_type(step_sync("fetch", fetch, result_type=Details), Details)
    ctx.step("count", lambda: 1)  # type: ignore[unused-coroutine]
    return str((await ctx.step("count", lambda: 1)).upper())  # type: ignore[attr-defined]


@tool(approval=lambda given: given.amount > 100, approval_options={"audience": ["ann"]})
async def gated(amount: int) -> None:
    """A policy is a function of the input."""


@tool(approval=True, approval_options={"audiences": ["ann"]})  # type: ignore[call-overload, untyped-decorator]
async def misgated(amount: int) -> None:
    """An option that does not exist."""
