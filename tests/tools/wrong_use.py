"""Checked, never run: each line marked ``wrong`` is a mistake that a type checker has to find, and the only ones.

The marks are read by ``test_typing.py``; mypy and pyright must complain about exactly these lines.
"""

from __future__ import annotations

from pydantic import BaseModel

from waitpoint import Chat, Resume, ToolContext, UnsupportedEntry, WaitPoint, step_sync, suspend, tool


class Ask(BaseModel):
    prompt: str


class Details(BaseModel):
    audience: str


class Deps(BaseModel):
    region: str


collect = WaitPoint("collectDetails", suspend=Ask, resume=Details)
approve = WaitPoint("approve", suspend=Ask, resume=bool)


@tool(waits=[collect, approve])
async def dispatched(ctx: ToolContext[Deps]) -> Details:
    """The answer at the place where it is used, and what is asked."""
    if collect.answered(ctx.entry):
        ctx.progress(message=ctx.entry.data.deadline)  # wrong: Details has no such field
        return ctx.entry.data
    if approve.answered(ctx.entry):
        return ctx.entry.data  # wrong: a bool is not Details
    if ctx.deps.zone:  # wrong: Deps has no such field
        return ctx.suspend(collect, "For whom?")  # wrong: a text is not Ask
    return ctx.suspend(approve, Ask(prompt="Sure?"))


@tool(waits=[collect])
async def matched(ctx: ToolContext) -> str:
    """The same by ``match``."""
    match ctx.entry:
        case Resume(name="collectDetails", data=Details() as details):
            return details.deadline  # wrong: Details has no such field
        case _:
            raise UnsupportedEntry


@tool
def inline() -> str:
    """The answer has the type that was asked for."""
    age = suspend("How old?", response_schema=int)
    details = suspend("For whom?", response_schema=Details)
    suspend("Sure?", respons_schema=bool)  # wrong: no such option
    if step_sync("count", lambda: 1).upper():  # wrong: an int has no such method
        return age  # wrong: an int is not a text
    return details.deadline  # wrong: Details has no such field


WaitPoint("short", suspend=Ask, resume=bool, expires="1h")  # wrong: the option is expires_in
WaitPoint("queued", suspend=Ask, resume=bool, on_message="queue")  # wrong: no such policy


@tool(on_crash="ignore")  # wrong: no such choice
async def crashed() -> None:
    """A choice that does not exist."""


Chat(inline, [inline])  # wrong: a tool is not a model
