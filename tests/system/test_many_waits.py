"""Thousands of waits: they cost nothing while nothing happens, and lapse together without holding up the living.

Case 92 of the house.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.client import Client
from support.crowd import multiply
from support.rig import Rig, rig
from system.conversations import wait_for_actions
from waitpoint.store.keys import Keys

CROWD = 10_000
LAPSING = 2_500
"""Fewer than the crowd, since each of them is a whole turn to its end."""
TEMPLATE = "template-of-the-crowd"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Rig]:
    async with rig(tmp_path) as made:
        yield made
        made.no_exceptions()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def due(world: Rig) -> int:
    client = world.store.client()
    try:
        return sum(client.zcard(key) for key in Keys().due())
    finally:
        client.close()


async def test_ten_thousand_open_waits_cost_nothing_while_nothing_happens(world: Rig) -> None:
    a = await world.instance("a")
    one = await world.client(a)
    await wait_for_actions(one, TEMPLATE, [["approve", {"label": "x"}]])
    await one.until(lambda: one.views[TEMPLATE].state["status"] == "waiting", "waiting")

    async def used(seconds: float) -> float:
        before = cpu_seconds(a.server.pid)
        await asyncio.sleep(seconds)
        return (cpu_seconds(a.server.pid) - before) / seconds

    alone = await used(5)
    multiply(world.store, TEMPLATE, [f"crowd-{n}" for n in range(CROWD)])
    crowded = await used(5)
    assert crowded <= alone + 0.01, f"{alone:.1%} of a core with one wait, {crowded:.1%} with {CROWD}"
    # They are real: one of them is answered like any other.
    view = await one.subscribe("crowd-7777")
    await one.submit("crowd-7777", view.pending[0]["id"], {"approved": True})
    await one.until(lambda: view.idle, "idle")
    assert view.tools[0]["output"]["approved"] is True


@pytest.mark.timeout(180)
async def test_thousands_of_deadlines_in_one_second_each_fire_once_and_hold_up_nobody(world: Rig) -> None:
    a = await world.instance("a")
    one = await world.client(a)
    await wait_for_actions(one, TEMPLATE, [["approve_in_time", {}]])
    await one.until(lambda: one.views[TEMPLATE].state["status"] == "waiting", "waiting")
    await a.server.stop()
    names = [f"crowd-{n}" for n in range(LAPSING)]
    multiply(world.store, TEMPLATE, names, expires_at=int(time.time() * 1000))
    await a.server.start()
    b = await world.instance("b")
    one, two = await world.client(a), await world.client(b)

    async def live(client: Client, thread: str) -> float:
        """A whole question and answer; returns how long it took."""
        began = time.monotonic()
        view = await client.subscribe(thread)
        (action,) = await wait_for_actions(client, thread, [["approve", {"label": "x"}]])
        await client.submit(thread, action, {"approved": True})
        await client.until(lambda: view.idle, "idle")
        await client.command("unsubscribe", thread=thread)
        return time.monotonic() - began

    began, took, n = time.monotonic(), [], 0
    while due(world) > 1:
        took.append(await live((one, two)[n % 2], f"live-{n}"))
        n += 1
        assert time.monotonic() - began < 120, f"{due(world)} still due"
    lapsed = time.monotonic() - began
    report = (
        f"{LAPSING} lapsed within {lapsed:.1f} s; meanwhile {n} conversations, "
        f"median {statistics.median(took):.2f} s, worst {max(took):.2f} s"
    )
    print(report)  # noqa: T201 - pytest shows it with the failure
    for name in names[::250]:
        view = await two.subscribe(name)
        await two.until(lambda view=view: view.idle, "idle")
        assert [record["resolution"]["how"] for record in view.tools[0]["actions"]] == ["expired"]
    client = world.store.client()
    logs = [client.xrange(Keys().of(name).log) for name in names[::100]]
    client.close()
    assert [sum(entry[b"body"].count(b'"action-resolved"') for _, entry in log) for log in logs] == [1] * len(logs)
    assert statistics.median(took) < 2, report
