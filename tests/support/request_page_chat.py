"""For tests in a browser: say "ask" and the application asks something outside any tool."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from waitpoint import Call, Chat, ContinuationContext, ModelRequest, ScriptedModel, ToolContext, WaitPoint, tool


class Invoice(BaseModel):
    prompt: str
    number: int


class Verdict(BaseModel):
    approved: bool


release = WaitPoint("release", suspend=Invoice, resume=Verdict)


@tool
async def note(ctx: ToolContext) -> str:
    """Stands in for a webhook."""
    await chat.request(ctx.thread_id, release, Invoice(prompt="Pay invoice 7?", number=7), on_answer="payInvoice")
    return "noted"


def script(request: ModelRequest) -> Iterator[str | Call]:
    """Calls the tool once when asked to."""
    said = [part["text"] for part in request.messages[-1]["parts"] if part["type"] == "text"]
    if request.step == 0 and said == ["ask"]:
        yield Call("note", {})
    else:
        yield f"Heard: {' '.join(said)}" if request.step == 0 else "They will ask."


chat = Chat(ScriptedModel(script), [note])


@chat.continuation("payInvoice", release)
async def pay_invoice(ctx: ContinuationContext, answer: Verdict) -> None:
    """Tell the thread."""
    await ctx.say("paid" if answer.approved else "not paid")
