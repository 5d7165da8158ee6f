"""Ready-made tools that stop the model to ask the user: give them to a chat as they are.

Each is a few lines around ``suspend()``; the schema of the answer is what a page needs to show the right control.
"""

from __future__ import annotations

from typing import Annotated, Any, cast

from pydantic import Field

from .inline import suspend
from .tool import tool

__all__ = ["ask_user", "ask_user_multi", "confirm"]

Question = Annotated[str, Field(min_length=1, description="The question, as the user reads it")]
Options = Annotated[list[str], Field(min_length=1)]
Choice = Field(description="The answers to choose from")


@tool
def ask_user(question: Question, options: Annotated[Options | None, Choice] = None) -> str:
    """Ask the user a question and wait for the answer: one of the options, or any text when there are none.

    Use it only when you cannot go on without the answer.
    """
    schema: dict[str, Any] = {"type": "string"}
    if options:
        schema["enum"] = _once(options)
    return cast("str", suspend({"question": question, "options": options}, "ask_user", schema))


@tool
def ask_user_multi(question: Question, options: Annotated[Options, Choice]) -> list[str]:
    """Ask the user to choose any number of the options, none included, and wait for the answer.

    Use it only when you cannot go on without the answer.
    """
    schema = {"type": "array", "items": {"type": "string", "enum": _once(options)}, "uniqueItems": True}
    return cast("list[str]", suspend({"question": question, "options": options}, "ask_user_multi", schema))


@tool
def confirm(action: Annotated[str, Field(min_length=1, description="What is about to be done")]) -> bool:
    """Ask the user whether to go ahead with an action, and wait for yes or no."""
    return suspend({"question": action}, "confirm", response_schema=bool)


def _once(options: list[str]) -> list[str]:
    return list(dict.fromkeys(options))
