"""The demo says something sensible to every keyword, and its tools ask, re-enter and end as the documents show."""

from __future__ import annotations

from typing import Any

import pytest

from waitpoint import demo
from waitpoint.models import Call, ModelRequest, ToolCall
from waitpoint.models.scripted import Line
from waitpoint.tools import (
    ActionRef,
    Execution,
    Failure,
    InitialEntry,
    Output,
    ResumeEntry,
    Suspended,
    VisitData,
    execute,
)
from waitpoint_protocol.state import Message, TextPart

AT = "2026-12-01T08:00:00.000Z"


async def play(tool_name: str, tool_input: Any, *answers: Any) -> tuple[list[str], Any]:
    """Enter a tool of the demo and give it answers until it ends: the wait points it visited, and its output."""
    tool = demo.chat.toolbox.get(tool_name)
    assert tool is not None
    assert tool.check_input(tool_input) == []
    history: list[VisitData] = []
    entry: InitialEntry | ResumeEntry = InitialEntry()
    for answer in [*answers, None]:
        outcome = await execute(tool, Execution("t", "m", "c", tool_input, entry, tuple(history)))
        if not isinstance(outcome, Suspended):
            assert isinstance(outcome, Output), outcome
            return [visit.name for visit in history], outcome.value
        name = outcome.wait_point
        assert demo.chat.toolbox.check_answer(f"{tool_name}.{name}", outcome.schema, answer) == [], answer
        history.append(VisitData(name, AT, outcome.input, "submitted", AT, answer))
        entry = ResumeEntry(name, answer, ActionRef(f"a{len(history)}", f"{tool_name}.{name}", outcome.input, AT, AT))
    raise AssertionError(f"{tool_name} asked more often than it was answered")


def said(text: str) -> Message:
    words: TextPart = {"type": "text", "text": text, "state": "done"}
    return {"id": "u", "role": "user", "parts": [words], "status": "final", "at": AT}


def reply(text: str) -> list[Line]:
    return list(demo.script(ModelRequest("t", 0, [said(text)])))


def told(*parts: Any) -> str:
    """What the demo says once the calls of its first step have these results."""
    answered: Message = {"id": "a", "role": "assistant", "parts": list(parts), "status": "open", "at": AT}
    [line] = demo.script(ModelRequest("t", 1, [said("report"), answered]))
    assert isinstance(line, str)
    return line


def result(tool_name: str, output: Any = None, error_text: str | None = None) -> Any:
    ended = {"state": "output-available", "output": output}
    if error_text is not None:
        ended = {"state": "output-error", "errorText": error_text}
    return {"type": "tool", "toolCallId": "c", "toolName": tool_name, "step": 0, "input": {}, "actions": [], **ended}


@pytest.mark.parametrize(
    ("text", "tools"),
    [
        ("report", ["collectReportDetails"]),
        ("Write me a REPORT, please.", ["collectReportDetails"]),
        ("draft", ["draftReport"]),
        ("draft a report", ["draftReport"]),
        ("approve", ["requestApproval"]),
        ("both", ["collectReportDetails", "requestApproval"]),
        ("form", ["planEvent"]),
        ("story", []),
        ("hello", []),
        ("information", []),
        ("", []),
    ],
)
def test_a_keyword_picks_the_tools_and_their_inputs_fit(text: str, tools: list[str]) -> None:
    calls = [line for line in reply(text) if isinstance(line, Call)]
    assert [call.tool_name for call in calls] == tools
    for call in calls:
        tool = demo.chat.toolbox.get(call.tool_name)
        assert tool is not None
        assert tool.check_input(call.input) == []


def test_anything_else_is_answered_with_what_can_be_said() -> None:
    [help_text] = reply("what is this?")
    for suggestion in demo.chat.suggestions:
        assert f"- {suggestion}:" in str(help_text)
        assert reply(suggestion) != [help_text]


def test_the_story_is_long_enough_to_watch() -> None:
    [story] = reply("story")
    assert len(str(story).split()) * demo.WORD_DELAY > 8


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"audience": "Product team", "deadline": "Friday"}, "for Product team, due Friday"),
        ({"audience": "Board"}, "for Board, without a deadline"),
    ],
)
async def test_report_needs_an_audience_and_quotes_what_was_answered(answer: Any, words: str) -> None:
    visited, output = await play("collectReportDetails", {"report_id": "R", "known_summary": "S"}, answer)
    assert visited == ["collectDetails"]
    assert words in told(result("collectReportDetails", output))


async def test_draft_asks_three_times() -> None:
    visited, output = await play(
        "draftReport", {"report_id": "R"}, {"topic": "Sales"}, {"approved": True, "comment": "Nice"}, {"file_id": "F1"}
    )
    assert visited == ["collectDetails", "approveDraft", "attachReferenceFile"]
    assert output == {"status": "done", "comment": "Nice", "file_id": "F1"}
    assert "Nice" in told(result("draftReport", output))
    assert "F1" in told(result("draftReport", output))


async def test_a_rejected_draft_ends_there() -> None:
    rejection = {"approved": False, "comment": "Too long"}
    visited, output = await play("draftReport", {"report_id": "R"}, {"topic": "Sales", "points": ["Q3"]}, rejection)
    assert visited == ["collectDetails", "approveDraft"]
    assert output == {"status": "rejected", "comment": "Too long", "file_id": None}
    assert "rejected (“Too long”)" in told(result("draftReport", output))


@pytest.mark.parametrize(("approved", "words"), [(True, "Approved"), (False, "Not approved")])
async def test_approve_takes_yes_and_no(approved: bool, words: str) -> None:
    _, output = await play("requestApproval", {"summary": "Send it?"}, {"approved": approved})
    assert told(result("requestApproval", output)).startswith(words)


async def test_form_has_a_field_of_every_kind() -> None:
    event = {
        "title": "Summer party",
        "notes": "Bring\na hat",
        "kind": "party",
        "public": False,
        "seats": 40,
        "budget": 99.5,
        "day": "2026-07-01",
        "topics": ["music"],
        "venue": {"name": "Barn", "city": "Ulm"},
    }
    _, output = await play("planEvent", {"occasion": "party"}, event)
    assert output == {**event, "venue": {"name": "Barn", "city": "Ulm", "floor": None}}
    assert "“Summer party” is a party for 40 at Barn, Ulm, by invitation. Topics: music." in told(
        result("planEvent", output)
    )


def test_both_results_are_told_in_call_order() -> None:
    words = told(
        result("collectReportDetails", {"audience": "Board", "deadline": None}),
        result(
            "requestApproval", error_text="requestApproval.approval was cancelled by ann: later.\nAsked at approval: {}"
        ),
    )
    assert words.index("Board") < words.index("cancelled by ann: later.")
    assert "Asked at" not in words


async def test_no_tool_of_the_demo_accepts_an_entry_it_does_not_know() -> None:
    for tool in demo.chat.toolbox:
        for point in tool.waits.values():
            assert point.check_resume(None) != []
        stale = ResumeEntry("elsewhere", None, ActionRef("a", f"{tool.name}.elsewhere", None, AT, AT))
        outcome = await execute(tool, Execution("t", "m", "c", _some_input(tool.name), stale))
        assert isinstance(outcome, Failure)


def _some_input(tool_name: str) -> Any:
    for keyword in demo.chat.suggestions:
        for line in reply(keyword):
            if isinstance(line, Call | ToolCall) and line.tool_name == tool_name:
                return line.input
    raise AssertionError(f"the demo never calls {tool_name}")
