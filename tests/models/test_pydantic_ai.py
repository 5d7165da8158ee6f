"""pydantic-ai's models behind our port: its own test models, and a real HTTP provider that behaves well and badly."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from pydantic_ai import exceptions as x
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider

from support.fake_openai import (
    CUT,
    DONE,
    HANG,
    FakeOpenAI,
    Refuse,
    answer,
    calls,
    chunk,
    reasoning,
    response_calls,
    serve,
)
from waitpoint import ConfigurationError
from waitpoint.models import (
    Finish,
    Model,
    ModelError,
    ModelEvent,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolDefinition,
    ToolInputDelta,
    ToolInputStart,
)
from waitpoint.models import ModelRequest as Request
from waitpoint.models.pydantic_ai import PydanticAIModel
from waitpoint.models.pydantic_ai.failure import to_model_error

ADD = ToolDefinition(
    "add",
    "Add two numbers.",
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]},
)


def asking(text: str = "Hello", *parts: Any, **more: Any) -> Request:
    said = {"type": "text", "text": text, "state": "done"}
    at = "2026-12-01T08:00:00.000Z"
    messages: list[Any] = [{"id": "m1", "role": "user", "parts": [said], "status": "final", "at": at}]
    if parts:
        messages.append({"id": "m2", "role": "assistant", "parts": list(parts), "status": "open", "at": at})
    return Request("t1", 1 if parts else 0, messages, **more)


async def play(model: Model, request: Request | None = None) -> list[ModelEvent]:
    return [event async for event in model.stream(request or asking())]


def text_of(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def inputs_of(events: list[ModelEvent]) -> dict[str, str]:
    """The streamed input of every call."""
    written: dict[str, str] = {}
    for event in events:
        if isinstance(event, ToolInputStart):
            written[event.tool_call_id] = ""
        elif isinstance(event, ToolInputDelta):
            written[event.tool_call_id] += event.text
    return written


# --- its own test models


async def test_the_test_model_calls_a_tool_and_then_tells_its_result() -> None:
    model = PydanticAIModel(TestModel())
    events = await play(model, asking(tools=[ADD]))
    [call] = [event for event in events if isinstance(event, ToolCall)]
    assert (call.tool_name, call.input) == ("add", {"a": 0, "b": 0})
    assert isinstance(events[-1], Finish)
    assert events[-1].reason == "tool-calls"
    done = {
        "type": "tool",
        "toolCallId": call.tool_call_id,
        "toolName": "add",
        "step": 0,
        "state": "output-available",
        "input": call.input,
        "output": 0,
        "actions": [],
    }
    events = await play(model, asking("Hello", done, tools=[ADD]))
    assert text_of(events) == '{"add":0}'
    assert isinstance(events[-1], Finish)
    assert events[-1].reason == "stop"
    assert events[-1].usage
    assert events[-1].usage.keys() == {"inputTokens", "outputTokens"}


async def test_a_function_model_streams_reasoning_text_and_interleaved_calls() -> None:
    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        assert info.instructions == "Be brief."
        assert [tool.name for tool in info.function_tools] == ["add"]
        yield {0: DeltaThinkingPart(content="let me ")}
        yield {0: DeltaThinkingPart(content="see")}
        yield {1: DeltaToolCall(name="add", json_args='{"a": 1,', tool_call_id="one")}
        yield {2: DeltaToolCall(name="add", json_args='{"a": 3,', tool_call_id="two")}
        yield {1: DeltaToolCall(json_args=' "b": 2}')}
        yield {2: DeltaToolCall(json_args=' "b": 4}')}

    model = PydanticAIModel(FunctionModel(stream_function=stream))
    events = await play(model, asking(tools=[ADD], instructions="Be brief."))
    assert [event.text for event in events if isinstance(event, ReasoningDelta)] == ["let me ", "see"]
    assert inputs_of(events) == {"one": '{"a": 1, "b": 2}', "two": '{"a": 3, "b": 4}'}
    assert events[-3:-1] == [ToolCall("one", "add", {"a": 1, "b": 2}), ToolCall("two", "add", {"a": 3, "b": 4})]
    assert isinstance(events[-1], Finish)
    assert events[-1].reason == "tool-calls"


async def test_input_that_is_cut_or_no_json_is_kept_as_text_and_missing_input_is_empty() -> None:
    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        yield {0: DeltaToolCall(name="add", json_args='{"a": 1, "b', tool_call_id="cut")}
        yield {1: DeltaToolCall(name="add", json_args="", tool_call_id="none")}
        yield {2: DeltaToolCall(name="add", json_args="[1]", tool_call_id="list")}

    events = await play(PydanticAIModel(FunctionModel(stream_function=stream)), asking(tools=[ADD]))
    calls = {event.tool_call_id: event.input for event in events if isinstance(event, ToolCall)}
    assert calls == {"cut": '{"a": 1, "b', "none": {}, "list": [1]}


async def test_a_cancelled_step_closes_the_providers_stream() -> None:
    began, closed = asyncio.Event(), asyncio.Event()

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        try:
            yield "x"
            began.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    step = asyncio.create_task(play(PydanticAIModel(FunctionModel(stream_function=stream))))
    await asyncio.wait_for(began.wait(), 5)
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    await asyncio.wait_for(closed.wait(), 5)


# --- a provider over HTTP


@pytest.fixture
async def provider() -> AsyncIterator[FakeOpenAI]:
    async with serve() as fake:
        yield fake


@pytest.fixture
async def http() -> AsyncIterator[Any]:
    import httpx2

    async with httpx2.AsyncClient(timeout=httpx2.Timeout(5, read=1.0), trust_env=False) as client:
        yield client


def over_http(provider: FakeOpenAI, http: Any, profile: Any = None, **settings: Any) -> PydanticAIModel:
    reached = OpenAIProvider(base_url=provider.url, api_key="sk-secret", http_client=http)
    return PydanticAIModel(OpenAIChatModel("fake", provider=reached, profile=profile), settings or None)  # type: ignore[arg-type]


async def test_an_answer_comes_as_it_is_streamed_with_usage_and_reason(provider: FakeOpenAI, http: Any) -> None:
    provider.then(reasoning("hm, ", "well") + answer("Hello", ", ", "world"))
    events = await play(over_http(provider, http, temperature=0.5), asking("Hi", instructions="Be brief.", tools=[ADD]))
    assert [event.text for event in events if isinstance(event, ReasoningDelta)] == ["hm, ", "well"]
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hello", ", ", "world"]
    assert events[-1] == Finish("stop", {"inputTokens": 11, "outputTokens": 7})
    [asked] = provider.asked
    assert asked["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert asked["temperature"] == 0.5
    assert asked["stream"] is True
    assert [tool["function"]["name"] for tool in asked["tools"]] == ["add"]


async def test_chunks_cut_anywhere_even_inside_a_character_are_one_text(provider: FakeOpenAI, http: Any) -> None:
    whole = b"".join(piece for piece in answer("Grüße 🦊", " und mehr") if isinstance(piece, bytes))
    provider.then([piece for n in range(0, len(whole), 7) for piece in (whole[n : n + 7], 0.001)])
    assert text_of(await play(over_http(provider, http))) == "Grüße 🦊 und mehr"


async def test_parallel_calls_come_whole_and_in_order_though_their_inputs_are_interleaved(
    provider: FakeOpenAI, http: Any
) -> None:
    provider.then(calls(("c1", "add", '{"a": 1, "b": 2}'), ("c2", "add", '{"a": 3, "b": 4}'), ("c3", "none", "")))
    events = await play(over_http(provider, http), asking(tools=[ADD]))
    assert inputs_of(events) == {"c1": '{"a": 1, "b": 2}', "c2": '{"a": 3, "b": 4}', "c3": ""}
    assert [event for event in events if isinstance(event, ToolCall)] == [
        ToolCall("c1", "add", {"a": 1, "b": 2}),
        ToolCall("c2", "add", {"a": 3, "b": 4}),
        ToolCall("c3", "none", {}),
    ]
    assert events[-1] == Finish("tool-calls")


async def test_results_go_back_in_call_order_each_to_its_call(provider: FakeOpenAI, http: Any) -> None:
    def part(id: str, **end: Any) -> dict[str, Any]:
        call = {"type": "tool", "toolCallId": id, "toolName": "add", "step": 0, "input": {"a": 1}, "actions": []}
        return {**call, **end}

    provider.then(answer("Done."))
    done = part("c1", state="output-available", output={"sum": 3})
    failed = part("c2", state="output-error", errorText="add.where expired.")
    await play(over_http(provider, http), asking("go", done, failed))
    [asked] = provider.asked
    [user, assistant, first, second] = asked["messages"]
    assert user["role"] == "user"
    assert assistant["role"] == "assistant"
    assert not assistant.get("content")
    assert [call["id"] for call in assistant["tool_calls"]] == ["c1", "c2"]
    assert (first["role"], first["tool_call_id"], first["content"]) == ("tool", "c1", '{"sum":3}')
    assert (second["role"], second["tool_call_id"]) == ("tool", "c2")
    assert "add.where expired." in second["content"]


async def test_the_responses_api_is_spoken_too(provider: FakeOpenAI, http: Any) -> None:
    reached = OpenAIProvider(base_url=provider.url, api_key="sk-secret", http_client=http)
    model = PydanticAIModel(OpenAIResponsesModel("fake", provider=reached))
    provider.then(response_calls(("c1", "add", '{"a": 1, "b": 2}'), ("c2", "add", '{"a": 3, "b": 4}')), Refuse(503))
    events = await play(model, asking("go", tools=[ADD], instructions="Be brief."))
    assert inputs_of(events) == {"c1": '{"a": 1, "b": 2}', "c2": '{"a": 3, "b": 4}'}
    assert events[-3:] == [
        ToolCall("c1", "add", {"a": 1, "b": 2}),
        ToolCall("c2", "add", {"a": 3, "b": 4}),
        Finish("tool-calls", {"inputTokens": 5, "outputTokens": 6, "cacheReadTokens": 2}),
    ]
    call = {"type": "tool", "toolName": "add", "step": 0, "input": {"a": 1}, "actions": [], "state": "output-available"}
    done = [{**call, "toolCallId": "c1", "output": 3}, {**call, "toolCallId": "c2", "output": None}]
    with pytest.raises(ModelError) as caught:
        await play(model, asking("go", *done, instructions="Be brief."))
    assert caught.value.retryable
    [_, asked] = provider.asked
    assert asked["instructions"] == "Be brief."
    assert [item.get("type") for item in asked["input"][1:]] == ["function_call"] * 2 + ["function_call_output"] * 2
    assert [item["call_id"] for item in asked["input"][1:]] == ["c1", "c2", "c1", "c2"]
    assert [item["output"] for item in asked["input"][3:]] == ["3", "null"]


async def failure(model: PydanticAIModel) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await play(model)
    assert "sk-secret" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("status", "retryable", "said"),
    [
        (400, False, "the model's provider refused the request; the server's log says why (HTTP 400)"),
        (
            401,
            False,
            "the model's provider refused the server's key; whoever runs it has to check that (HTTP 401)",
        ),
        (404, False, "the model's provider knows no model fake (HTTP 404)"),
        (408, True, None),
        (409, True, None),
        (429, True, "the model's provider asks for a pause: too many requests (HTTP 429)"),
        (500, True, "the model's provider failed (HTTP 500)"),
        (502, True, None),
        (503, True, "the model's provider is overloaded (HTTP 503)"),
        (529, True, None),
    ],
)
async def test_a_status_decides_whether_asking_again_may_help(
    provider: FakeOpenAI, http: Any, status: int, retryable: bool, said: str | None
) -> None:
    body = {"error": {"message": "Incorrect API key provided: sk-secret", "type": None, "code": None}}
    provider.then(Refuse(status, body))
    error = await failure(over_http(provider, http))
    assert error.retryable is retryable
    assert said is None or error.message == said
    assert f"(HTTP {status})" in error.message
    assert len(provider.asked) == 1, "only one layer asks again, and it is the driver"


async def test_how_long_a_provider_wants_to_be_left_alone_is_passed_on(provider: FakeOpenAI, http: Any) -> None:
    provider.then(Refuse(429, headers={"Retry-After": "7"}))
    assert (await failure(over_http(provider, http))).retry_after == 7


async def test_an_account_without_credit_is_not_asked_again(provider: FakeOpenAI, http: Any) -> None:
    body = {"error": {"message": "You exceeded your quota", "type": "insufficient_quota", "code": "insufficient_quota"}}
    provider.then(Refuse(429, body))
    error = await failure(over_http(provider, http))
    assert not error.retryable
    assert "no credit left" in error.message


async def test_a_thread_longer_than_the_model_reads_says_so(provider: FakeOpenAI, http: Any) -> None:
    body = {"error": {"message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded"}}
    provider.then(Refuse(400, body))
    error = await failure(over_http(provider, http))
    assert not error.retryable
    assert "longer than the model can read" in error.message


async def test_a_connection_cut_in_the_middle_is_worth_another_try(provider: FakeOpenAI, http: Any) -> None:
    provider.then([*answer("Hello", "world")[:2], CUT])
    model = over_http(provider, http)
    stream = model.stream(asking())
    assert await anext(stream) == TextDelta("Hello")
    with pytest.raises(ModelError, match="the connection to the model's provider broke") as caught:
        await anext(stream)
    assert caught.value.retryable


async def test_a_provider_that_falls_silent_is_worth_another_try(provider: FakeOpenAI, http: Any) -> None:
    provider.then([*answer("Hello")[:2], HANG])
    error = await failure(over_http(provider, http))
    assert error.retryable


@pytest.mark.parametrize(
    "broken", [b'data: {"choices": [{\n\n', b"data: <html>busy</html>\n\n", b'data: {"id": \xff\xfe"x"}\n\n']
)
async def test_events_that_are_no_json_are_worth_another_try(provider: FakeOpenAI, http: Any, broken: bytes) -> None:
    provider.then([*answer("Hello")[:2], broken, DONE])
    assert (await failure(over_http(provider, http))).retryable


async def test_an_error_inside_the_stream_is_read_as_the_status_it_stands_for(provider: FakeOpenAI, http: Any) -> None:
    error = b'data: {"error": {"message": "The server had an error", "type": "server_error", "code": null}}\n\n'
    provider.then([*answer("Hello")[:2], error, DONE])
    assert (await failure(over_http(provider, http))).retryable


async def test_a_stream_that_ends_without_a_reason_is_cut_where_the_provider_always_gives_one(
    provider: FakeOpenAI, http: Any
) -> None:
    profile = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
    provider.then([chunk({"content": "Hel"}), DONE], [chunk({"content": "Hel"}), DONE])
    assert (await failure(over_http(provider, http, profile))).retryable
    assert (await play(over_http(provider, http)))[-1] == Finish("stop"), "some never give one"


async def test_what_answers_with_a_page_instead_of_a_stream_is_an_error(provider: FakeOpenAI, http: Any) -> None:
    provider.then([b"<html>Please log in to the hotel's network</html>"])
    events: list[ModelEvent] = []
    try:
        events = await play(over_http(provider, http))
    except ModelError as error:
        assert error.retryable  # noqa: PT017 - either way is definite; what must not happen is anything else
    assert text_of(events) == ""


async def test_nobody_listening_is_worth_another_try(http: Any) -> None:
    async with serve() as gone:
        pass
    error = await failure(over_http(gone, http))
    assert error.retryable
    assert "connection" in error.message


async def test_the_length_limit_and_the_content_filter_are_told_apart_from_a_stop(
    provider: FakeOpenAI, http: Any
) -> None:
    provider.then(answer("Once upon", finish="length"), answer(finish="content_filter"))
    model = over_http(provider, http)
    reasons = [event.reason for _ in range(2) for event in await play(model) if isinstance(event, Finish)]
    assert reasons == ["length", "content-filter"]


async def test_a_refusal_is_said_in_the_models_words(provider: FakeOpenAI, http: Any) -> None:
    provider.then([chunk({"refusal": "I will "}), chunk({"refusal": "not."}), chunk(finish="stop"), DONE])
    events = await play(over_http(provider, http))
    assert text_of(events) == "I will not."


async def test_a_cancelled_step_hangs_up_on_the_provider(provider: FakeOpenAI, http: Any) -> None:
    provider.then([*answer("Hello")[:2], HANG])
    said = asyncio.Event()

    async def read() -> None:
        async for _ in over_http(provider, http, timeout=60).stream(asking()):
            said.set()

    step = asyncio.create_task(read())
    await asyncio.wait_for(said.wait(), 5)
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    async with asyncio.timeout(5):
        while not provider.let_go:
            await asyncio.sleep(0.01)


def with_file(url: str, media: str) -> Request:
    request = asking("What is this?")
    request.messages[0]["parts"].append({"type": "file", "url": url, "mediaType": media, "name": "it"})
    return request


@pytest.mark.parametrize("url", ["https://example.org/gone.png", "data:image/png;base64,bm90IGEgcGljdHVyZQ=="])
async def test_a_file_that_the_provider_refuses_does_not_make_the_thread_unanswerable(
    provider: FakeOpenAI, http: Any, url: str
) -> None:
    provider.then(Refuse(400), answer("I cannot see it."))
    assert text_of(await play(over_http(provider, http), with_file(url, "image/png"))) == "I cannot see it."
    [refused, asked] = provider.asked
    assert refused["messages"][0]["content"][1]["image_url"]["url"] == url
    assert asked["messages"] == [{"role": "user", "content": "What is this?\n\n(attached file: it, image/png)"}]


async def test_a_link_that_leads_into_the_servers_own_network_is_not_followed(provider: FakeOpenAI, http: Any) -> None:
    provider.then(answer("I cannot read it."))
    request = with_file(f"{provider.url}/secrets.pdf", "application/pdf")
    assert text_of(await play(over_http(provider, http), request)) == "I cannot read it."
    [asked] = provider.asked
    assert asked["messages"] == [{"role": "user", "content": "What is this?\n\n(attached file: it, application/pdf)"}]


async def test_a_pause_that_the_provider_asks_for_costs_no_file(provider: FakeOpenAI, http: Any) -> None:
    provider.then(Refuse(429))
    with pytest.raises(ModelError) as caught:
        await play(over_http(provider, http), with_file("https://example.org/a.png", "image/png"))
    assert caught.value.retryable
    assert len(provider.asked) == 1


# --- failures without a provider


def test_of_several_models_that_failed_one_that_may_recover_decides() -> None:
    gone, busy = x.ModelHTTPError(404, "a"), x.ModelHTTPError(503, "b")
    assert to_model_error(x.FallbackExceptionGroup("all failed", [gone, busy])).retryable
    assert not to_model_error(x.FallbackExceptionGroup("all failed", [gone, gone])).retryable


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (TimeoutError(), True),
        (ConnectionResetError(), True),
        (httpx.ReadTimeout(""), True),
        (x.UnexpectedModelBehavior("garbled"), True),
        (x.ContentFilterError("no"), False),
        (x.UserError("no images for this model"), False),
        (ZeroDivisionError(), False),
    ],
)
def test_what_is_no_answer_of_the_provider_is_sorted_too(error: Exception, retryable: bool) -> None:
    assert to_model_error(error).retryable is retryable


# --- set up


def test_an_unknown_model_and_a_missing_key_are_told_where_the_model_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match=r"model openai:gpt-5: .*OPENAI_API_KEY"):
        PydanticAIModel("openai:gpt-5")
    with pytest.raises(ConfigurationError, match="model nobody:x: Unknown model"):
        PydanticAIModel("nobody:x")


def test_a_provider_without_its_package_is_told_what_to_install() -> None:
    with pytest.raises(ConfigurationError, match=r"one more package: .*pydantic-ai-slim\[anthropic\]"):
        PydanticAIModel("anthropic:claude-sonnet-4-5")


def test_without_pydantic_ai_everything_else_works_and_the_model_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "pydantic_ai"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)  # an import of it fails, as where it is not installed
    with pytest.raises(ConfigurationError, match=r'pip install "waitpoint\[pydantic-ai\]"'):
        PydanticAIModel("openai:gpt-5")


def test_importing_waitpoint_does_not_import_pydantic_ai() -> None:
    import subprocess

    code = "import sys; from waitpoint.models import PydanticAIModel; print('pydantic_ai' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
