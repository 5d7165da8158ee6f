"""The chats that transcripts are held with. ``protocol/transcripts/README.md`` says in words what each message does.

``desk`` lets everybody in. ``guarded`` wants a token, which is the name of an identity: threads whose name begins with
``ann.`` are Ann's, those with ``shared.`` may be read and written by everybody and answered by Ann alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel

from waitpoint import (
    Call,
    Chat,
    Connection,
    ContinuationContext,
    Identity,
    Initial,
    ModelRequest,
    Resume,
    ScriptedModel,
    ToolContext,
    WaitPoint,
    client_tool,
    tool,
)
from waitpoint_protocol.frames import Hello


class Ask(BaseModel):
    prompt: str


class Details(BaseModel):
    audience: str
    deadline: str | None = None


class Decision(BaseModel):
    approved: bool
    comment: str | None = None


collect_details = WaitPoint("collectDetails", suspend=Ask, resume=Details)
approve_draft = WaitPoint("approveDraft", suspend=Ask, resume=Decision)
pick_tone: WaitPoint[Ask, Literal["plain", "formal"]] = WaitPoint(
    "pickTone", suspend=Ask, resume=Literal["plain", "formal"]
)
confirmation = WaitPoint("confirmation", suspend=Ask, resume=bool)
anything: WaitPoint[Ask, Any] = WaitPoint("anything", suspend=Ask, resume=Any)
secret = WaitPoint("secret", suspend=Ask, resume=str, redact=True)
patient = WaitPoint("patient", suspend=Ask, resume=bool, on_message="keep")
strict = WaitPoint("strict", suspend=Ask, resume=bool, on_message="refuse")
brief = WaitPoint("brief", suspend=Ask, resume=bool, expires_in=0.3)


@tool(waits=[collect_details], name="collect")
async def collect(ctx: ToolContext, report: str) -> Details:
    """Collect what is missing for a report."""
    match ctx.entry:
        case Resume(name="collectDetails", data=Details() as details):
            return details
        case _:
            return ctx.suspend(collect_details, Ask(prompt=f"Who is {report} for?"))


@tool(waits=[collect_details, approve_draft, pick_tone], name="draft")
async def draft(ctx: ToolContext) -> dict[str, Any]:
    """Three waits in a row."""
    match ctx.entry:
        case Initial():
            return ctx.suspend(collect_details, Ask(prompt="Who is it for?"))
        case Resume(name="collectDetails", data=Details() as details):
            return ctx.suspend(approve_draft, Ask(prompt=f"A draft for {details.audience}. Good?"))
        case Resume(name="approveDraft", data=Decision(approved=True)):
            return ctx.suspend(pick_tone, Ask(prompt="Which tone?"))
        case Resume(name="approveDraft"):
            return {"status": "rejected", "visits": [visit.name for visit in ctx.suspend_history]}
        case Resume(data=tone):
            return {"status": "done", "tone": tone, "visits": [visit.name for visit in ctx.suspend_history]}
        case _:
            raise AssertionError("every entry is listed")


def _asking(name: str, point: WaitPoint[Ask, Any]) -> Any:
    async def body(ctx: ToolContext, label: str = "") -> dict[str, Any]:
        match ctx.entry:
            case Resume(data=data):
                return {"label": label, "got": data}
            case _:
                return ctx.suspend(point, Ask(prompt=f"{name} {label}".strip()))

    return tool(waits=[point], name=name, description=f"Ask once, at {point.name}.")(body)


@tool(name="quick")
async def quick(ctx: ToolContext, label: str = "") -> str:
    """Return at once."""
    return f"quick {label}".strip()


@tool(name="broken")
async def broken(ctx: ToolContext) -> str:
    """Raise."""
    raise RuntimeError("the printer is on fire")


class Wish(BaseModel):
    accuracy: Literal["coarse", "fine"] = "coarse"


class Place(BaseModel):
    place: str


TOOLS = [
    client_tool("locate", input=Wish, output=Place, description="Where the user is."),
    collect,
    draft,
    _asking("confirm", confirmation),
    _asking("anything", anything),
    _asking("secret", secret),
    _asking("patient", patient),
    _asking("strict", strict),
    _asking("brief", brief),
    quick,
    broken,
]


@tool(name="outside")
async def outside(ctx: ToolContext) -> str:
    """Have the application ask something, outside any tool."""
    return await desk.request(ctx.thread_id, confirmation, Ask(prompt="Shall we?"), on_answer="decided")


TOOLS.append(outside)

# What the model does, step by step, when a message says this.
SCRIPT: dict[str, list[Any]] = {
    "report": [["Let me ask. ", Call("collect", {"report": "the report"})], "Noted."],
    "draft": [[Call("draft", {})], "Here it is."],
    "confirm": [[Call("confirm", {"label": "one"})], "Thanks."],
    "two": [[Call("confirm", {"label": "one"}), Call("confirm", {"label": "two"})], "Thanks for both."],
    "mixed": [[Call("quick", {"label": "a"}), Call("confirm", {"label": "b"}), Call("broken", {})], "All settled."],
    "anything": [[Call("anything", {})], "I see."],
    "secret": [[Call("secret", {})], "I will not tell."],
    "patient": [[Call("patient", {})], "At last."],
    "strict": [[Call("strict", {})], "At last."],
    "locate": [[Call("locate", {})], "So there you are."],
    "outside": [[Call("outside", {})], "They will ask."],
    "brief": [[Call("brief", {})], "Too late."],
    "long": ["".join(f"word{number} " for number in range(300))],
}


def script(request: ModelRequest) -> Iterable[Any]:
    """The next step of what the newest message asks for; anything else is repeated back."""
    said = next(message for message in reversed(request.messages) if message["role"] == "user")
    text = "".join(part["text"] for part in said["parts"] if part["type"] == "text")
    steps = SCRIPT.get(text, [f"You said: {text}"])
    step = steps[request.step] if request.step < len(steps) else "That was all."
    return [step] if isinstance(step, str) else step


desk = Chat(ScriptedModel(script), TOOLS)


@desk.continuation("decided", confirmation)
async def decided(ctx: ContinuationContext, answer: bool) -> None:
    """Tell the thread."""
    await ctx.say(f"decided: {answer}")


def authenticate(connection: Connection, hello: Hello) -> Identity | None:
    """The token is the name; ``mallory`` is nobody."""
    token = hello.token or ""
    return Identity(token, name=token.capitalize()) if token in ("ann", "bob") else None


def may(identity: Identity, verb: str, thread: str, action: Any = None) -> bool:
    """Everybody has threads under their own name."""
    if thread.startswith("shared."):
        return verb != "answer" or identity.id == "ann"
    if thread.startswith("read."):
        return identity.id == "ann" or verb in ("subscribe", "read")
    return thread.startswith(f"{identity.id}.")


guarded = Chat(ScriptedModel(script), TOOLS, authenticate=authenticate, may=may)
