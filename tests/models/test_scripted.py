"""The scripted model streams like a real one and says the same whenever and wherever it is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waitpoint.models import (
    Call,
    Finish,
    Model,
    ModelError,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    ScriptedModel,
    TextDelta,
    ToolCall,
    ToolInputDelta,
    ToolInputStart,
)
from waitpoint.models.scripted import Line, words


def asking(thread: str = "t1", step: int = 0, said: str = "m1") -> ModelRequest:
    user: Any = {"id": said, "role": "user", "parts": [], "status": "final", "at": "2026-12-01T08:00:00.000Z"}
    return ModelRequest(thread, step, [user])


async def play(model: Model, request: ModelRequest | None = None) -> list[ModelEvent]:
    return [event async for event in model.stream(request or asking())]


def call_ids(events: list[ModelEvent]) -> list[str]:
    return [event.tool_call_id for event in events if isinstance(event, ToolCall)]


async def test_text_comes_word_by_word_and_ends_with_a_finish() -> None:
    assert await play(ScriptedModel(["One  two\nthree "])) == [
        TextDelta("One"),
        TextDelta("  two"),
        TextDelta("\nthree"),
        TextDelta(" "),
        Finish("stop"),
    ]


@given(st.text())
def test_words_joined_are_the_text(text: str) -> None:
    assert "".join(words(text)) == text


async def test_a_call_streams_its_input_before_it_is_complete() -> None:
    events = await play(ScriptedModel([[Call("add", {"a": 1, "b": "zwei"}, id="c1")]]))
    assert events[0] == ToolInputStart("c1", "add")
    assert "".join(event.text for event in events if isinstance(event, ToolInputDelta)) == '{"a": 1, "b": "zwei"}'
    assert events[-2:] == [ToolCall("c1", "add", {"a": 1, "b": "zwei"}), Finish("tool-calls")]


async def test_ids_are_the_same_for_the_same_step_and_differ_for_every_other() -> None:
    def script(_: ModelRequest) -> Iterator[Line]:
        yield Call("add", {})
        yield Call("add", {})

    first, second = call_ids(await play(ScriptedModel(script)))
    assert call_ids(await play(ScriptedModel(script))) == [first, second]
    elsewhere = [
        *call_ids(await play(ScriptedModel(script), asking(thread="t2"))),
        *call_ids(await play(ScriptedModel(script), asking(step=1))),
        *call_ids(await play(ScriptedModel(script), asking(said="m2"))),
    ]
    assert len({first, second, *elsewhere}) == 8


async def test_a_list_has_one_reply_per_step_and_no_more() -> None:
    model = ScriptedModel(["first", "second"])
    assert (await play(model, asking(step=1)))[0] == TextDelta("second")
    with pytest.raises(ModelError, match="2 steps and was asked for step 2"):
        await play(model, asking(step=2))


async def test_an_async_script_may_yield_events_of_its_own() -> None:
    async def script(request: ModelRequest) -> AsyncIterator[Line]:
        yield ReasoningDelta("hm")
        yield f"step {request.step}"
        yield Finish("length", {"output": 2})

    assert await play(ScriptedModel(script)) == [
        ReasoningDelta("hm"),
        TextDelta("step"),
        TextDelta(" 0"),
        Finish("length", {"output": 2}),
    ]


async def test_a_script_that_raises_is_a_provider_that_dies() -> None:
    def script(_: ModelRequest) -> Iterator[Line]:
        yield "half an "
        raise ModelError("overloaded", retryable=True)

    stream = ScriptedModel(script).stream(asking())
    assert [await anext(stream) for _ in range(3)] == [TextDelta("half"), TextDelta(" an"), TextDelta(" ")]
    with pytest.raises(ModelError, match="overloaded") as caught:
        await anext(stream)
    assert caught.value.retryable
