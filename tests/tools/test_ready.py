"""The ready-made tools ask with a schema that a page shows as the right control, and return the answer."""

from __future__ import annotations

from typing import Any

import pytest

from tools.calls import CallOf, output
from waitpoint.tools import ask_user, ask_user_multi, confirm


@pytest.mark.parametrize(
    ("tool", "given", "schema", "good", "bad"),
    [
        (ask_user, {"question": "Name?"}, {"type": "string"}, ["Ann", ""], [5, None, ["Ann"]]),
        (
            ask_user,
            {"question": "Which?", "options": ["postgres", "sqlite", "postgres"]},
            {"type": "string", "enum": ["postgres", "sqlite"]},
            ["postgres", "sqlite"],
            ["mysql", "Postgres", ["postgres"]],
        ),
        (
            ask_user_multi,
            {"question": "Which?", "options": ["a", "b", "c"]},
            {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}, "uniqueItems": True},
            [[], ["b"], ["c", "a"]],
            ["a", ["d"], ["a", "a"], None],
        ),
        (confirm, {"action": "Delete it all"}, {"type": "boolean"}, [True, False], ["yes", 1, None]),
    ],
    ids=["text", "pick", "multi", "confirm"],
)
async def test_a_ready_made_tool_asks_checks_and_returns(
    tool: Any, given: Any, schema: Any, good: list[Any], bad: list[Any]
) -> None:
    assert tool.check_input(given) == []
    for answer in good:
        call = CallOf(tool, given)
        asked = await call.asks()
        assert (asked.kind, asked.schema) == (tool.name, schema)
        assert asked.input["question"] == given.get("question", given.get("action"))
        assert [wrong for wrong in bad if not call.errors(wrong)] == []
        assert output(await call.answer(answer)) == answer


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        (ask_user, {}),
        (ask_user, {"question": ""}),
        (ask_user, {"question": "?", "options": []}),
        (ask_user_multi, {"question": "?"}),
        (ask_user_multi, {"question": "?", "options": []}),
        (confirm, {"action": ""}),
    ],
)
def test_a_call_that_asks_nothing_is_refused(tool: Any, given: Any) -> None:
    assert tool.check_input(given)


@pytest.mark.parametrize("tool", [ask_user, ask_user_multi, confirm])
def test_the_model_is_told_when_to_use_it(tool: Any) -> None:
    assert tool.name in ("ask_user", "ask_user_multi", "confirm")
    assert len(tool.description) > 50
    assert all("description" in member for member in tool.input_schema["properties"].values())
