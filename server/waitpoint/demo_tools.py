"""The tools of the demo chat: each stops at wait points of a different kind.

Knows what an author of tools knows, and imports only what they would.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from .tools import Initial, Resume, ToolContext, UnsupportedEntry, WaitPoint, tool

__all__ = ["TOOLS"]


class Missing(BaseModel):
    """What collectReportDetails asks."""

    prompt: str
    missing_fields: list[Literal["audience", "deadline"]] = []


class Details(BaseModel):
    """Who a report is for, and when it is due."""

    audience: str = Field(min_length=1, description="Who will read the report?")
    deadline: str | None = Field(default=None, description="When is it due? Leave it out if it is not urgent.")


collect_details = WaitPoint("collectDetails", suspend=Missing, resume=Details)


@tool(name="collectReportDetails", waits=[collect_details])
async def collect_report_details(ctx: ToolContext, report_id: str, known_summary: str) -> Details:
    """Collect missing report details from the user."""
    match ctx.entry:
        case Initial():
            question = Missing(
                prompt=f"Who is the report “{known_summary}” for, and when is it due?",
                missing_fields=["audience", "deadline"],
            )
            return ctx.suspend(collect_details, question)
        case Resume(name="collectDetails", data=Details() as details):
            return details
        case _:
            raise UnsupportedEntry


class Question(BaseModel):
    """A question in words."""

    prompt: str


class Contents(BaseModel):
    """What a draft should hold."""

    topic: str = Field(min_length=1, description="What is the report about?")
    points: list[str] = Field(default=[], description="Points it must make")


class Draft(BaseModel):
    """A draft to look at."""

    prompt: str
    summary: str


class Verdict(BaseModel):
    """Yes or no, and why. A "no" is an answer, not a cancelled question."""

    approved: bool = Field(description="Approve?")
    comment: str | None = Field(default=None, description="Anything to add?", json_schema_extra={"format": "multiline"})


class FileReference(BaseModel):
    """A file kept elsewhere."""

    file_id: str = Field(min_length=1, description="Id of the reference file, for example F-2026-17")


class DraftResult(BaseModel):
    """How the draft ended."""

    status: Literal["rejected", "done"]
    comment: str | None = None
    file_id: str | None = None


collect_contents = WaitPoint("collectDetails", suspend=Question, resume=Contents)
approve_draft = WaitPoint("approveDraft", suspend=Draft, resume=Verdict)
attach_reference_file = WaitPoint("attachReferenceFile", suspend=Question, resume=FileReference)


@tool(name="draftReport", waits=[collect_contents, approve_draft, attach_reference_file])
async def draft_report(ctx: ToolContext, report_id: str) -> DraftResult:
    """Draft a report with the user: contents, approval, reference file."""
    match ctx.entry:
        case Initial():
            return ctx.suspend(collect_contents, Question(prompt="What should this report include?"))
        case Resume(name="collectDetails", data=Contents() as contents):
            draft = Draft(prompt="Shall this draft go out?", summary=_write(contents))
            return ctx.suspend(approve_draft, draft)
        case Resume(name="approveDraft", data=Verdict(approved=False) as verdict):
            return DraftResult(status="rejected", comment=verdict.comment)
        case Resume(name="approveDraft"):
            return ctx.suspend(attach_reference_file, Question(prompt=f"Which file backs up report {report_id}?"))
        case Resume(name="attachReferenceFile", data=FileReference(file_id=file_id)):
            # The comment came with an earlier answer; the history has it.
            comments = [
                visit.resume.comment
                for visit in ctx.suspend_history
                if visit.status == "submitted" and isinstance(visit.resume, Verdict)
            ]
            return DraftResult(status="done", comment=comments[-1] if comments else None, file_id=file_id)
        case _:
            raise UnsupportedEntry


def _write(contents: Contents) -> str:
    points = "; ".join(contents.points) or "the usual figures"
    return f"{contents.topic}, covering {points}."


approval = WaitPoint("approval", suspend=Question, resume=Verdict)


@tool(name="requestApproval", waits=[approval])
async def request_approval(ctx: ToolContext, summary: str) -> Verdict:
    """Request approval before sending a report."""
    match ctx.entry:
        case Initial():
            return ctx.suspend(approval, Question(prompt=summary))
        case Resume(name="approval", data=Verdict() as verdict):
            return verdict
        case _:
            raise UnsupportedEntry


class Venue(BaseModel):
    """Where an event takes place."""

    name: str = Field(min_length=1, description="Name of the place")
    city: str = Field(min_length=1)
    floor: int | None = None


class Event(BaseModel):
    """An event, with a field of every kind a form can have."""

    title: str = Field(min_length=3, max_length=80, description="What is it called?")
    notes: Annotated[str, Field(description="Anything guests should know", json_schema_extra={"format": "multiline"})]
    kind: Literal["talk", "workshop", "party"] = Field(description="What kind of event?")
    public: bool = Field(description="May anybody come?")
    seats: int = Field(ge=1, le=500, description="How many can come?")
    budget: float | None = Field(default=None, ge=0, description="In euros, if there is one")
    day: date | None = Field(default=None, description="If it is fixed already")
    topics: list[str] = Field(default=[], max_length=8, description="One line each")
    venue: Venue = Field(description="Where does it take place?")


plan = WaitPoint("plan", suspend=Question, resume=Event)


@tool(name="planEvent", waits=[plan])
async def plan_event(ctx: ToolContext, occasion: str) -> Event:
    """Plan an event with the user."""
    match ctx.entry:
        case Initial():
            return ctx.suspend(plan, Question(prompt=f"Tell me about the {occasion}."))
        case Resume(name="plan", data=Event() as event):
            return event
        case _:
            raise UnsupportedEntry


TOOLS = (collect_report_details, draft_report, request_approval, plan_event)
