"""Checked, not run: what a strict type checker must see in a tool author's code, and what it must refuse."""

from __future__ import annotations

from typing import Literal, assert_type

from pydantic import BaseModel

from waitpoint.tools import Initial, Resume, ToolContext, UnsupportedEntry, WaitPoint, tool


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
