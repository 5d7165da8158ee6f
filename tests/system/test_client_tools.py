"""Tools that run in a page or in an outside system, over real sockets and processes: claims, and who may answer when.

The JS client's half (handlers, reloads, two tabs) is in ``client_js/test/tools.test.js`` and
``tests/browser/test_client_tools.py``.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx
import pytest

from support.client import Client, Refusal

CHAT = "support.bodiless_chat:chat"
LOCATE = json.dumps([[["getLocation", {}]]])
HERE = {"latitude": 47.5, "longitude": 8.25}


@pytest.fixture
async def a(server, stack):  # type: ignore[no-untyped-def]
    return await stack.enter_async_context(server("a", CHAT, WAITPOINT_CLAIM="3000"))


@pytest.fixture
async def b(server, stack):  # type: ignore[no-untyped-def]
    return await stack.enter_async_context(server("b", CHAT, WAITPOINT_CLAIM="3000"))


async def locate(client: Client, thread: str, script: str = LOCATE) -> Any:
    """Say something that calls a tool without a body; the pending action."""
    view = client.views.get(thread) or await client.subscribe(thread)
    await client.say(thread, script)
    await client.until(lambda: view.pending, "a pending action")
    return view.pending[0]


def claimant(client: Client, thread: str) -> str | None:
    """Who holds the one pending action, as this client sees it."""
    (action,) = client.views[thread].pending
    return action.get("claim", {}).get("connection")


async def claims(client: Client, thread: str, action: str) -> bool:
    """Try to claim; whether it worked."""
    try:
        await client.command("claim", thread=thread, action=action)
    except Refusal as refusal:
        return refusal.code != "busy"
    return True


async def refused(attempt: Any) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        await attempt
    return refusal.value


async def test_a_client_tool_waits_with_its_input_and_ends_with_the_answer(connect, a, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    action = await locate(client, thread)
    view = client.views[thread]
    assert (action["name"], action["kind"]) == ("getLocation.call", "client-tool")
    assert action["input"] == {"accuracy": "coarse"}
    assert set(action["schema"]["properties"]) == {"latitude", "longitude"}
    await client.command("claim", thread=thread, action=action["id"])
    bad = await refused(client.submit(thread, action["id"], {"latitude": 91, "longitude": 0}))
    assert (bad.code, bad.frame["errors"][0]["path"]) == ("invalid", ["latitude"])
    await client.submit(thread, action["id"], HERE)
    await client.until(lambda: view.idle, "idle")
    assert view.tools[0]["output"] == HERE
    assert len(view.tools[0]["actions"]) == 1


async def test_a_handler_that_failed_is_an_error_the_model_sees(connect, a, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    action = await locate(client, thread)
    await client.command("fail", thread=thread, action=action["id"], error={"message": "no permission"})
    view = client.views[thread]
    await client.until(lambda: view.idle, "idle")
    assert view.tools[0]["state"] == "output-error"
    assert "no permission" in view.text


async def test_two_tabs_on_two_instances_claim_and_one_gets_it(connect, a, b, thread) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(a), await connect(b)
    for n in range(20):
        name = f"{thread}-{n}"
        action = (await locate(one, name))["id"]
        await two.subscribe(name)
        results = await asyncio.gather(
            *(client.command("claim", thread=name, action=action) for client in (one, two)), return_exceptions=True
        )
        lost = [result for result in results if isinstance(result, Refusal)]
        assert [loser.code for loser in lost] == ["busy"], results
        winner, loser = (two, one) if isinstance(results[0], Refusal) else (one, two)
        await loser.until(lambda: claimant(loser, name) == winner.welcome["connection"], "the claim to show")
        for end in (
            loser.submit(name, action, HERE),
            loser.command("fail", thread=name, action=action, error={"message": "mine"}),
        ):
            late = await refused(end)
            assert (late.code, late.frame["retryMs"] > 0) == ("busy", True)
        await winner.submit(name, action, HERE)
        for client in (one, two):
            await client.command("unsubscribe", thread=name)


async def test_what_is_claimed_by_a_tab_is_refused_over_http_but_can_be_cancelled_by_people(
    connect, a, b, thread
) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(a), await connect(b)
    action = (await locate(one, thread))["id"]
    await one.command("claim", thread=thread, action=action)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{b.port}") as http:
        reply = await http.post(f"/threads/{thread}/actions/{action}/submit", json={"data": HERE})
    assert (reply.status_code, reply.json()["code"], reply.headers["retry-after"]) == (409, "busy", "1")
    await two.command("cancel", thread=thread, action=action)
    late = await refused(one.submit(thread, action, HERE))
    assert (late.code, late.frame["winner"]["how"]) == ("already-resolved", "cancelled")


@pytest.mark.parametrize("way", ["close", "cut", "release"])
async def test_a_claim_ends_with_its_tab_and_the_call_is_offered_again(connect, a, b, thread, way) -> None:  # type: ignore[no-untyped-def]
    """Case 55: reload before it answers."""
    one, two = await connect(a), await connect(b)
    action = (await locate(one, thread))["id"]
    await two.subscribe(thread)
    await one.command("claim", thread=thread, action=action)
    await two.until(lambda: claimant(two, thread) is not None, "the claim to show")
    started = time.monotonic()
    if way == "release":
        await one.command("release", thread=thread, action=action)
    else:
        await getattr(one, way)()
    await two.until(lambda: claimant(two, thread) is None, "the claim to go")
    assert time.monotonic() - started < 2, "it went with the connection, not by lapsing"
    await two.command("claim", thread=thread, action=action)
    await two.submit(thread, action, HERE)
    view = two.views[thread]
    await two.until(lambda: view.idle, "idle")
    assert [event["type"] for event in view.events].count("action-claimed") == 3


async def test_a_claim_whose_instance_died_lapses_and_the_call_is_offered_again(connect, a, b, thread) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(a), await connect(b)
    action = (await locate(one, thread))["id"]
    await two.subscribe(thread)
    await one.command("claim", thread=thread, action=action)
    await two.until(lambda: claimant(two, thread) is not None, "the claim to show")
    await two.until(lambda: two.views[thread].state["status"] == "waiting", "the driver has settled")
    await a.kill()
    assert (await refused(two.command("claim", thread=thread, action=action))).code == "busy"
    await two.until(lambda: claimant(two, thread) is None, "the claim to lapse", 8)
    assert two.views[thread].state["status"] == "waiting"
    await two.command("claim", thread=thread, action=action)
    await two.submit(thread, action, HERE)
    await two.until(lambda: two.views[thread].idle, "idle")


async def test_a_claim_is_kept_for_as_long_as_its_tab_is_there_and_nobody_hears_of_that(connect, a, b, thread) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(a), await connect(b)
    action = (await locate(one, thread))["id"]
    view = await two.subscribe(thread)
    await one.command("claim", thread=thread, action=action)
    await two.until(lambda: claimant(two, thread) is not None and view.state["status"] == "waiting", "the claim")
    cursor, end = dict(view.cursor), time.monotonic() + 7
    while time.monotonic() < end:  # more than two lives of a claim
        assert (await refused(two.command("claim", thread=thread, action=action))).code == "busy"
        await asyncio.sleep(0.25)
    assert view.cursor == cursor, "renewing a claim is no event"
    await one.submit(thread, action, HERE)
    await two.until(lambda: view.idle, "idle")


async def test_a_tab_that_came_back_may_claim_under_the_same_command_id(connect, a, thread) -> None:  # type: ignore[no-untyped-def]
    one = await connect(a)
    action = (await locate(one, thread))["id"]
    await one.command("claim", "k1", thread=thread, action=action)
    assert (await one.command("claim", "k1", thread=thread, action=action))["dup"] is True
    await one.cut()
    back = await connect(a)
    await back.subscribe(thread)
    await back.until(lambda: claimant(back, thread) is None, "the claim to go")
    ack = await back.command("claim", "k1", thread=thread, action=action)
    assert "dup" not in ack
    await back.until(lambda: claimant(back, thread) == back.welcome["connection"], "the claim")


async def test_a_claim_that_was_asked_for_by_a_tab_that_left_is_not_left_behind(connect, a, b, thread) -> None:  # type: ignore[no-untyped-def]
    two = await connect(b)
    action = (await locate(two, thread))["id"]
    for _ in range(20):
        one = await Client.open(a.url)
        await one.send({"type": "claim", "id": "k", "thread": thread, "action": action})
        await one.cut()
    # One that is still under way is given back at once; one left behind would be renewed for ever.
    async with asyncio.timeout(10):
        while not await claims(two, thread, action):
            await two.until(lambda: claimant(two, thread) is None, "no claim")
    await two.submit(thread, action, HERE)


async def test_a_client_tool_that_no_page_runs_expires_as_any_wait(connect, a, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    view = await client.subscribe(thread)
    await client.say(thread, json.dumps([[["pickColour", {}]]]))
    await client.until(lambda: view.idle and view.tools, "idle")
    assert view.tools[0]["actions"][0]["resolution"]["how"] == "expired"


async def test_an_outside_system_ends_its_tool_over_http(connect, a, b, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    action = await locate(client, thread, json.dumps([[["collectPayment", {"number": 7}]]]))
    assert (action["name"], action["kind"], action["input"]) == ("collectPayment.call", "external", {"number": 7})
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{b.port}") as http:
        path = f"/threads/{thread}/actions/{action['id']}/submit"
        assert (await http.post(path, json={"data": {"paid": "yes"}})).json()["code"] == "invalid"
        replies = await asyncio.gather(
            *(http.post(path, json={"data": {"paid": True}}, headers={"Idempotency-Key": "hook-1"}) for _ in range(5))
        )
    assert [reply.status_code for reply in replies] == [200] * 5
    assert sum(reply.json().get("dup", False) for reply in replies) == 4
    view = client.views[thread]
    await client.until(lambda: view.idle, "idle")
    assert view.tools[0]["output"] == {"paid": True}


async def test_a_client_tool_survives_a_kill_at_its_wait(connect, server, stack, thread) -> None:  # type: ignore[no-untyped-def]
    first = await stack.enter_async_context(server("a", CHAT))
    action = await locate(await connect(first), thread)
    await first.kill()
    second = await stack.enter_async_context(server("b", CHAT))
    client = await connect(second)
    view = await client.subscribe(thread)
    assert view.pending == [action]
    await client.command("claim", thread=thread, action=action["id"])
    await client.submit(thread, action["id"], HERE)
    await client.until(lambda: view.idle, "idle", 25)
    assert view.tools[0]["output"] == HERE
