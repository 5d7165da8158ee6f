"""Waits outside tools: durable, answered like any action, continued once per accepted answer, through crashes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from support.client import Client, Refusal

CHAT = "support.request_chat:chat"
YES = {"approved": True, "comment": "fine"}


@pytest.fixture
async def a(server, stack):  # type: ignore[no-untyped-def]
    return await stack.enter_async_context(server("a", CHAT))


@pytest.fixture
async def b(server, stack):  # type: ignore[no-untyped-def]
    return await stack.enter_async_context(server("b", CHAT))


async def request(client: Client, thread: str, on_answer: str, number: int = 7, key: str = "") -> str:
    """Have application code open a request; the action's id."""
    view = client.views.get(thread) or await client.subscribe(thread)
    call = ["ask_outside", {"number": number, "on_answer": on_answer, "key": key}]
    await client.say(thread, json.dumps([[call]]))
    await client.until(lambda: view.state["status"] == "idle" and view.tools, "the turn to end")
    assert view.tools[0]["state"] == "output-available", view.tools[0]
    return str(view.tools[0]["output"])


async def eventually(condition: Callable[[], Any], what: str, deadline: float = 20.0) -> None:
    async with asyncio.timeout(deadline):
        while not condition():
            await asyncio.sleep(0.02)


def finished(journal: Any, kind: str) -> Callable[[], Any]:
    return lambda: journal.count(kind)


async def test_a_request_is_pending_after_its_turn_and_its_continuation_speaks_to_the_thread(  # type: ignore[no-untyped-def]
    connect, a, b, thread, journal
) -> None:
    one, two = await connect(a), await connect(b)
    action = await request(one, thread, "pay")
    view, other = one.views[thread], await two.subscribe(thread)
    assert other.pending == view.pending
    (pending,) = other.pending
    assert (pending["id"], pending["name"], pending["input"]) == (action, "pay.release", {"number": 7})
    with pytest.raises(Refusal) as bad:
        await two.submit(thread, action, {"approved": "yes"})
    assert (bad.value.code, bad.value.frame["errors"][0]["path"]) == ("invalid", ["approved"])
    await two.submit(thread, action, YES)
    await one.until(lambda: view.idle and view.text == "You said: Invoice 7: True", "what the continuation said")
    await two.until(lambda: other.idle and not other.pending, "idle")
    assert journal.entries("paid") == [
        {"kind": "paid", "pid": journal.entries("paid")[0]["pid"], "number": 7, "approved": True, "attempt": 1}
        | {"how": "submitted"}
    ]
    said = view.state["messages"][-2]
    assert said["by"] == {"id": "application", "kind": "system"}
    with pytest.raises(Refusal) as late:
        await one.submit(thread, action, YES)
    assert late.value.code == "already-resolved"


async def test_two_answers_through_two_instances_continue_once(connect, a, b, thread, journal) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(a), await connect(b)
    for n in range(15):
        action = await request(one, f"{thread}-{n}", "pay", n)
        ends = [client.submit(f"{thread}-{n}", action, YES) for client in (one, two)]
        results = await asyncio.gather(*ends, return_exceptions=True)
        assert [type(result) for result in results].count(Refusal) == 1, results
    await eventually(lambda: journal.count("paid") >= 15, "all continuations")
    assert sorted(entry["number"] for entry in journal.entries("paid")) == list(range(15))


async def test_a_conversation_goes_on_around_a_request(connect, a, thread, journal) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    action = await request(client, thread, "pay")
    view = client.views[thread]
    await client.say(thread, json.dumps([[["approve", {"label": "x"}]]]))
    await client.until(lambda: len(view.pending) == 2, "the tool's own question")
    await client.command("stop", thread=thread)
    await client.until(lambda: view.idle, "idle")
    await client.say(thread, "hello")
    await client.until(lambda: view.idle and view.text == "You said: hello", "an answer")
    assert [pending["id"] for pending in view.pending] == [action]
    again = await connect(a)
    assert (await again.subscribe(thread)).pending == view.pending, "whoever joins sees it, too"
    await client.submit(thread, action, YES)
    await eventually(finished(journal, "paid"), "the continuation")


