"""Cases "Restart, deploy, many instances": a wait is in the store and nowhere else."""

from __future__ import annotations

import json
import signal

import pytest

from support.client import Refusal
from system.test_answers import ask

LEASE = {"WAITPOINT_LEASE": "1500"}


async def test_a_wait_opened_on_a_is_answered_on_a_cold_b(connect, server, stack, thread, journal) -> None:  # type: ignore[no-untyped-def]
    a = await stack.enter_async_context(server("a"))
    one = await connect(a)
    (action,) = await ask(one, thread)
    await a.stop()
    assert a.returncode == 0
    b = await stack.enter_async_context(server("b"))
    two = await connect(b)
    view = await two.subscribe(thread)
    await two.submit(thread, action, {"approved": True})
    await two.until(lambda: view.idle, "idle")
    assert view.tools[0]["output"]["approved"] is True
    assert journal.count("approved") == 1
    assert journal.count("asked") == 1


async def test_a_submit_without_ever_subscribing_works(connect, a, b, thread) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(a), await connect(b)
    (action,) = await ask(one, thread)
    await two.submit(thread, action, {"approved": True})
    await one.until(lambda: one.views[thread].idle, "idle")


async def test_the_third_wait_survives_a_restart_with_its_input_and_two_answers(  # type: ignore[no-untyped-def]
    connect, server, stack, thread, journal
) -> None:
    a = await stack.enter_async_context(server("a"))
    one = await connect(a)
    view = await one.subscribe(thread)
    (first,) = await ask(one, thread, json.dumps([[["draft", {"report_id": "r9"}]]]))
    await one.submit(thread, first, {"audience": "team"})
    await one.until(lambda: view.pending and view.pending[0]["name"] == "draft.approveDraft", "approveDraft")
    await one.submit(thread, view.pending[0]["id"], {"approved": True})
    await one.until(lambda: view.pending and view.pending[0]["name"] == "draft.attachReferenceFile", "attach")
    third = view.pending[0]
    assert third["input"] == {"prompt": "File for r9?"}
    await a.stop()
    b = await stack.enter_async_context(server("b"))
    two = await connect(b)
    view = await two.subscribe(thread)
    assert view.pending == [third]
    records = view.tools[0]["actions"]
    assert [record.get("resolution", {}).get("how") for record in records] == ["submitted", "submitted", None]
    await two.submit(thread, third["id"], {"fileId": "f"})
    await two.until(lambda: view.idle, "idle")
    assert journal.entries("draft")[-1]["history"] == [
        ["collectDetails", "submitted"],
        ["approveDraft", "submitted"],
        ["attachReferenceFile", "submitted"],
    ]
    assert len(journal.entries("draft")) == 4


@pytest.mark.parametrize("when", ["waiting", "streaming beside it"])
async def test_kill_9_while_a_tool_waits_loses_nothing(connect, server, stack, thread, journal, when) -> None:  # type: ignore[no-untyped-def]
    a = await stack.enter_async_context(server("a", **LEASE))
    one = await connect(a)
    view = await one.subscribe(thread)
    if when == "waiting":
        (action,) = await ask(one, thread)
    else:
        script = json.dumps([[["approve", {"label": "x"}], ["slow", {"seconds": 30}]]])
        (action,) = await ask(one, thread, script)
        await one.until(lambda: view.tools[1]["state"] == "running", "the other tool runs")
    await a.kill()
    b = await stack.enter_async_context(server("b", **LEASE))
    two = await connect(b)
    view = await two.subscribe(thread)
    assert [pending["id"] for pending in view.pending] == [action]
    await two.submit(thread, action, {"approved": True})
    await two.until(lambda: view.tools[0]["state"] == "output-available", "the answer reaches the tool")
    assert journal.count("approved") == 1
    assert journal.count("asked") == 1
    if when == "waiting":
        await two.until(lambda: view.idle, "idle")
    else:
        await two.until(lambda: view.tools[1].get("attempt") == 2, "the cut-off tool is entered again")
        await two.command("stop", thread=thread)
        await two.until(lambda: view.idle, "idle")


