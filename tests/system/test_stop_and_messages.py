"""Cases "Stop, cancel, new message": a thread cannot wedge."""

from __future__ import annotations

import json

import pytest

from support.client import Refusal
from system.test_answers import ask


async def test_stop_while_waiting_cancels_and_the_next_message_works(connect, a, b, thread) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(a), await connect(b)
    view = await one.subscribe(thread)
    (action,) = await ask(one, thread)
    await two.command("stop", thread=thread)
    await one.until(lambda: view.idle, "idle within a second", deadline=1.0)
    part = view.tools[0]
    assert part["state"] == "output-error"
    resolution = part["actions"][0]["resolution"]
    assert (resolution["how"], resolution["reason"]) == ("cancelled", "stopped")
    assert view.state["messages"][-1]["reason"] == "stopped"
    with pytest.raises(Refusal) as refused:
        await one.submit(thread, action, {"approved": True})
    assert refused.value.code == "already-resolved"
    await one.say(thread, "hello again")
    await one.until(lambda: view.idle and "hello again" in view.text, "the next message")


async def test_stop_in_the_middle_of_a_stream_keeps_what_was_said(connect, a, b, thread) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(a), await connect(b)
    view = await one.subscribe(thread)
    await one.say(thread, json.dumps([{"words": 2000, "delay": 0.01}]))
    await one.until(lambda: "word20 " in view.text, "some text")
    await two.command("stop", thread=thread)
    await one.until(lambda: view.idle, "idle", deadline=3)
    assert 20 < len(view.text.split()) < 2000
    fresh = await (await connect(b)).subscribe(thread)
    assert fresh.text == view.text


async def test_stop_ends_a_running_tool_and_what_it_returns_later_is_ignored(connect, a, thread, journal) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    view = await client.subscribe(thread)
    await client.say(thread, json.dumps([[["slow", {"seconds": 30}]]]))
    await client.until(lambda: view.tools and view.tools[0]["state"] == "running", "running")
    await client.command("stop", thread=thread)
    await client.until(lambda: view.idle, "idle", deadline=3)
    assert view.tools[0]["state"] == "output-error"
    assert journal.count("slow-done") == 0


async def test_stop_on_an_idle_thread_is_accepted(connect, a, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    assert (await client.command("stop", thread=thread))["type"] == "ack"


async def test_a_message_instead_of_an_answer_abandons_the_wait_and_is_answered(connect, a, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    view = await client.subscribe(thread)
    (action,) = await ask(client, thread)
    ack = await client.say(thread, "make it cheaper")
    assert ack["queued"] is True
    await client.until(lambda: view.idle and "make it cheaper" in view.text, "the answer to the new message")
    with pytest.raises(Refusal) as refused:
        await client.submit(thread, action, {"approved": True})
    assert refused.value.code == "already-resolved"
    roles = [message["role"] for message in view.state["messages"]]
    assert roles == ["user", "assistant", "user", "assistant"]
    assert view.state["messages"][1]["reason"] == "superseded"


async def test_a_keeping_wait_lets_the_message_queue(connect, a, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    view = await client.subscribe(thread)
    (action,) = await ask(client, thread, json.dumps([[["policy", {"how": "keep"}]]]))
    await client.say(thread, "later please")
    await client.until(lambda: len(view.state["queued"]) == 1, "queued")
    assert [pending["id"] for pending in view.pending] == [action]
    await client.submit(thread, action, True)
    await client.until(lambda: view.idle and "later please" in view.text, "both turns")
    assert [message["role"] for message in view.state["messages"]] == ["user", "assistant"] * 2


async def test_a_refusing_wait_refuses_messages(connect, a, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    await client.subscribe(thread)
    (action,) = await ask(client, thread, json.dumps([[["policy", {"how": "refuse"}]]]))
    with pytest.raises(Refusal) as refused:
        await client.say(thread, "hello?")
    assert refused.value.code == "waiting"
    await client.submit(thread, action, False)


async def test_messages_sent_while_the_model_streams_get_their_own_turn(connect, a, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    view = await client.subscribe(thread)
    await client.say(thread, json.dumps([{"words": 30, "delay": 0.01}]))
    await client.until(lambda: "word3 " in view.text, "streaming")
    await client.say(thread, "one more")
    await client.say(thread, "and another")
    await client.until(lambda: view.idle and "and another" in view.text, "the next turn")
    roles = [message["role"] for message in view.state["messages"]]
    assert roles == ["user", "assistant", "user", "user", "assistant"]


async def test_a_model_that_always_calls_a_tool_meets_the_step_cap(connect, server, stack, thread) -> None:  # type: ignore[no-untyped-def]
    a = await stack.enter_async_context(server("a", WAITPOINT_STEP_CAP="3"))
    client = await connect(a)
    view = await client.subscribe(thread)
    await client.say(thread, json.dumps([[["fast", {}]]] * 9))
    await client.until(lambda: view.idle, "idle")
    assert len(view.tools) == 3
    message = view.state["messages"][-1]
    assert message["reason"] == "step-cap"
    assert "3 steps" in message["errorText"]
