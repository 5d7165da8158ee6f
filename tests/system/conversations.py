"""What the tests on odd models, tools and deadlines all do: play a script, go on, compare with a fresh client."""

from __future__ import annotations

import json
from typing import Any

from support.client import Client, Refusal, View
from support.standing import StandingServer

SOON = 5.0
"""Seconds. Much less than a lease (10 s): nothing may end only because a lease ran out."""


async def play(client: Client, thread: str, *steps: Any, deadline: float = SOON) -> View:
    """Say a script and wait until the thread is idle again."""
    view = client.views.get(thread) or await client.subscribe(thread)
    await client.say(thread, json.dumps(list(steps)))
    await client.until(lambda: view.idle, "idle", deadline=deadline)
    return view


async def wait_for_actions(client: Client, thread: str, *steps: Any, waits: int = 1) -> list[str]:
    """Say a script that makes tools wait; returns the action ids in order of suspension."""
    view = client.views.get(thread) or await client.subscribe(thread)
    await client.say(thread, json.dumps(list(steps)))
    await client.until(lambda: len(view.pending) == waits, f"{waits} pending actions", deadline=SOON)
    return [action["id"] for action in view.pending]


async def outcome(attempt: Any) -> Any:
    """The ack, or the refusal as a value."""
    try:
        return await attempt
    except Refusal as refusal:
        return refusal


async def goes_on(connect: Any, server: StandingServer, client: Client, thread: str) -> None:
    """The next message is answered, and a fresh client sees what this one folded."""
    view = client.views[thread]
    await client.say(thread, "next")
    await client.until(lambda: view.idle and "You said: next" in view.text, "the next answer", deadline=SOON)
    fresh = await (await connect(server)).subscribe(thread)
    seen = {**view.state, "messages": view.state["messages"][-len(fresh.state["messages"]) :]}
    assert {**fresh.state, "before": 0} == {**seen, "before": 0}
