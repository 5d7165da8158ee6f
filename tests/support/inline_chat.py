"""The chat that tests of inline waits, steps and gates talk to; scripted and journalled like ``chats.py``."""

from __future__ import annotations

import asyncio
import itertools
from typing import Annotated, Any

from pydantic import BaseModel, Field

from support.chats import journal, script
from waitpoint import Chat, Resume, ScriptedModel, ToolContext, WaitPoint, step_sync, suspend, tool
from waitpoint.tools import ask_user, ask_user_multi, confirm


class Question(BaseModel):
    prompt: str


collect = WaitPoint("collect", suspend=Question, resume=int)


@tool
def survey(label: str = "") -> list[Any]:
    """Two inline waits in a thread."""
    journal("survey", label=label)
    name = suspend({"question": "Name?"}, "name", response_schema=str)
    journal("named", name=name)
    sure = suspend({"question": "Sure?", "name": name}, "sure", response_schema=bool)
    journal("sure", sure=sure)
    return [name, sure]


@tool
async def survey_async(label: str = "") -> list[Any]:
    """Two inline waits with equal payloads."""
    journal("survey", label=label)
    first = suspend("Again?")
    second = suspend("Again?")
    journal("sure", first=first, second=second)
    return [first, second]


@tool
def ask_age() -> int:
    """A wait whose schema is enforced."""
    journal("age")
    age: int = suspend({"question": "How old?"}, "ask_user", {"type": "integer", "minimum": 0, "maximum": 130})
    return age


@tool(waits=[collect])
async def mixed(ctx: ToolContext) -> list[Any]:
    """Inline waits around a declared one, and a step that all entries share."""

    async def work() -> str:
        journal("work")
        return "worked"

    done = await ctx.step("work", work)
    if isinstance(ctx.entry, Resume):
        sure = suspend({"number": ctx.entry.data}, "sure", response_schema=bool)
        return [done, ctx.entry.data, sure, [visit.name for visit in ctx.suspend_history]]
    name = suspend("Name?")
    return ctx.suspend(collect, Question(prompt=f"How many, {name}?"))


class Receipt(BaseModel):
    id: str
    amount: int


@tool(approval=lambda given: given.amount > 10, approval_prompt=lambda given: f"Pay {given.amount}?")
def pay(amount: Annotated[int, Field(ge=1, le=1000)], to: str = "Ann") -> dict[str, Any]:
    """Gated by a policy; pays in a step; asks afterwards."""
    journal("entered", amount=amount, to=to)

    def charge() -> Receipt:
        journal("charged", amount=amount, to=to)
        return Receipt(id="r", amount=amount)

    receipt = step_sync("charge", charge, result_type=Receipt)
    answer = suspend({"question": "Receipt by mail?", "receipt": receipt.id}, "mail", response_schema=bool)
    return {"amount": receipt.amount, "to": to, "mail": answer}


@tool
async def steps(ctx: ToolContext, seconds: float) -> str:
    """A quick step and a slow one."""

    async def quick() -> None:
        journal("quick")

    async def slow() -> str:
        journal("slow")
        await asyncio.sleep(seconds)
        journal("slow-done")
        return "slow"

    await ctx.step("quick", quick)
    return await ctx.step("slow", slow)


_runs = itertools.count()


@tool
def fickle() -> Any:
    """Asks something else each time it runs."""
    return suspend({"run": next(_runs)})


chat = Chat(
    ScriptedModel(script),
    [survey, survey_async, ask_age, mixed, pay, steps, fickle, ask_user, ask_user_multi, confirm],
)