async def test_a_request_survives_the_death_of_every_server(connect, server, stack, thread, journal) -> None:  # type: ignore[no-untyped-def]
    first = await stack.enter_async_context(server("a", CHAT))
    action = await request(await connect(first), thread, "pay")
    await first.kill()
    second = await stack.enter_async_context(server("b", CHAT))
    client = await connect(second)
    view = await client.subscribe(thread)
    assert [pending["id"] for pending in view.pending] == [action]
    await client.submit(thread, action, YES)
    await client.until(lambda: view.idle and "Invoice 7" in view.text, "what the continuation said", 25)
    assert journal.count("paid") == 1


async def test_a_continuation_that_takes_its_server_down_runs_again_elsewhere_and_says_things_once(  # type: ignore[no-untyped-def]
    connect, server, stack, thread, journal
) -> None:
    short = {"WAITPOINT_LEASE": "1500"}
    a = await stack.enter_async_context(server("a", CHAT, **short))
    action = await request(await connect(a), thread, "stumble")
    b = await stack.enter_async_context(server("b", CHAT, **short))
    client = await connect(a)
    try:
        await client.submit(thread, action, YES)
    except (TimeoutError, AssertionError):
        pass  # it may die before it has answered; the answer stands all the same
    other = await connect(b)
    view = await other.subscribe(thread)
    await eventually(lambda: journal.count("stumbled") >= 2, "the second attempt")
    await other.until(lambda: view.idle and not view.pending, "idle", 25)
    entries = journal.entries("stumbled")
    assert [entry["attempt"] for entry in entries] == [1, 2]
    assert len({entry["key"] for entry in entries}) == 1
    said = [message for message in view.state["messages"] if message.get("by", {}).get("id") == "application"]
    assert [message["parts"][0]["text"] for message in said] == ["Said once."]


async def test_a_drain_hands_a_continuation_over_without_counting_it_as_a_crash(  # type: ignore[no-untyped-def]
    connect, server, stack, thread, journal
) -> None:
    a = await stack.enter_async_context(server("a", CHAT))
    action = await request(await connect(a), thread, "linger")
    b = await stack.enter_async_context(server("b", CHAT))
    await (await connect(a)).submit(thread, action, YES)
    await eventually(finished(journal, "lingering"), "the continuation")
    await a.stop()
    await eventually(finished(journal, "lingered"), "its end elsewhere")
    assert {entry["attempt"] for entry in journal.entries("lingering")} == {1}
    assert b.returncode is None


async def test_a_continuation_that_raises_ends_and_harms_nobody(connect, a, thread, journal) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    action = await request(client, thread, "broken")
    view = client.views[thread]
    await client.submit(thread, action, YES)
    await eventually(finished(journal, "broken"), "the continuation")
    assert journal.entries("broken")[0]["answer"] == YES, "without a wait point it gets the JSON value"
    await client.say(thread, "still there?")
    await client.until(lambda: view.idle and view.text == "You said: still there?", "an answer")
    assert journal.count("broken") == 1


@pytest.mark.parametrize(("end", "how"), [("expire", "expired"), ("cancel", "cancelled"), ("submit", "submitted")])
async def test_a_continuation_may_hear_of_every_end(connect, a, thread, journal, end, how) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    action = await request(client, thread, "whatever")
    if end == "cancel":
        await client.command("cancel", thread=thread, action=action, reason="no need")
    elif end == "submit":
        await client.submit(thread, action, YES)
    await eventually(finished(journal, "ended"), "the continuation")
    (entry,) = journal.entries("ended")
    assert (entry["how"], entry["answered"]) == (how, end == "submit")
    assert entry["reason"] == ("no need" if end == "cancel" else None)


async def test_a_request_that_is_made_again_under_its_id_is_the_same_one(connect, a, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    first = await request(client, thread, "pay", key="invoice-7")
    assert await request(client, thread, "pay", key="invoice-7") == first
    assert len(client.views[thread].pending) == 1
