"""What a provider is sent of a thread: valid for the strictest of them, whatever happened in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from waitpoint.models import AssistantTurn, SystemTurn, ToolCall, ToolDefinition, ToolResult, ToolTurn, Turn, UserTurn
from waitpoint.models.pydantic_ai.prompt import NO_TEXT, to_messages, to_parameters
from waitpoint_protocol.state import FilePart

FILES = ("image/", "application/pdf")


def spell(*turns: Turn, instructions: str | None = None, files: Sequence[str] = FILES) -> list[ModelMessage]:
    return to_messages(turns, instructions=instructions, files=files)


def step(*ids: str, text: str = "", name: str = "tool") -> tuple[AssistantTurn, ToolTurn]:
    """A step with calls, and their results."""
    calls = tuple(ToolCall(id, name, {"of": id}) for id in ids)
    return AssistantTurn(text, calls), ToolTurn(tuple(ToolResult(id, name, f"result of {id}") for id in ids))


def content(message: ModelMessage, part: int = 0) -> Any:
    content: Any = message.parts[part]
    return content.content


def test_voices_alternate_and_results_come_before_what_the_person_said_next() -> None:
    messages = spell(UserTurn("go"), *step("a", "b", text="I will."), AssistantTurn("Done."), UserTurn("thanks"))
    assert [message.kind for message in messages] == ["request", "response", "request", "response", "request"]
    assert messages[1].parts[0] == TextPart("I will.")
    assert [(part.tool_call_id, part.args) for part in messages[1].parts[1:] if isinstance(part, ToolCallPart)] == [
        ("a", {"of": "a"}),
        ("b", {"of": "b"}),
    ]
    assert [part.tool_call_id for part in messages[2].parts if isinstance(part, ToolReturnPart)] == ["a", "b"]

    messages = spell(UserTurn("go"), *step("a"), UserTurn("make it cheaper"))
    assert [type(part) for part in messages[2].parts] == [ToolReturnPart, UserPromptPart]


def test_messages_of_a_person_with_nothing_between_are_one() -> None:
    messages = spell(UserTurn("one"), AssistantTurn("  "), UserTurn("two"), UserTurn("three"))
    assert len(messages) == 1
    assert content(messages[0]) == "one\n\ntwo\n\nthree"


def test_a_failed_call_says_so_and_keeps_its_words() -> None:
    failed = ToolTurn((ToolResult("a", "tool", error_text="ask.where cancelled."),))
    messages = spell(UserTurn("go"), AssistantTurn("", (ToolCall("a", "tool", {}),)), failed)
    part = messages[2].parts[0]
    assert isinstance(part, ToolReturnPart)
    assert (part.content, part.outcome) == ("ask.where cancelled.", "failed")


def test_empty_outputs_are_sent_as_json_and_never_as_empty_content() -> None:
    calls = tuple(ToolCall(id, "tool", {}) for id in "abcd")
    outputs = {"a": None, "b": "", "c": " ", "d": 0}
    results = ToolTurn(tuple(ToolResult(id, "tool", output) for id, output in outputs.items()))
    messages = spell(UserTurn("go"), AssistantTurn("", calls), results)
    assert [content(messages[2], n) for n in range(4)] == ["null", '""', '" "', 0]


def test_what_is_older_than_the_first_person_in_the_window_is_left_out() -> None:
    messages = spell(AssistantTurn("an answer to nobody"), *step("a"), UserTurn("hello"))
    assert len(messages) == 1
    assert content(messages[0]) == "hello"
    greeting = spell(AssistantTurn("Welcome."))
    assert content(greeting[0]) == "Welcome."


def test_instructions_go_with_the_last_request() -> None:
    messages = spell(UserTurn("go"), *step("a"), instructions="Be kind.")
    instructions = [message.instructions for message in messages if isinstance(message, ModelRequest)]
    assert instructions == [None, "Be kind."]


def test_words_of_the_application_are_system_parts() -> None:
    messages = spell(SystemTurn("Today is Monday."), UserTurn("go"))
    assert [type(part) for part in messages[0].parts] == [SystemPromptPart, UserPromptPart]


def test_an_id_used_twice_is_told_apart_and_its_result_goes_along() -> None:
    messages = spell(UserTurn("go"), *step("call_1"), UserTurn("again"), *step("call_1"))
    made = [part.tool_call_id for message in messages for part in message.parts if isinstance(part, ToolCallPart)]
    answered = [part.tool_call_id for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    assert made[0] == "call_1"
    assert len(set(made)) == 2
    assert made == answered


def test_a_tool_that_the_model_made_up_keeps_no_name_that_providers_refuse() -> None:
    messages = spell(UserTurn("go"), *step("a", name="weather.get city?"))
    names = {part.tool_name for message in messages for part in message.parts if hasattr(part, "tool_name")}
    assert names == {"weather_get_city_"}


def test_input_that_is_no_object_goes_back_as_the_text_it_was() -> None:
    for given_input, sent in [('{"cut', '{"cut'), (None, {}), ([1], "[1]"), (3, "3")]:
        call = AssistantTurn("", (ToolCall("a", "tool", given_input),))
        messages = spell(UserTurn("go"), call, ToolTurn((ToolResult("a", "tool", error_text="no"),)))
        part = messages[1].parts[0]
        assert isinstance(part, ToolCallPart)
        assert part.args == sent


def file(url: str, media: str, **more: Any) -> FilePart:
    return {"type": "file", "url": url, "mediaType": media, **more}


def test_files_that_the_model_reads_are_attached_and_others_are_named() -> None:
    files = (
        file("https://example.org/a.png", "image/png"),
        file("data:image/png;base64,AAAA", "image/png"),
        file("https://example.org/a.pdf", "application/pdf"),
        file("https://example.org/a.zip", "application/zip", name="a.zip"),
        file("data:image/png,not-base64", "image/png"),
        file("file:///etc/passwd", "image/png", name="p.png"),
    )
    [message] = spell(UserTurn("look", files))
    items = content(message)
    assert all(map(isinstance, items[:4], [str, ImageUrl, BinaryContent, DocumentUrl]))
    assert items[4:] == [
        "(attached file: a.zip, application/zip)",
        "(attached file: without a name, image/png)",
        "(attached file: p.png, image/png)",
    ]
    [blind] = spell(UserTurn("look", files[:1]), files=())
    assert content(blind) == "look\n\n(attached file: without a name, image/png)"


def test_a_message_without_text_is_not_empty() -> None:
    [message] = spell(UserTurn(""))
    assert content(message) == NO_TEXT


def test_tools_are_spelled_with_their_schema() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    [spelled] = to_parameters([ToolDefinition("add", "Add.", schema)]).function_tools
    assert (spelled.name, spelled.description, spelled.parameters_json_schema) == ("add", "Add.", schema)


TEXTS = st.sampled_from(["", " ", "words"])
NAMES = st.text(max_size=5)
IDS = st.sampled_from(["1", "call_1", "functions.get:0", "x" * 41, "a b", ""])


@st.composite
def steps(draw: st.DrawFn) -> tuple[Turn, ...]:
    made = tuple(
        ToolCall(id, draw(NAMES), draw(st.sampled_from([None, {}, "cut", [1]])))
        for id in draw(st.lists(IDS, unique=True, max_size=3))
    )
    said = AssistantTurn(draw(TEXTS), made)
    outputs = st.sampled_from([None, "", {"n": 1}, [], "x"])
    results = tuple(ToolResult(call.tool_call_id, call.tool_name, draw(outputs)) for call in made)
    return (said, ToolTurn(results)) if made else (said,)


@given(
    st.lists(st.one_of(steps(), TEXTS.map(lambda text: (UserTurn(text),)), TEXTS.map(lambda text: (SystemTurn(text),))))
)
def test_whatever_happened_in_a_thread_the_prompt_is_one_that_strict_providers_take(
    parts: list[tuple[Turn, ...]],
) -> None:
    messages = spell(*(turn for part in parts for turn in part), UserTurn("now"))
    used: set[str] = set()
    open_calls: list[str] = []
    for before, message in zip((None, *messages), messages, strict=False):
        assert message.parts, "empty content"
        assert before is None or before.kind != message.kind, "two voices in a row"
        if isinstance(message, ModelResponse):
            made = [part for part in message.parts if isinstance(part, ToolCallPart)]
            assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", part.tool_name) for part in made)
            open_calls = [part.tool_call_id for part in made]
            assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,40}", id) for id in open_calls)
            assert not used & set(open_calls)
            assert len(set(open_calls)) == len(open_calls)
            used |= set(open_calls)
            texts = [part.content for part in message.parts if isinstance(part, TextPart)]
            assert all(text.strip() for text in texts)
        else:
            results = [part.tool_call_id for part in message.parts if isinstance(part, ToolReturnPart)]
            assert results == open_calls, "one result for each call, in call order, in the very next message"
            assert all(isinstance(part, ToolReturnPart) for part in message.parts[: len(results)]), "results first"
            assert all(str(content(message, n)).strip() for n in range(len(message.parts)))
            open_calls = []
    assert messages[-1].kind == "request"
