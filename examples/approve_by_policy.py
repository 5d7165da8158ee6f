"""An approval gate with a policy: small refunds go through, large ones wait for somebody.

Run it, open the printed address and say anything::

    waitpoint serve examples.approve_by_policy:chat

The policy sees the input of the call. Only ``False`` lets it through: a policy that raises or hangs asks. What is shown
can be made from the input too; ``approval_options`` are those of a wait point.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from waitpoint import Call, Chat, ModelRequest, ScriptedModel, tool
from waitpoint.models import ToolTurn, to_turns


async def is_large(given: Any) -> bool:
    """A policy may be async, and look something up."""
    return bool(given.euros > 50)


@tool(
    approval=is_large,
    approval_prompt=lambda given: f"Refund {given.euros} euros to {given.customer}?",
    approval_options={"expires_in": timedelta(days=2), "on_message": "keep"},
)
async def refund(customer: str, euros: int) -> str:
    """Refund a customer."""
    return f"{customer} got {euros} euros"


def script(request: ModelRequest) -> Iterator[str | Call]:
    """Stands in for a model: two refunds at once, then tells what became of them."""
    if request.step == 0:
        yield Call("refund", {"customer": "Ann", "euros": 20})
        yield Call("refund", {"customer": "Bob", "euros": 200})
    else:
        turn = to_turns(request.messages)[-1]
        assert isinstance(turn, ToolTurn)
        yield "; ".join(str(result.error_text or result.output) for result in turn.results)


chat = Chat(ScriptedModel(script), [refund])
