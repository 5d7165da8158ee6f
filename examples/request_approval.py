"""Approval is a wait point like any other: yes and no are both answers.

Run it, open the printed address and say anything::

    waitpoint serve examples.request_approval:chat

Two ways to answer from a page, and one to give up::

    const action = thread.getState().pending.find(item => item.name === "requestApproval.approval");
    await action.submit({ approved: true, comment: "Send it." });
    await action.submit({ approved: false });
    await action.cancel({ reason: "The report is obsolete." });   // no answer: the model sees an error instead
"""

from __future__ import annotations

from collections.abc import Iterator

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
    """What is to be approved."""

    prompt: str


class Decision(BaseModel):
    """The answer, and the tool's output as it is."""

    approved: bool
    comment: str | None = None


approval = WaitPoint("approval", suspend=Ask, resume=Decision)


@tool(name="requestApproval", waits=[approval])
async def request_approval(ctx: ToolContext, summary: str) -> Decision:
    """Request approval before sending a report."""
    match ctx.entry:
        case Initial():
            return ctx.suspend(approval, Ask(prompt=summary))
        case Resume(name="approval", data=Decision() as decision):
            return decision
        case _:
            raise UnsupportedEntry


def script(request: ModelRequest) -> Iterator[str | Call]:
    """Stands in for a model: asks for approval of what was said, then tells the outcome."""
    turns = to_turns(request.messages)
    if request.step == 0:
        yield Call("requestApproval", {"summary": "Send the report to all customers?"})
    elif isinstance(turns[-1], ToolTurn):
        [result] = turns[-1].results
        yield result.error_text or ("Sent." if result.output["approved"] else "Not sent.")


chat = Chat(ScriptedModel(script), [request_approval])
