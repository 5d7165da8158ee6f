"""A tool that asks a person for what the model does not know.

Run it, open the printed address and say anything::

    waitpoint serve examples.collect_report_details:chat

A page answers with ``await thread.getState().pending[0].submit({ audience: "Product team", deadline: "Friday" })``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import BaseModel

from waitpoint import (
    Call,
    Chat,
    Initial,
    ModelRequest,
    Resume,
    ScriptedModel,
    ToolContext,
    UnsupportedEntry,
    WaitPoint,
    tool,
)
from waitpoint.models import ToolTurn, to_turns


class Ask(BaseModel):
    """What clients are shown: the action's ``input``."""

    prompt: str
    missing_fields: list[Literal["audience", "deadline"]]


class Details(BaseModel):
    """What clients may answer; a form is made from it, and every answer is held to it."""

    audience: str
    deadline: str | None = None


collect_details = WaitPoint("collectDetails", suspend=Ask, resume=Details)


@tool(name="collectReportDetails", waits=[collect_details])
async def collect_report_details(ctx: ToolContext, report_id: str, known_summary: str) -> Details:
    """Collect missing report details from the user."""
    match ctx.entry:
        case Initial():
            ask = Ask(prompt="Who is this report for, and when is it due?", missing_fields=["audience", "deadline"])
            return ctx.suspend(collect_details, ask)
        case Resume(name="collectDetails", data=Details() as details):
            return details
        case _:
            raise UnsupportedEntry


def script(request: ModelRequest) -> Iterator[str | Call]:
    """Stands in for a model: calls the tool once, then tells its result."""
    turns = to_turns(request.messages)
    if request.step == 0:
        yield Call("collectReportDetails", {"report_id": "r-1", "known_summary": "Sales rose by 4 %."})
    elif isinstance(turns[-1], ToolTurn):
        [result] = turns[-1].results
        yield result.error_text or f"A report for {result.output['audience']}, due {result.output['deadline']}."


chat = Chat(ScriptedModel(script), [collect_report_details])
