"""Cases "Leases, recovery": whatever a driver does to itself, one outcome, and the lease or the fence holds."""

from __future__ import annotations

import asyncio
import json
import signal
import time

import pytest

from support.process import ServerProcess
from system.conftest import Journal

LEASE = 1500
SETTINGS = {"WAITPOINT_LEASE": str(LEASE)}


@pytest.mark.parametrize("how", ["sleep", "loop"])
async def test_a_tool_that_blocks_the_loop_keeps_its_lease(connect, server, stack, thread, journal, how) -> None:  # type: ignore[no-untyped-def]
    a = await stack.enter_async_context(server("a", **SETTINGS))
    b = await stack.enter_async_context(server("b", **SETTINGS))
    one, two = await connect(a), await connect(b)
    view = await two.subscribe(thread)
    await one.say(thread, json.dumps([[["block", {"how": how, "seconds": 3 * LEASE / 1000}]]]))
    await two.until(lambda: view.tools and view.tools[0]["state"] in ("running", "output-available"), "running")
    await two.until(lambda: view.idle, "the end", deadline=25)
    assert view.tools[0]["output"] == "blocked"
    assert [entry["attempt"] for entry in journal.entries("block")] == [1]
    pids = {entry["pid"] for entry in journal.entries("block")}
    assert len(pids) == 1


async def driver_of(journal: Journal, kind: str, *servers: ServerProcess) -> tuple[ServerProcess, ServerProcess]:
    """Who runs the tool, and who does not. The body starts a moment after it was announced."""
    async with asyncio.timeout(10):
        while not journal.count(kind):
            await asyncio.sleep(0.01)
    pid = journal.entries(kind)[0]["pid"]
    (driver,) = (server for server in servers if server.pid == pid)
    (other,) = (server for server in servers if server.pid != pid)
    return driver, other


async def test_a_stopped_process_is_taken_over_and_fenced_when_it_wakes(  # type: ignore[no-untyped-def]
    connect, server, stack, thread, journal
) -> None:
    a = await stack.enter_async_context(server("a", **SETTINGS))
    b = await stack.enter_async_context(server("b", **SETTINGS))
    await (await connect(a)).say(thread, json.dumps([[["slow", {"seconds": 1, "label": "x"}]]]))
    asleep, awake = await driver_of(journal, "slow", a, b)
    asleep.signal(signal.SIGSTOP)
    client = await connect(awake)
    view = await client.subscribe(thread)
    await client.until(lambda: view.idle and view.tools, "the other instance finishes", deadline=20)
    assert view.tools[0]["attempt"] == 2
    cursor = dict(view.cursor)
    asleep.signal(signal.SIGCONT)
    late = await connect(asleep)
    seen = await late.subscribe(thread)
    async with asyncio.timeout(15):
        while "lease lost" not in asleep.output():
            await asyncio.sleep(0.05)
    assert seen.state == view.state
    assert view.cursor == cursor, "the stale driver wrote something"
    assert sum(event["type"] == "tool-output-available" for event in view.events) == 1
    assert journal.count("slow") == 2


async def test_kill_9_is_taken_over_within_the_lease_and_a_second(connect, server, stack, thread, journal) -> None:  # type: ignore[no-untyped-def]
    a = await stack.enter_async_context(server("a", **SETTINGS))
    b = await stack.enter_async_context(server("b", **SETTINGS))
    one, two = await connect(a), await connect(b)
    view = await two.subscribe(thread)
    await one.say(thread, json.dumps([[["slow", {"seconds": 3600}]]]))
    await two.until(lambda: view.tools and view.tools[0]["state"] == "running", "running")
    victim, _ = await driver_of(journal, "slow", a, b)
    watcher, watch = (two, view) if victim is a else (one, await one.subscribe(thread))
    await victim.kill()
    killed_at = time.monotonic()
    await watcher.until(lambda: watch.tools[0].get("attempt") == 2, "entered again", deadline=20)
    assert time.monotonic() - killed_at <= LEASE / 1000 + 1.5
    await watcher.command("stop", thread=thread)
    await watcher.until(lambda: watch.idle, "idle")
