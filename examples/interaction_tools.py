"""Inline waits: any tool that calls ``suspend()`` asks the user and goes on with the answer.

Run it, open the printed address and say anything::

    waitpoint serve examples.interaction_tools:chat

``response_schema`` is enforced by the server: "forty", 131 and true are refused as an age, with field errors, and the
question stays open. A handler runs again from its top when the answer is there; ``step()`` keeps what it did before.
"""

from __future__ import annotations

from collections.abc import Iterator

from waitpoint import Call, Chat, ModelRequest, ScriptedModel, step_sync, suspend, tool
from waitpoint.models import ToolTurn, to_turns


@tool
def ask_user(question: str, options: list[str] | None = None) -> str:
    """Ask the user a clarifying question. Use ONLY when blocked."""
    return suspend({"question": question, "options": options}, kind="ask_user", response_schema=str)


@tool
def confirm(action: str) -> bool:
    """Ask the user for a yes or a no."""
    return suspend({"action": action}, kind="confirm", response_schema=bool)


@tool
def ask_age() -> int:
    """Ask the user for their age."""
    age: int = suspend(
        {"question": "How old are you?"},
        kind="ask_user",
        response_schema={"type": "integer", "minimum": 0, "maximum": 130},
    )
    return age


@tool
def reserve_table(guests: int) -> str:
    """Reserve a table, with the user's choice of what is free."""
    # Done once: when the handler runs again with the answer, it gets the same list as the user saw.
    free = step_sync("look", lambda: free_tables(guests))
    choice = suspend({"question": "Which table?", "free": free}, response_schema={"type": "string", "enum": free})
    return f"Table {choice} for {guests}"


def free_tables(guests: int) -> list[str]:
    """Stands in for a service whose reply changes from call to call."""
    return ["window", "garden"] if guests < 5 else ["hall"]


def script(request: ModelRequest) -> Iterator[str | Call]:
    """Stands in for a model: calls one tool after the other, then tells the results."""
    results = [result for turn in to_turns(request.messages) if isinstance(turn, ToolTurn) for result in turn.results]
    calls = [
        Call("ask_user", {"question": "What is your name?"}),
        Call("ask_age", {}),
        Call("reserve_table", {"guests": 2}),
        Call("confirm", {"action": "Send the confirmation?"}),
    ]
    if request.step < len(calls):
        yield calls[request.step]
    else:
        yield "; ".join(str(result.error_text or result.output) for result in results)


chat = Chat(ScriptedModel(script), [ask_user, confirm, ask_age, reserve_table])
