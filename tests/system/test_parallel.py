"""Cases "Parallel calls": several waits in one step, answered in any order from two instances."""

from __future__ import annotations

import asyncio
import json

from system.test_answers import ask
from waitpoint_protocol.view import waiting_for


async def test_equal_calls_get_their_own_answers_in_any_order(connect, a, b, thread, journal) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(a), await connect(b)
    view = await one.subscribe(thread)
    actions = await ask(one, thread, json.dumps([[["approve", {"label": "same"}]] * 3]), waits=3)
    assert len(set(actions)) == 3
    by_call = {pending["origin"]["toolCallId"]: pending["id"] for pending in view.pending}
    calls = [part["toolCallId"] for part in view.tools]
    answers = {calls[2]: "third", calls[0]: "first", calls[1]: "second"}
    for client, call in ((two, calls[2]), (one, calls[0]), (two, calls[1])):
        await client.submit(thread, by_call[call], {"approved": True, "comment": answers[call]})
    await one.until(lambda: view.idle, "idle")
    assert [part["output"]["comment"] for part in view.tools] == ["first", "second", "third"]
    assert journal.count("approved") == 3


async def test_answering_the_second_while_the_first_runs_finishes_both(connect, a, b, thread) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(a), await connect(b)
    view = await one.subscribe(thread)
    script = json.dumps([[["slow", {"seconds": 0.5, "label": "s"}], ["approve", {"label": "x"}]]])
    (action,) = await ask(one, thread, script)
    assert view.tools[0]["state"] == "running"
    await two.submit(thread, action, {"approved": True})
    await one.until(lambda: view.idle, "idle")
    assert [part["state"] for part in view.tools] == ["output-available"] * 2


async def test_one_answered_of_six_leaves_five_untouched(connect, a, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    view = await client.subscribe(thread)
    actions = await ask(client, thread, json.dumps([[["approve", {"label": str(n)}] for n in range(6)]]), waits=6)
    await client.submit(thread, actions[3], {"approved": True})
    await client.until(lambda: sum(part["state"] == "output-available" for part in view.tools) == 1, "one output")
    await client.until(lambda: view.state["status"] == "waiting", "waiting")
    assert [pending["id"] for pending in view.pending] == [id for id in actions if id != actions[3]]


async def test_the_model_continues_only_when_all_answers_are_in(connect, a, b, thread, journal) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(a), await connect(b)
    view = await one.subscribe(thread)
    actions = await ask(one, thread, json.dumps([[["approve", {"label": str(n)}] for n in range(5)]]), waits=5)
    for delay, client, action in (
        (0, one, actions[0]),
        (0.04, two, actions[1]),
        (0.02, one, actions[2]),
        (1.0, two, actions[3]),
    ):
        await asyncio.sleep(delay)  # the spacing of the answers is the case itself
        await client.submit(thread, action, {"approved": True})
    await one.until(lambda: view.state["status"] == "waiting" and waiting_for(view.state) == 1, "one left")
    assert journal.count("model") == 1
    assert [pending["id"] for pending in view.pending] == [actions[4]]
    await two.submit(thread, actions[4], {"approved": True})
    await one.until(lambda: view.idle, "idle")
    assert journal.count("model") == 2


async def test_twenty_answers_at_once_over_two_instances_are_all_recorded(connect, a, b, thread, journal) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(a), await connect(b)
    view = await one.subscribe(thread)
    actions = await ask(one, thread, json.dumps([[["approve", {"label": str(n)}] for n in range(20)]]), waits=20)
    await asyncio.gather(
        *((one, two)[n % 2].submit(thread, action, {"approved": True}) for n, action in enumerate(actions))
    )
    await one.until(lambda: view.idle, "idle")
    assert [part["output"]["label"] for part in view.tools] == [str(n) for n in range(20)]
    assert journal.count("approved") == 20


async def test_fast_suspending_and_failing_tools_reach_the_model_in_call_order(connect, a, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    view = await client.subscribe(thread)
    script = json.dumps([[["fast", {"label": "f"}], ["approve", {"label": "w"}], ["fail", {"label": "x"}]]])
    (action,) = await ask(client, thread, script)
    await client.submit(thread, action, {"approved": True})
    await client.until(lambda: view.idle, "idle")
    results = json.loads(view.text.removeprefix("Results: "))
    assert [name for name, _ in results] == ["fast", "approve", "fail"]
    assert "failed x" in results[2][1]


async def test_submit_reject_cancel_and_fail_in_one_batch(connect, a, thread, journal) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    view = await client.subscribe(thread)
    actions = await ask(client, thread, json.dumps([[["approve", {"label": str(n)}] for n in range(4)]]), waits=4)
    await client.submit(thread, actions[0], {"approved": True})
    await client.submit(thread, actions[1], {"approved": False})
    await client.command("cancel", thread=thread, action=actions[2], reason="changed my mind")
    await client.command("fail", thread=thread, action=actions[3], error={"message": "printer on fire"})
    await client.until(lambda: view.idle, "idle")
    assert [part["state"] for part in view.tools] == ["output-available"] * 2 + ["output-error"] * 2
    assert journal.count("model") == 2
    assert "printer on fire" in view.text
    assert "changed my mind" in view.text


async def test_a_call_that_does_not_fit_its_tool_settles_beside_a_waiting_one(connect, a, thread, journal) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    view = await client.subscribe(thread)
    script = json.dumps([[["typed", {"number": "seven"}], ["approve", {"label": "w"}], ["gone", {}]]])
    (action,) = await ask(client, thread, script)
    await client.submit(thread, action, {"approved": True})
    await client.until(lambda: view.idle, "idle")
    assert [part["state"] for part in view.tools] == ["output-error", "output-available", "output-error"]
    assert journal.count("typed") == 0
    assert journal.count("model") == 2


async def test_pending_is_always_complete_on_both_instances(connect, a, b, thread) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(a), await connect(b)
    view = await one.subscribe(thread)
    actions = await ask(one, thread, json.dumps([[["approve", {"label": str(n)}] for n in range(4)]]), waits=4)

    async def listed() -> list[str]:
        fresh = await connect(b)
        found = [pending["id"] for pending in (await fresh.subscribe(thread)).pending]
        await fresh.close()
        return found

    assert await listed() == actions
    other = await two.subscribe(thread)
    for done in range(1, 5):
        await two.submit(thread, actions[done - 1], {"approved": True})
        await two.until(lambda done=done: [p["id"] for p in other.pending] == actions[done:], "the rest")
        assert await listed() == actions[done:]
    await one.until(lambda: view.idle, "idle")


async def test_output_that_breaks_its_schema_ends_in_an_error_the_model_sees(connect, a, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    view = await client.subscribe(thread)
    await client.say(thread, json.dumps([[["wrong_output", {}]]]))
    await client.until(lambda: view.idle, "idle")
    assert view.tools[0]["state"] == "output-error"
    assert view.tools[0]["errorText"] in json.loads(view.text.removeprefix("Results: "))[0][1]
