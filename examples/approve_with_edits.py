"""An approval gate whose answer may change the call: the person corrects the mail, and the corrected one is sent.

Run it, open the printed address and say anything::

    waitpoint serve examples.approve_with_edits:chat

``input`` in the answer names only what changes. It is checked like a call of the model's; what does not fit is refused
with field errors, and the action stays open::

    await action.submit({ approved: true, input: { subject: "Our new prices" } });
    await action.submit({ approved: true, input: { to: [] } });   // rejects: "invalid", at input.to
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from waitpoint import Call, Chat, ModelRequest, ScriptedModel, ToolContext, tool
from waitpoint.models import ToolTurn, to_turns


@tool(approval=True, approval_prompt=lambda given: f"Send this mail to {len(given.to)} people?")
async def send_mail(
    ctx: ToolContext, to: Annotated[list[str], Field(min_length=1)], subject: str, body: str
) -> dict[str, str]:
    """Send a mail."""
    # The key belongs to this approval: a mail service that knows it sends one mail, even if the server dies here.
    return {"key": ctx.idempotency_key, "sent": f"{subject} to {', '.join(to)}"}


def script(request: ModelRequest) -> Iterator[str | Call]:
    """Stands in for a model: writes a mail, then tells what was sent."""
    if request.step == 0:
        yield Call("send_mail", {"to": ["ann@example.org"], "subject": "News", "body": "Prices have changed."})
    else:
        turn = to_turns(request.messages)[-1]
        assert isinstance(turn, ToolTurn)
        [result] = turn.results
        yield result.error_text or f"Sent: {result.output['sent']}."


chat = Chat(ScriptedModel(script), [send_mail])
