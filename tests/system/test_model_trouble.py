"""Case 45 and its kin: a provider over real HTTP that dies, refuses, stalls and recovers under a real thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from support.fake_openai import CUT, HANG, FakeOpenAI, Refuse, answer, calls, serve
from waitpoint import Chat, Resume, ToolContext, WaitPoint, tool
from waitpoint.models import AgentModel, PydanticAIModel
from waitpoint.runner import retry
from waitpoint.testing import ChatTester


class Ask(BaseModel):
    prompt: str


where = WaitPoint("where", suspend=Ask, resume=str)
made: list[str] = []


@tool(waits=[where])
async def weather(ctx: ToolContext, day: str) -> dict[str, str]:
    """The weather of a day, at a place that is asked for."""
    match ctx.entry:
        case Resume(data=str() as place):
            return {"day": day, "place": place}
        case _:
            return ctx.suspend(where, Ask(prompt=f"Where, {day}?"))


@tool
async def note(ctx: ToolContext, text: str) -> str:
    """Write something down."""
    made.append(text)
    return f"noted {text}"


@pytest.fixture(autouse=True)
def quick_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    made.clear()
    monkeypatch.setattr(retry, "FIRST", 0.02)


@pytest.fixture
async def provider() -> AsyncIterator[FakeOpenAI]:
    async with serve() as fake:
        yield fake


@pytest.fixture
async def t(provider: FakeOpenAI) -> AsyncIterator[ChatTester]:
    import httpx2

    async with httpx2.AsyncClient(timeout=httpx2.Timeout(5, read=2), trust_env=False) as http:
        reached = OpenAIProvider(base_url=provider.url, api_key="sk-secret", http_client=http)
        model = PydanticAIModel(OpenAIChatModel("fake", provider=reached))
        async with ChatTester(Chat(model, [weather, note], instructions="Be brief."), lease=600) as tester:
            yield tester


def roles(asked: dict[str, Any]) -> list[str]:
    return [message["role"] for message in asked["messages"]]


async def test_an_answer_that_was_cut_off_is_discarded_and_asked_for_again(provider: FakeOpenAI, t: ChatTester) -> None:
    provider.then(answer("First."))
    await t.say("one")
    earlier = t.messages
    seen: set[str] = set()
    provider.then([*answer("Half an ", "answer")[:3], 0.2, CUT], answer("A whole ", "answer."))
    await t.say("two", settle=False)

    def whole() -> bool:
        seen.add(t.text)
        return t.text == "A whole answer."

    await t.until(whole, "the answer")
    await t.settled()
    assert "Half an answer" in seen
    assert t.messages[:2] == earlier
    assert (t.text, t.error) == ("A whole answer.", None)
    assert provider.asked[1] == provider.asked[2], "the repeat asks the very same"


async def test_a_provider_that_stays_away_ends_in_a_visible_error_and_the_thread_goes_on(
    provider: FakeOpenAI, t: ChatTester
) -> None:
    tries = retry.RETRIES + 1
    provider.then(*[Refuse(503)] * tries)
    await t.say("one")
    assert len(provider.asked) == tries
    assert t.error == "The model failed: the model's provider is overloaded (HTTP 503)"
    assert t.state["status"] == "idle"
    provider.then(answer("Here again."))
    assert await t.say("two") == "Here again."
    assert t.error is None
    # Two messages of a person with nothing between are one for a provider that wants the voices to alternate.
    assert roles(provider.asked[-1]) == ["system", "user"]
    assert provider.asked[-1]["messages"][1]["content"] == "one\n\ntwo"


async def test_a_refused_key_is_not_tried_again_and_nothing_of_it_is_shown(provider: FakeOpenAI, t: ChatTester) -> None:
    provider.then(
        Refuse(401, {"error": {"message": "Incorrect API key provided: sk-secret", "code": "invalid_api_key"}})
    )
    await t.say("one")
    assert len(provider.asked) == 1
    assert t.error
    assert "refused the server's key" in t.error
    assert "sk-secret" not in str(t.state)


async def test_the_pause_that_a_provider_asks_for_is_kept(provider: FakeOpenAI, t: ChatTester) -> None:
    provider.then(Refuse(429, headers={"Retry-After": "1"}), answer("Now."))
    began = asyncio.get_running_loop().time()
    assert await t.say("one") == "Now."
    assert asyncio.get_running_loop().time() - began >= 1


async def test_a_stop_ends_the_pause_and_nothing_is_asked_any_more(provider: FakeOpenAI, t: ChatTester) -> None:
    provider.then(Refuse(429, headers={"Retry-After": "30"}), answer("Too late."))
    await t.say("one", settle=False)
    await t.until(lambda: provider.asked, "the request")
    began = asyncio.get_running_loop().time()
    await t.stop()
    assert asyncio.get_running_loop().time() - began < 1
    assert t.messages[-1]["reason"] == "stopped"
    assert len(provider.asked) == 1


async def test_a_stop_hangs_up_on_the_provider_and_what_was_said_stays(provider: FakeOpenAI, t: ChatTester) -> None:
    provider.then([*answer("So far")[:2], HANG])
    await t.say("one", settle=False)
    await t.until(lambda: t.text == "So far", "the text")
    await t.stop()
    assert t.text == "So far"
    await t.until(lambda: provider.let_go == 1, "the provider to see it")


async def test_calls_that_were_cut_off_never_run_and_those_of_the_repeat_run_once(
    provider: FakeOpenAI, t: ChatTester
) -> None:
    cut = calls(("c1", "note", '{"text": "a"}'), ("c2", "note", '{"text": "b"}'))[:-3]
    whole = calls(("c3", "note", '{"text": "a"}'), ("c4", "note", '{"text": "b"}'))
    provider.then([*cut, CUT], whole, answer("Done."))
    assert await t.say("note it") == "Done."
    assert sorted(made) == ["a", "b"]
    assert [part["toolCallId"] for part in t.tools()] == ["c3", "c4"]


async def test_answers_go_back_to_the_provider_in_call_order_whatever_order_they_came_in(
    provider: FakeOpenAI, t: ChatTester
) -> None:
    provider.then(
        calls(
            ("c1", "weather", '{"day": "Monday"}'),
            ("c2", "note", '{"text": "asked"}'),
            ("c3", "weather", '{"day": "Tuesday"}'),
            ("c4", "nothing", "{}"),
            ("c5", "note", '{"text": 5}'),
            ("c6", "note", '{"text": "cut'),
        )
    )
    await t.say("the weather?")
    assert len(provider.asked) == 1
    provider.then(answer("Sunny."))
    first, second = t.pending
    await t.answer("Rome", action=second)
    await t.restart()
    await t.answer("Oslo", action=first)
    assert t.text == "Sunny."
    [*_, asked] = provider.asked
    assert roles(asked) == ["system", "user", "assistant", *["tool"] * 6]
    results = asked["messages"][3:]
    assert [message["tool_call_id"] for message in results] == ["c1", "c2", "c3", "c4", "c5", "c6"]
    assert [call["id"] for call in asked["messages"][2]["tool_calls"]] == ["c1", "c2", "c3", "c4", "c5", "c6"]
    assert results[0]["content"] == '{"day":"Monday","place":"Oslo"}'
    assert results[1]["content"] == "noted asked"
    assert results[2]["content"] == '{"day":"Tuesday","place":"Rome"}'
    assert "There is no tool nothing" in results[3]["content"]
    assert all("does not fit the tool" in message["content"] for message in results[4:])


async def test_a_message_instead_of_an_answer_makes_a_request_the_provider_takes(
    provider: FakeOpenAI, t: ChatTester
) -> None:
    provider.then(calls(("c1", "weather", '{"day": "Monday"}')))
    await t.say("the weather?")
    provider.then(answer("As you like."))
    await t.say("never mind")
    assert t.text == "As you like."
    asked = provider.asked[-1]
    assert roles(asked) == ["system", "user", "assistant", "tool", "user"]
    assert "Where, Monday?" in asked["messages"][3]["content"], "the model can see what was asked"


@pytest.mark.parametrize("crash", [False, True])
async def test_a_restart_in_the_middle_of_an_answer_asks_again_and_shows_the_answer_once(
    provider: FakeOpenAI, t: ChatTester, crash: bool
) -> None:
    provider.then([*answer("So far")[:2], HANG], answer("From the start."))
    await t.say("one", settle=False)
    await t.until(lambda: t.text == "So far", "the text")
    await t.restart(crash=crash)
    assert (t.text, t.error) == ("From the start.", None)
    assert len(provider.asked) == 2


async def test_an_agent_that_raises_is_told_to_the_person_and_the_next_message_works() -> None:
    async def fickle(request: Any) -> AsyncIterator[Any]:
        yield "Let me see. "
        if request.said == "break":
            raise LookupError("no such city")
        yield "Fine."

    async with ChatTester(Chat(AgentModel(fickle))) as t:
        await t.say("break")
        assert t.text == "Let me see. "
        assert t.error == "The model failed: the agent raised LookupError: no such city"
        assert await t.say("go on") == "Let me see. Fine."
