"""Commands that arrive at the edges of a run: at its end, between its steps, while it is handed over (case 89).

Every wait is far below a lease (10 s): a wake that was lost, or a lease that was not given back, fails here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.client import Client, Refusal
from support.servers import RedisServer
from support.standing import StandingServer, standing
from system.conversations import SOON, outcome, wait_for_actions

Pair = tuple[StandingServer, StandingServer]


@pytest.fixture(scope="module")
def pair(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    directory = tmp_path_factory.mktemp("handover")
    with standing("support.odd_chat:chat", redis_server.url, directory, name="a") as a:
        with standing("support.odd_chat:chat", redis_server.url, directory, name="b") as b:
            yield a, b


async def test_a_message_at_the_very_end_of_a_turn_is_answered_at_once(connect, pair, thread) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(pair[0]), await connect(pair[1])
    view, other = await one.subscribe(thread), await two.subscribe(thread)
    for n in range(150):
        client, seen = ((one, view), (two, other))[n % 2]
        finished = sum(event["type"] == "message-finish" for event in seen.events)
        await client.command("message", thread=thread, parts=[{"type": "text", "text": f"round {n}"}])
        # The answer's end is heard before its run has settled; the next message comes right then.
        await client.until(
            lambda seen=seen, n=finished: sum(event["type"] == "message-finish" for event in seen.events) > n,
            f"the answer to round {n}",
            deadline=3,
        )
    await one.until(lambda: view.idle, "idle", deadline=SOON)
    texts = [message["parts"][0]["text"] for message in view.state["messages"] if message["role"] == "user"]
    assert texts == [f"round {n}" for n in range(150)]
    reasons = {message.get("reason") for message in view.state["messages"] if message["role"] == "assistant"}
    assert reasons == {"stop"}


@pytest.mark.parametrize("through", ["same", "other"])
async def test_a_wait_that_is_ended_the_instant_it_opens_lets_the_model_go_on(connect, pair, thread, through) -> None:  # type: ignore[no-untyped-def]
    """The model is asked with every result, also when the last one comes between the suspension and its settling."""
    one = await connect(pair[0])
    ender = one if through == "same" else await connect(pair[1])
    view = await one.subscribe(thread)
    seen = view if ender is one else await ender.subscribe(thread)
    for n in range(60):
        await one.say(thread, json.dumps([[["ask", {"label": str(n)}]] * (1 + n % 2)]))
        ended: set[str] = set()
        while len(ended) < 1 + n % 2:
            await ender.until(
                lambda ended=ended: [a for a in seen.pending if a["id"] not in ended], "a wait", deadline=3
            )
            for action in seen.pending:
                if action["id"] not in ended:
                    ended.add(action["id"])
                    if n % 3:
                        await ender.command("cancel", thread=thread, action=action["id"])
                    else:
                        await ender.submit(thread, action["id"], True)
        await one.until(lambda: view.idle, f"round {n}", deadline=3)
        assert view.state["messages"][-1]["reason"] == "stop", view.state["messages"][-1]


async def test_answers_and_stops_from_everywhere_leave_every_thread_able_to_go_on(connect, pair, thread) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(pair[0]), await connect(pair[1])

    async def life(n: int) -> None:
        name = f"{thread}-{n}"
        view = await one.subscribe(name)
        for turn in range(6):
            actions = await wait_for_actions(
                one, name, [["ask", {"label": "a"}], ["lapse", {}], ["slow", {"seconds": 0.02}]], waits=2
            )
            attempts: list[Any] = [
                two.submit(name, actions[0], True),
                one.command("cancel", thread=name, action=actions[1]),
                two.command("stop", thread=name),
                one.command("message", thread=name, parts=[{"type": "text", "text": f"instead {turn}"}]),
                two.command("fail", thread=name, action=actions[0], error={"message": "x"}),
            ]
            order = attempts[(n + turn) % 5 :] + attempts[: (n + turn) % 5]
            replies = await asyncio.gather(*(outcome(attempt) for attempt in order))
            codes = {reply.code for reply in replies if isinstance(reply, Refusal)}
            assert codes <= {"already-resolved", "expired"}, codes
            await one.until(lambda: view.idle, f"{name} idle", deadline=SOON)
        for message in view.state["messages"]:
            for part in message["parts"]:
                if part["type"] == "tool":
                    assert part["state"] in ("output-available", "output-error")
                    assert all("resolution" in record for record in part["actions"])

    await asyncio.gather(*(life(n) for n in range(20)))


async def test_a_long_stream_with_messages_between_stays_cheap_to_join(connect, pair, thread) -> None:  # type: ignore[no-untyped-def]
    """A queued message moves the revision; checkpoints of the stream must go on all the same."""
    one, two = await connect(pair[0]), await connect(pair[1])
    view = await one.subscribe(thread)
    await one.say(thread, json.dumps([{"odd": "endless"}]))
    await one.until(lambda: "more more" in view.text, "the stream")
    await two.say(thread, "queued early")
    await one.until(lambda: view.text.count("more ") > 500, "a long text", deadline=30)
    fresh: Client = await connect(pair[0])
    seen = await fresh.subscribe(thread)
    assert seen.text.count("more ") >= 500
    assert [message["parts"][0]["text"] for message in seen.state["queued"]] == ["queued early"]
    await two.command("stop", thread=thread)
    await one.until(lambda: view.idle and "queued early" in view.text, "the queued message", deadline=SOON)
    await fresh.until(lambda: seen.cursor == view.cursor, "the same place")
    assert seen.state["messages"] == view.state["messages"]
