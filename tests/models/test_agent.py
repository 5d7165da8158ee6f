"""Bring your own agent: what an async generator yields becomes a model step."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from waitpoint import Call, DefinitionError
from waitpoint.models import (
    AgentModel,
    Finish,
    Model,
    ModelError,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolInputDelta,
    ToolInputStart,
    agent,
)


def asking(text: str = "Hello", step: int = 0) -> ModelRequest:
    parts = [{"type": "text", "text": text, "state": "done"}]
    user: Any = {"id": "m1", "role": "user", "parts": parts, "status": "final", "at": "2026-12-01T08:00:00.000Z"}
    return ModelRequest("t1", step, [user])


async def play(model: Model, request: ModelRequest | None = None) -> list[ModelEvent]:
    return [event async for event in model.stream(request or asking())]


async def test_text_is_sent_on_as_it_was_yielded() -> None:
    @agent
    async def echo(request: ModelRequest) -> AsyncIterator[Any]:
        yield "You said: "
        yield ""
        yield request.said

    assert await play(echo, asking("a b")) == [TextDelta("You said: "), TextDelta("a b"), Finish("stop")]


async def test_calls_get_ids_that_a_repeated_step_repeats() -> None:
    @agent
    async def calling(request: ModelRequest) -> AsyncIterator[Any]:
        yield Call("add", {"a": 1})
        yield Call("add", {"a": 1})
        yield Call("sub", {}, id="mine")

    first, again = await play(calling), await play(calling)
    assert first == again
    calls = [event for event in first if isinstance(event, ToolCall)]
    assert [(call.tool_name, call.input) for call in calls] == [("add", {"a": 1}), ("add", {"a": 1}), ("sub", {})]
    assert calls[0].tool_call_id != calls[1].tool_call_id
    assert calls[2].tool_call_id == "mine"
    assert first[:3] == [
        ToolInputStart(calls[0].tool_call_id, "add"),
        ToolInputDelta(calls[0].tool_call_id, '{"a": 1}'),
        calls[0],
    ]
    assert first[-1] == Finish("tool-calls")


async def test_model_events_pass_and_a_finish_comes_last_and_once() -> None:
    @agent
    async def thinking(request: ModelRequest) -> AsyncIterator[Any]:
        yield ReasoningDelta("hm")
        yield Finish("length", {"outputTokens": 2})
        yield "late"

    assert await play(thinking) == [
        ReasoningDelta("hm"),
        TextDelta("late"),
        Finish("length", {"outputTokens": 2}),
    ]


async def test_an_exception_says_what_it_was_and_is_not_tried_again() -> None:
    @agent
    async def broken(request: ModelRequest) -> AsyncIterator[Any]:
        yield "half"
        raise KeyError("city")

    with pytest.raises(ModelError, match="the agent raised KeyError: 'city'") as caught:
        await play(broken)
    assert not caught.value.retryable
    assert isinstance(caught.value.__cause__, KeyError)


async def test_a_model_error_passes_as_it_is() -> None:
    @agent
    async def limited(request: ModelRequest) -> AsyncIterator[Any]:
        raise ModelError("busy", retryable=True, retry_after=3)
        yield

    with pytest.raises(ModelError, match="busy") as caught:
        await play(limited)
    assert (caught.value.retryable, caught.value.retry_after) == (True, 3)


async def test_something_else_than_text_calls_and_events_is_named() -> None:
    @agent
    async def odd(request: ModelRequest) -> AsyncIterator[Any]:
        yield 42

    with pytest.raises(ModelError, match=r"yielded int; it may yield text, Call\(\.\.\.\) or model events"):
        await play(odd)


async def test_a_cancelled_step_closes_what_the_agent_holds_open() -> None:
    began, closed = asyncio.Event(), asyncio.Event()

    @agent
    async def holding(request: ModelRequest) -> AsyncIterator[Any]:
        try:
            yield "x"
            began.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    step = asyncio.create_task(play(holding))
    await asyncio.wait_for(began.wait(), 5)
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    assert closed.is_set()


async def test_a_stream_closed_between_two_words_closes_the_agent() -> None:
    closed = asyncio.Event()

    @agent
    async def holding(request: ModelRequest) -> AsyncIterator[Any]:
        try:
            yield "x"
            yield "y"
        finally:
            closed.set()

    stream: Any = holding.stream(asking())
    await anext(stream)
    await stream.aclose()
    assert closed.is_set()


async def plain(request: ModelRequest) -> str:
    return "not a generator"


def sync(request: ModelRequest) -> Any:
    yield "would block every thread of the server"


@pytest.mark.parametrize("function", [plain, sync, lambda request: "x", "text"])
def test_what_is_no_async_generator_function_is_refused_at_definition(function: Any) -> None:
    with pytest.raises(DefinitionError, match="is no async generator; write `async def"):
        AgentModel(function)


async def test_an_object_with_state_of_its_own_may_be_the_agent() -> None:
    class Polite:
        def __init__(self, greeting: str) -> None:
            self.greeting = greeting

        async def __call__(self, request: ModelRequest) -> AsyncIterator[Any]:
            yield self.greeting

        async def reply(self, request: ModelRequest) -> AsyncIterator[Any]:
            yield self.greeting.upper()

    assert await play(AgentModel(Polite("hi"))) == [TextDelta("hi"), Finish("stop")]
    assert await play(AgentModel(Polite("hi").reply)) == [TextDelta("HI"), Finish("stop")]
