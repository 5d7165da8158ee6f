"""The tester runs a chat as production does: same gate, same store, same refusals, through restarts and crashes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from waitpoint import (
    Call,
    Chat,
    Identity,
    Initial,
    ModelRequest,
    Resume,
    ScriptedModel,
    ToolContext,
    UnsupportedEntry,
    WaitPoint,
    tool,
)
from waitpoint.models import to_turns
from waitpoint.testing import ChatTester, NotInTime, Refusal


class Ask(BaseModel):
    prompt: str


class Decision(BaseModel):
    approved: bool
    comment: str | None = None


decide = WaitPoint("decide", suspend=Ask, resume=Decision)
lapsing = WaitPoint("soon", suspend=Ask, resume=bool, expires_in=0.3)
bobs = WaitPoint("sign", suspend=Ask, resume=bool, audience=["bob"])


@tool(waits=[decide])
async def pay(ctx: ToolContext, amount: int) -> str:
    """Pay, if somebody approves."""
    match ctx.entry:
        case Initial():
            return ctx.suspend(decide, Ask(prompt=f"Pay {amount}?"))
        case Resume(name="decide", data=Decision(approved=True)):
            if ctx.deps is not None:
                ctx.deps.append(amount)
            return f"paid {amount}"
        case Resume(name="decide"):
            return "refused"
        case entry:
            raise UnsupportedEntry(entry)


@tool(waits=[lapsing])
async def hurry(ctx: ToolContext) -> str:
    """Wait for a moment."""
    return "answered" if lapsing.answered(ctx.entry) else ctx.suspend(lapsing, Ask(prompt="quick"))


@tool(waits=[bobs])
async def sign(ctx: ToolContext) -> str:
    """Wait for bob."""
    return "signed" if bobs.answered(ctx.entry) else ctx.suspend(bobs, Ask(prompt="sign"))


ENTERED: dict[str, list[int]] = {}


@tool
async def slow(ctx: ToolContext, mark: str) -> str:
    """Take for ever at the first attempt in this process, unless it was entered before."""
    attempts = ENTERED.setdefault(mark, [])
    attempts.append(ctx.attempt)
    if len(attempts) == 1:
        await asyncio.sleep(3600)
    return f"attempt {ctx.attempt}"


def script(request: ModelRequest) -> Any:
    """Call the tools the message names, all at once; then tell the results."""
    if request.step:
        [*_, last] = to_turns(request.messages)
        return "; ".join(str(result.error_text or result.output) for result in getattr(last, "results", ()))
    calls = [word.split(":") for word in request.said.split() if ":" in word]
    arguments: dict[str, Any] = {"pay": lambda n: {"amount": int(n)}, "slow": lambda mark: {"mark": mark}}
    return [
        Call(name, arguments.get(name, lambda _: {})(value)) for name, value in calls
    ] or f"You said: {request.said}"


chat = Chat(ScriptedModel(script), [pay, hurry, sign, slow])


@pytest.fixture
async def t() -> AsyncIterator[ChatTester]:
    async with ChatTester(chat) as tester:
        yield tester


async def test_a_word_and_its_reply(t: ChatTester) -> None:
    assert await t.say("hello") == "You said: hello"
    assert [message["role"] for message in t.messages] == ["user", "assistant"]
    assert (t.text, t.error, t.state["status"]) == ("You said: hello", None, "idle")


async def test_an_answer_enters_the_tool_and_the_chat_goes_on(t: ChatTester) -> None:
    await t.say("pay:5")
    assert t.state["status"] == "waiting"
    assert [(action["name"], action["input"]) for action in t.pending] == [("pay.decide", {"prompt": "Pay 5?"})]
    assert t.tool("pay")["state"] == "waiting"
    await t.answer(Decision(approved=True))
    assert t.pending == []
    assert t.tool("pay")["output"] == "paid 5"
    assert t.text == "paid 5"


async def test_a_bad_answer_is_refused_with_its_fields_and_nothing_else_happens(t: ChatTester) -> None:
    await t.say("pay:5")
    before = t.state
    with pytest.raises(Refusal) as refused:
        await t.answer({"approved": "yes", "more": 1})
    assert refused.value.code == "invalid"
    assert [error.path for error in refused.value.errors] == [["approved"], ["more"]]
    assert t.state == before


async def test_a_late_answer_learns_who_won(t: ChatTester) -> None:
    await t.say("pay:5")
    [action] = t.pending
    await t.as_(Identity("bob", name="Bob")).answer({"approved": False})
    with pytest.raises(Refusal) as refused:
        await t.answer({"approved": True}, action=action)
    assert refused.value.code == "already-resolved"
    assert refused.value.winner
    assert refused.value.winner["by"] == {"id": "bob", "kind": "person", "name": "Bob"}
    assert t.tool("pay")["output"] == "refused"


async def test_a_repeated_answer_is_acknowledged_once_more_and_changes_nothing(t: ChatTester) -> None:
    await t.say("pay:5")
    [action] = t.pending
    assert (await t.answer({"approved": True}, action=action, id="c1")).dup is None
    before = t.state
    assert (await t.answer({"approved": True}, action=action, id="c1")).dup is True
    assert t.state == before


async def test_of_several_actions_one_has_to_be_named(t: ChatTester) -> None:
    await t.say("pay:1 pay:2 sign:")
    with pytest.raises(LookupError, match=r"pay\.decide, pay\.decide, sign\.sign is pending; say which"):
        await t.answer({"approved": True})
    with pytest.raises(LookupError, match=r"2 actions pay\.decide are pending"):
        await t.answer({"approved": True}, action="pay.decide")
    await t.answer({"approved": True}, action=t.pending[1])
    await t.answer({"approved": False}, action="pay.decide")
    await t.as_("bob").answer(True, action="sign.sign")
    assert [part["output"] for part in t.tools()] == ["refused", "paid 2", "signed"]
    with pytest.raises(LookupError, match="nothing is pending"):
        await t.answer(True)
    with pytest.raises(Refusal, match="unknown-action"):
        await t.answer(True, action="a_nothing")


async def test_cancel_fail_and_stop_end_what_waits(t: ChatTester) -> None:
    await t.say("pay:1 pay:2")
    await t.cancel("not needed", action=t.pending[0])
    await t.fail("no bank", action=t.pending[0])
    first, second = t.tools("pay")
    assert (first["state"], second["state"]) == ("output-error", "output-error")
    assert "not needed" in first["errorText"]
    assert "no bank" in second["errorText"]
    await t.say("pay:3")
    await t.stop()
    assert t.state["status"] == "idle"
    assert t.tool("pay")["state"] == "output-error"


async def test_who_may_not_answer_is_refused(t: ChatTester) -> None:
    await t.say("sign:")
    with pytest.raises(Refusal, match="forbidden"):
        await t.answer(True)
    await t.as_("bob").answer(True)
    assert t.text == "signed"


async def test_the_may_hook_decides_for_each_identity() -> None:
    def may(identity: Identity, verb: str, thread: str, action: Any) -> bool:
        return identity.id == "ann"

    async with ChatTester(Chat(ScriptedModel(script), [], may=may), identity="ann") as t:
        assert await t.say("mine") == "You said: mine"
        eve = t.as_("eve")
        with pytest.raises(Refusal, match="not-found"):
            await eve.say("mine too")
        with pytest.raises(Refusal, match="not-found"):
            await eve.read()
        assert (await t.read())["messages"] == t.messages


async def test_threads_are_apart(t: ChatTester) -> None:
    other = t.in_("other")
    await t.say("pay:1")
    assert await other.say("hello") == "You said: hello"
    assert other.pending == []
    assert len(t.pending) == 1


async def test_a_deadline_is_waited_for(t: ChatTester) -> None:
    await t.say("hurry:")
    await t.until(lambda: not t.pending, "the deadline")
    await t.settled()
    [record] = t.tool("hurry")["actions"]
    assert record["resolution"]["how"] == "expired"
    assert record["resolution"]["by"]["kind"] == "system"


async def test_a_wait_survives_a_restart_of_everything(t: ChatTester) -> None:
    await t.say("pay:5")
    before = t.state
    await t.restart()
    assert t.state == before
    await t.restart(crash=True)
    assert t.state == before
    await t.answer({"approved": True})
    assert t.text == "paid 5"


@pytest.mark.parametrize(("crash", "attempts"), [(False, [1, 1]), (True, [1, 2])])
async def test_a_tool_that_runs_is_handed_over_or_cut_off(crash: bool, attempts: list[int]) -> None:
    mark = f"crash-{crash}"
    async with ChatTester(chat, lease=500) as t:
        await t.say(f"slow:{mark}", settle=False)
        await t.until(lambda: ENTERED.get(mark), "the tool to run")
        await t.restart(crash=crash)
        assert ENTERED.pop(mark) == attempts
        assert t.text == f"attempt {attempts[-1]}"


async def test_another_build_may_start_again_on_the_same_data(t: ChatTester) -> None:
    await t.say("pay:5")
    await t.restart(chat=Chat(ScriptedModel(script), [hurry]))
    await t.answer({"approved": True})
    assert t.tool("pay")["state"] == "output-error"
    assert "no tool pay any more" in t.tool("pay")["errorText"]


async def test_model_and_deps_can_be_replaced_for_a_test_and_the_chat_stays_as_it_was() -> None:
    paid: list[int] = []
    async with ChatTester(chat, model=ScriptedModel([[Call("pay", {"amount": 7})], "Done."]), deps=paid) as t:
        await t.say("anything")
        await t.answer({"approved": True})
        assert t.text == "Done."
    assert paid == [7]
    assert chat.deps is None


async def test_what_does_not_happen_is_told_with_how_the_thread_stands() -> None:
    mark = "never"
    async with ChatTester(chat, timeout=0.3) as t:
        with pytest.raises(
            NotInTime, match=r"waited 0\.3 s for the thread to settle; the thread is running, slow is running"
        ):
            await t.say(f"slow:{mark}")
        with pytest.raises(NotInTime, match=r"for a miracle"):
            await t.until(lambda: False, "a miracle")
    ENTERED.pop(mark)


async def test_a_tool_that_was_not_called_is_told_with_those_that_were(t: ChatTester) -> None:
    await t.say("pay:1")
    with pytest.raises(LookupError, match="refund was not called; tools that were: pay"):
        t.tool("refund")


async def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tasks = asyncio.all_tasks()
    async with ChatTester(chat) as t:
        await t.say("pay:1")
        assert os.listdir(tmp_path)
    assert os.listdir(tmp_path) == []
    assert asyncio.all_tasks() == tasks


def test_it_works_without_a_test_runner() -> None:
    async def main() -> str:
        async with ChatTester(chat) as t:
            return await t.say("hello")

    assert asyncio.run(main()) == "You said: hello"
