"""What a model is shown of a thread: one result per call, in call order (promise 6, cases 6, 24, 25, 49)."""

from __future__ import annotations

from typing import Any

import pytest

from waitpoint.models import (
    AssistantTurn,
    IncompleteTranscript,
    SystemTurn,
    ToolCall,
    ToolResult,
    ToolTurn,
    UserTurn,
    to_turns,
)
from waitpoint_protocol.state import FilePart, Message

AT = "2026-12-01T08:00:00.000Z"


def message(role: Any, *parts: Any) -> Message:
    return {"id": f"m_{role}", "role": role, "parts": list(parts), "status": "final", "at": AT}


def text(words: str, **more: Any) -> Any:
    return {"type": "text", "text": words, "state": "done", **more}


def call(id: str, step: int = 0, state: str = "output-available", actions: Any = (), **more: Any) -> Any:
    part = {
        "type": "tool",
        "toolCallId": id,
        "toolName": f"tool_{id}",
        "step": step,
        "state": state,
        "input": {"of": id},
    }
    return {**part, "actions": list(actions), **more}


def visit(name: str, how: str | None, **more: Any) -> Any:
    record = {"id": f"a_{name}", "suspendName": name, "input": {"prompt": "Whither?"}, "at": AT}
    if how is not None:
        record["resolution"] = {"how": how, "by": {"id": "ann", "kind": "person"}, "at": AT, **more}
    return record


def test_a_conversation_without_tools_is_its_words() -> None:
    picture: FilePart = {"type": "file", "url": "https://example.org/a.png", "mediaType": "image/png"}
    turns = to_turns(
        [
            message("system", text("Be kind.")),
            message("user", text("Hello"), picture, text("again")),
            message("assistant", {"type": "reasoning", "text": "Hm", "state": "done"}, text("Hi"), text("")),
        ]
    )
    assert turns == [SystemTurn("Be kind."), UserTurn("Hello\n\nagain", (picture,)), AssistantTurn("Hi")]


def test_each_step_is_followed_by_the_results_of_its_calls_in_call_order() -> None:
    turns = to_turns(
        [
            message(
                "assistant",
                text("First.", step=0),
                call("a", output={"n": 1}),
                call("b", state="output-error", errorText="no"),
                text("Then.", step=1),
                call("c", step=1, output=None),
                text("Done.", step=2),
            )
        ]
    )
    assert turns == [
        AssistantTurn("First.", (ToolCall("a", "tool_a", {"of": "a"}), ToolCall("b", "tool_b", {"of": "b"}))),
        ToolTurn((ToolResult("a", "tool_a", {"n": 1}), ToolResult("b", "tool_b", error_text="no"))),
        AssistantTurn("Then.", (ToolCall("c", "tool_c", {"of": "c"}),)),
        ToolTurn((ToolResult("c", "tool_c", None),)),
        AssistantTurn("Done."),
    ]


def test_steps_without_words_keep_apart() -> None:
    turns = to_turns([message("assistant", call("a", output=1), call("b", step=1, output=2))])
    assert [type(turn) for turn in turns] == [AssistantTurn, ToolTurn, AssistantTurn, ToolTurn]


def test_three_visits_of_one_call_are_one_result() -> None:
    visits = [visit(name, "submitted", data=1) for name in ("one", "two", "three")]
    [_, results] = to_turns([message("assistant", call("a", actions=visits, output="done"))])
    assert results == ToolTurn((ToolResult("a", "tool_a", "done"),))


@pytest.mark.parametrize("how", ["cancelled", "failed", "expired"])
def test_a_wait_without_an_answer_says_what_was_asked(how: str) -> None:
    part = call("a", state="output-error", errorText=f"tool_a.where {how}.", actions=[visit("where", how)])
    [_, results] = to_turns([message("assistant", part)])
    assert isinstance(results, ToolTurn)
    assert results.results[0].failed
    assert results.results[0].error_text == f'tool_a.where {how}.\nAsked at where: {{"prompt": "Whither?"}}'


def test_an_answered_wait_of_a_call_that_failed_later_is_not_quoted() -> None:
    visits = [visit("where", "submitted", data="secret")]
    [_, results] = to_turns([message("assistant", call("a", state="output-error", errorText="no", actions=visits))])
    assert results == ToolTurn((ToolResult("a", "tool_a", error_text="no"),))


@pytest.mark.parametrize("state", ["input-streaming", "input-available", "running", "waiting"])
def test_a_call_without_a_result_stops_the_request(state: str) -> None:
    with pytest.raises(IncompleteTranscript, match=f"tool call b of tool_b is {state}") as caught:
        to_turns([message("assistant", call("a", output=1), call("b", state=state))])
    assert caught.value.tool_call_id == "b"