async def test_kill_9_in_the_middle_of_a_stream_is_taken_over_by_the_other_instance(  # type: ignore[no-untyped-def]
    connect, server, stack, thread, journal
) -> None:
    a = await stack.enter_async_context(server("a", **LEASE))
    b = await stack.enter_async_context(server("b", **LEASE))
    one, two = await connect(a), await connect(b)
    view = await two.subscribe(thread)
    await one.say(thread, json.dumps([{"words": 40, "delay": 0.05}]))
    await two.until(lambda: "word5 " in view.text, "some text")
    await a.kill()
    await two.until(lambda: view.idle, "the other instance finishes", deadline=20)
    assert view.text.split() == [f"word{n}" for n in range(40)]
    assert sum(event["type"] == "step-reset" for event in view.events) == 1


async def test_a_killed_server_that_had_just_announced_the_action_left_it_answerable(  # type: ignore[no-untyped-def]
    connect, server, stack, thread, journal
) -> None:
    a = await stack.enter_async_context(server("a", **LEASE))
    one = await connect(a)
    await one.subscribe(thread)
    await one.say(thread, json.dumps([[["approve", {"label": "x"}]]]))
    await one.until(lambda: one.views[thread].pending, "announced")
    a.signal(signal.SIGKILL)
    await a.wait()
    b = await stack.enter_async_context(server("b", **LEASE))
    two = await connect(b)
    view = await two.subscribe(thread)
    assert [message["role"] for message in view.state["messages"]] == ["user", "assistant"]
    assert view.tools[0]["state"] == "waiting"
    await two.submit(thread, view.pending[0]["id"], {"approved": True})
    await two.until(lambda: view.idle, "idle", deadline=20)
    assert journal.count("approved") == 1


async def test_a_client_that_knows_nothing_sees_enough_to_answer(connect, a, thread) -> None:  # type: ignore[no-untyped-def]
    gone = await connect(a)
    await ask(gone, thread)
    await gone.cut()
    fresh = await connect(a)
    view = await fresh.subscribe(thread)
    action = view.pending[0]
    assert action["name"] == "approve.approval"
    assert action["input"] == {"prompt": "Approve x?"}
    assert action["schema"]["properties"]["approved"]["type"] == "boolean"
    assert action["origin"]["toolCallId"] == view.tools[0]["toolCallId"]
    assert action["origin"]["messageId"] == view.state["messages"][-1]["id"]
    assert (action["origin"]["toolName"], action["origin"]["suspendName"]) == ("approve", "approval")
    await fresh.submit(thread, action["id"], {"approved": True})
    await fresh.until(lambda: view.idle, "idle")


async def test_a_resolved_action_is_still_known_after_restarts(connect, server, stack, thread) -> None:  # type: ignore[no-untyped-def]
    a = await stack.enter_async_context(server("a"))
    one = await connect(a)
    view = await one.subscribe(thread)
    (action,) = await ask(one, thread)
    await one.submit(thread, action, {"approved": True})
    await one.until(lambda: view.idle, "idle")
    for n in range(20):
        await one.say(thread, f"chatter {n}")
        await one.until(lambda n=n: view.idle and f"chatter {n}" in view.text, "the reply")
    await a.stop()
    b = await stack.enter_async_context(server("b"))
    two = await connect(b)
    with pytest.raises(Refusal) as refused:
        await two.submit(thread, action, {"approved": False})
    assert refused.value.code == "already-resolved"
    assert refused.value.frame["winner"]["how"] == "submitted"


async def test_sigterm_hands_a_running_thread_over_at_once(connect, server, stack, thread, journal) -> None:  # type: ignore[no-untyped-def]
    a = await stack.enter_async_context(server("a", WAITPOINT_DRAIN_WINDOW="300"))
    b = await stack.enter_async_context(server("b"))
    one, two = await connect(a), await connect(b)
    view = await two.subscribe(thread)
    await one.say(thread, json.dumps([[["slow", {"seconds": 2, "label": "x"}]]]))
    await two.until(lambda: view.tools and view.tools[0]["state"] == "running", "running")
    heard = len(one.frames)
    await a.stop()
    assert a.returncode == 0
    assert any(frame["type"] == "goodbye" for frame in one.frames[heard:])
    assert (await one.wait_closed())[0] in (4005, 1012, 1001)
    await two.until(lambda: view.idle, "the other instance finishes", deadline=8)
    # Handed over, not crashed: the attempt number did not rise.
    assert [entry["attempt"] for entry in journal.entries("slow")] == [1, 1]
    assert journal.count("slow-done") == 1
