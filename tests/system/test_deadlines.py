"""``expires_in`` over real processes: fires once, is definite, and holds up nobody else (cases 2, 48, 90)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import redis

from support.client import Refusal
from support.servers import RedisServer
from support.standing import StandingServer, standing
from system.conversations import SOON, goes_on, outcome, wait_for_actions


@pytest.fixture(scope="module")
def pair(
    redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[StandingServer, StandingServer]]:
    directory = tmp_path_factory.mktemp("deadlines")
    with standing("support.odd_chat:chat", redis_server.url, directory, name="a") as a:
        with standing("support.odd_chat:chat", redis_server.url, directory, name="b") as b:
            yield a, b


async def test_an_unanswered_wait_expires_once_and_the_model_hears_of_it(connect, pair, thread) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(pair[0]), await connect(pair[1])
    view, other = await one.subscribe(thread), await two.subscribe(thread)
    (action,) = await wait_for_actions(one, thread, [["lapse", {}]])
    assert view.pending[0]["expiresAt"] > view.pending[0]["at"]
    await one.until(lambda: view.idle, "idle", deadline=SOON)
    await two.until(lambda: other.idle and other.cursor == view.cursor, "the same on the other instance")
    resolved = [event for event in other.events if event["type"] == "action-resolved"]
    assert [event["resolution"]["how"] for event in resolved] == ["expired"]
    assert resolved[0]["resolution"]["by"] == {"id": "system", "kind": "system"}
    assert "expired" in view.tools[0]["errorText"]
    assert "expired" in view.text
    for how, rest in (
        ("submit", {"data": True}),
        ("cancel", {}),
        ("fail", {"error": {"message": "x"}}),
        ("claim", {}),
    ):
        with pytest.raises(Refusal) as refused:
            await two.command(how, thread=thread, action=action, **rest)
        assert refused.value.code == "expired"
        assert refused.value.frame["winner"]["how"] == "expired"
    assert other.state == view.state
    await goes_on(connect, pair[0], one, thread)


async def test_an_expiry_beside_an_open_wait_leaves_that_one_answerable_at_once(connect, pair, thread) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(pair[0]), await connect(pair[1])
    view = await one.subscribe(thread)
    await wait_for_actions(one, thread, [["lapse", {}], ["ask", {"label": "x"}]], waits=2)
    await one.until(lambda: len(view.pending) == 1, "the expiry", deadline=SOON)
    await one.until(lambda: view.state["status"] == "waiting", "waiting again")
    assert view.pending[0]["name"] == "ask.plain"
    await two.submit(thread, view.pending[0]["id"], True)
    await one.until(lambda: view.idle, "the answer to be picked up at once", deadline=2.0)
    assert [part["state"] for part in view.tools] == ["output-error", "output-available"]


async def test_a_race_of_an_answer_and_the_deadline_has_one_winner(connect, pair, thread) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(pair[0]), await connect(pair[1])
    won = {"submitted": 0, "expired": 0}

    async def round(n: int) -> None:
        name = f"{thread}-{n}"
        view = await one.subscribe(name)
        (action,) = await wait_for_actions(one, name, [["lapse", {}]])
        await asyncio.sleep(0.7 - 0.12 + n * 0.008)
        reply = await outcome(two.submit(name, action, True))
        answered = not isinstance(reply, Refusal)
        assert answered or reply.code == "expired"
        await one.until(lambda: view.idle, "idle", deadline=SOON)
        (record,) = view.tools[0]["actions"]
        how = record["resolution"]["how"]
        assert (how == "submitted") is answered
        assert view.tools[0]["state"] == ("output-available" if answered else "output-error")
        won[how] += 1

    await asyncio.gather(*(round(n) for n in range(24)))
    assert min(won.values()) > 0, won


async def test_a_second_wait_after_a_first_with_a_deadline_stays_open(connect, pair, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(pair[0])
    (first,) = await wait_for_actions(client, thread, [["lapse_then_ask", {}]])
    view = client.views[thread]
    await client.submit(thread, first, True)
    await client.until(lambda: view.pending and view.pending[0]["id"] != first, "the second wait", deadline=SOON)
    over = datetime.now(UTC) + timedelta(seconds=1)  # well after the deadline of the first wait
    while datetime.now(UTC) < over:
        with pytest.raises(Refusal) as refused:
            await client.submit(thread, first, True)
        assert refused.value.code == "already-resolved"
    await client.submit(thread, view.pending[0]["id"], True)
    await client.until(lambda: view.idle, "idle", deadline=SOON)
    assert view.tools[0]["output"] == "done"


async def test_many_deadlines_at_once_each_fire_once(connect, pair, thread) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(pair[0]), await connect(pair[1])
    names = [f"{thread}-{n}" for n in range(60)]
    views = [await (one, two)[n % 2].subscribe(name) for n, name in enumerate(names)]
    await asyncio.gather(
        *((one, two)[n % 2].say(name, json.dumps([[["lapse", {}]] * 2])) for n, name in enumerate(names))
    )
    for n, view in enumerate(views):
        client = (one, two)[n % 2]
        await client.until(lambda view=view: view.idle and view.tools, f"{names[n]} idle", deadline=10)
        hows = [record["resolution"]["how"] for part in view.tools for record in part["actions"]]
        assert hows == ["expired", "expired"]


async def test_an_idle_store_has_nothing_due_and_nothing_pending(connect, pair, thread, redis_server) -> None:  # type: ignore[no-untyped-def]
    client = await connect(pair[0])
    action, _ = await wait_for_actions(client, thread, [["ask", {}], ["lapse", {}], ["no_such_tool", {}]], waits=2)
    view = client.views[thread]
    await client.command("stop", thread=thread)
    await client.until(lambda: view.idle, "idle", deadline=SOON)
    store = redis.Redis.from_url(redis_server.url)
    try:
        due = [name for key in store.scan_iter("wp:*:due") for name in store.zrange(key, 0, -1)]
        pending = [name for key in store.scan_iter("wp:*:pending") for name in store.hkeys(key)]
        assert thread.encode() not in due
        assert action.encode() not in pending
    finally:
        store.close()
