"""A tool with three wait points in a row, each with its own question and its own kind of answer.

Run it, open the printed address and say anything::

    waitpoint serve examples.draft_report:chat

A "no" to the draft is an answer like any other: ``submit({ approved: false, comment: "Too long" })``.
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
    """A question in words."""

    prompt: str


class Contents(BaseModel):
    """What the report should include."""

    topics: list[str]


class Draft(BaseModel):
    """What is to be approved."""

    summary: str


class Verdict(BaseModel):
    """Approval or rejection, both by value."""

    approved: bool
    comment: str | None = None


class Report(BaseModel):
    """The report that needs a file."""

    report_id: str


class ReferenceFile(BaseModel):
    """A file that was uploaded elsewhere."""

    file_id: str


class Result(BaseModel):
    """How it ended."""

    status: Literal["rejected", "done"]
    comment: str | None = None
    file_id: str | None = None


collect_details = WaitPoint("collectDetails", suspend=Ask, resume=Contents)
approve_draft = WaitPoint("approveDraft", suspend=Draft, resume=Verdict)
attach_reference_file = WaitPoint("attachReferenceFile", suspend=Report, resume=ReferenceFile)


@tool(name="draftReport", waits=[collect_details, approve_draft, attach_reference_file])
async def draft_report(ctx: ToolContext, report_id: str) -> Result:
    """Draft a report with the user."""
    match ctx.entry:
        case Initial():
            return ctx.suspend(collect_details, Ask(prompt="What should this report include?"))
        case Resume(name="collectDetails", data=Contents() as contents):
            return ctx.suspend(approve_draft, Draft(summary=await draft_from(contents)))
        case Resume(name="approveDraft", data=Verdict(approved=False) as verdict):
            return Result(status="rejected", comment=verdict.comment)
        case Resume(name="approveDraft"):
            return ctx.suspend(attach_reference_file, Report(report_id=report_id))
        case Resume(name="attachReferenceFile", data=ReferenceFile(file_id=file_id)):
            # Only the last answer arrives with the entry; earlier ones are in the history of this call.
            earlier = next(visit for visit in ctx.suspend_history if visit.name == "approveDraft")
            comment = earlier.resume.comment if earlier.status == "submitted" else None
            return Result(status="done", comment=comment, file_id=file_id)
        case _:
            raise UnsupportedEntry


async def draft_from(contents: Contents) -> str:
    """Write a draft. The body runs once per entry, so this is not repeated when the next answer arrives."""
    return f"A report on {', '.join(contents.topics)}."


def script(request: ModelRequest) -> Iterator[str | Call]:
    """Stands in for a model: calls the tool once, then tells its result."""
    turns = to_turns(request.messages)
    if request.step == 0:
        yield Call("draftReport", {"report_id": "r-1"})
    elif isinstance(turns[-1], ToolTurn):
        [result] = turns[-1].results
        yield result.error_text or f"The draft is {result.output['status']}."


chat = Chat(ScriptedModel(script), [draft_report])
