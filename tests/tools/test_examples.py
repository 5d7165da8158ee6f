"""The documented tools, as their examples show them: asked, answered, rejected by value, and held to their types."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from waitpoint import Chat
from waitpoint.models import ModelRequest
from waitpoint.tools import (
    ActionRef,
    Execution,
    InitialEntry,
    Outcome,
    Output,
    ResumeEntry,
    Suspended,
    VisitData,
    execute,
)

EXAMPLES = Path(__file__).parents[2] / "examples"
AT = "2026-12-01T08:00:00.000Z"


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``waitpoint serve examples.name:chat`` finds them."""
    monkeypatch.syspath_prepend(EXAMPLES.parent)


def load(name: str) -> ModuleType:
    return importlib.import_module(f"examples.{name}")


async def enter(chat: Chat, tool_name: str, tool_input: Any, *answers: tuple[str, Any]) -> Outcome:
    """The outcome of a call after these answers, given as (wait point, data)."""
    tool = chat.toolbox.get(tool_name)
    assert tool is not None
    history = [VisitData(name, AT, None, "submitted", AT, data) for name, data in answers]
    entry: InitialEntry | ResumeEntry = InitialEntry()
    if answers:
        name, data = answers[-1]
        entry = ResumeEntry(name, data, ActionRef("a", f"{tool_name}.{name}", None, AT, AT))
    return await execute(tool, Execution("t", "m", "c", tool_input, entry, history))


async def test_collect_report_details() -> None:
    chat: Chat = load("collect_report_details").chat
    given = {"report_id": "r-1", "known_summary": "Sales rose."}
    asked = await enter(chat, "collectReportDetails", given)
    assert isinstance(asked, Suspended)
    assert (asked.wait_point, asked.input) == (
        "collectDetails",
        {"prompt": "Who is this report for, and when is it due?", "missing_fields": ["audience", "deadline"]},
    )
    [missing] = chat.toolbox.check_answer("collectReportDetails.collectDetails", asked.schema, {"deadline": "Friday"})
    assert (missing.path, missing.code) == (["audience"], "missing")
    answer = {"audience": "Product team", "deadline": "Friday"}
    assert await enter(chat, "collectReportDetails", given, ("collectDetails", answer)) == Output(answer)


async def test_draft_report() -> None:
    chat: Chat = load("draft_report").chat
    given = {"report_id": "r-1"}
    contents = ("collectDetails", {"topics": ["sales", "staff"]})
    yes = ("approveDraft", {"approved": True, "comment": "Fine"})
    no = ("approveDraft", {"approved": False, "comment": "Too long"})
    visited = [
        await enter(chat, "draftReport", given),
        await enter(chat, "draftReport", given, contents),
        await enter(chat, "draftReport", given, contents, yes),
    ]
    assert [(asked.wait_point, asked.input) for asked in visited if isinstance(asked, Suspended)] == [
        ("collectDetails", {"prompt": "What should this report include?"}),
        ("approveDraft", {"summary": "A report on sales, staff."}),
        ("attachReferenceFile", {"report_id": "r-1"}),
    ]
    assert await enter(chat, "draftReport", given, contents, no) == Output(
        {"status": "rejected", "comment": "Too long", "file_id": None}
    )
    assert await enter(
        chat, "draftReport", given, contents, yes, ("attachReferenceFile", {"file_id": "f-1"})
    ) == Output({"status": "done", "comment": "Fine", "file_id": "f-1"})


@pytest.mark.parametrize("answer", [{"approved": True, "comment": "Send it."}, {"approved": False, "comment": None}])
async def test_request_approval(answer: dict[str, Any]) -> None:
    chat: Chat = load("request_approval").chat
    asked = await enter(chat, "requestApproval", {"summary": "Send it?"})
    assert isinstance(asked, Suspended)
    assert asked.input == {"prompt": "Send it?"}
    assert await enter(chat, "requestApproval", {"summary": "Send it?"}, ("approval", answer)) == Output(answer)


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
async def test_every_example_has_a_chat_whose_model_calls_its_tools_with_inputs_that_fit(name: str) -> None:
    chat: Chat = load(name).chat
    stream = chat.model.stream(ModelRequest("t", 0, [], chat.toolbox.definitions))
    calls = [event for event in [event async for event in stream] if hasattr(event, "input")]
    assert calls
    for call in calls:
        tool = chat.toolbox.get(call.tool_name)
        assert tool is not None
        assert tool.check_input(call.input) == []


async def test_done_elsewhere() -> None:
    chat: Chat = load("done_elsewhere").chat
    place = {"latitude": 47.5, "longitude": 8.25}
    for name, given, asked_input, kind, answer in (
        ("getLocation", {}, {"accuracy": "coarse"}, "client-tool", place),
        ("collectPayment", {"number": 7, "euros": 30}, {"number": 7, "euros": 30}, "external", {"paid": True}),
    ):
        asked = await enter(chat, name, given)
        assert isinstance(asked, Suspended)
        assert (asked.input, asked.kind) == (asked_input, kind)
        ended = await enter(chat, name, given, ("call", answer))
        assert isinstance(ended, Output)
        assert ended.value == (answer if kind == "client-tool" else {**answer, "receipt": None})
