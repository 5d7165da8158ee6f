"""Trouble between servers and store: lost replies, lost scripts, lost hints, delays, pauses, restarts, a full store.

Each test has a store of its own, which the servers reach through proxies. Cases 9, 18, 23, 48, 75, 78 of the house.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import re
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.client import Client, Refusal
from support.rig import Rig, cut_replies, eventually, rig
from system.conftest import Journal
from system.test_answers import ask, outcome
from waitpoint.store.keys import Keys
from waitpoint.store.scripts import script

STORY = json.dumps([{"words": 60, "delay": 0.002}])
WHOLE = "".join(f"word{n} " for n in range(60))


@pytest.fixture
async def world(tmp_path: Path, journal: Journal) -> AsyncIterator[Rig]:
    async with rig(tmp_path, WAITPOINT_TEST_JOURNAL=str(journal.path)) as made:
        yield made
        made.no_exceptions()


async def insist(client: Client, thread: str, action: str, data: object, id: str) -> dict[str, object]:
    """Submit until the store takes it."""
    for _ in range(100):
        result = await outcome(client.submit(thread, action, data, id=id))
        if not isinstance(result, Refusal):
            return dict(result)
        assert result.code == "unavailable", result
        await asyncio.sleep(0.1)
    raise AssertionError("the store never took the answer")


async def test_a_submit_whose_reply_from_the_store_is_cut_is_acknowledged_and_counts_once(
    world: Rig, journal: Journal
) -> None:
    a, b = await world.instance("a"), await world.instance("b")
    one, two = await world.client(a), await world.client(b)
    rounds = 200
    seen: set[bytes] = set()

    def first_commit_of_an_answer(chunk: bytes) -> bool:
        fresh = {found for found in re.findall(rb'"comment":"(cut\d+)"', chunk) if found not in seen}
        seen.update(fresh)
        return bool(fresh)

    cut = cut_replies(a.proxy, "commit", b"committed", when=first_commit_of_an_answer)
    for n in range(rounds):
        thread = f"cut-{n}"
        view = await two.subscribe(thread)
        (action,) = await ask(two, thread)
        ack = await one.submit(thread, action, {"approved": True, "comment": f"cut{n}"}, id=f"click-{n}")
        # The first reply to this id that anybody ever gets: no repeat, and certainly no "somebody else was first".
        assert ack["type"] == "ack"
        assert "dup" not in ack
        await two.until(lambda view=view: view.idle, "idle")
        assert [event["type"] for event in view.events].count("action-resolved") == 1
        assert view.tools[0]["output"]["comment"] == f"cut{n}"
        await two.command("unsubscribe", thread=thread)
    assert cut.cuts == rounds
    assert journal.count("approved") == rounds


async def test_an_answer_in_one_commit_with_a_cancellation_learns_how_it_ended(world: Rig) -> None:
    a = await world.instance("a")
    one = await world.client(a)
    for n in range(10):
        thread = f"together-{n}"
        view = await one.subscribe(thread)
        (action,) = await ask(one, thread)
        await one.until(lambda view=view: view.state["status"] == "waiting", "waiting")
        # While the first command has the store looked at, the others come to lie in one commit; the cancellation
        # also ends the step, so that the control state after it knows nothing of the action any more.
        a.proxy.down.delay = 0.1
        first, cancelled, late, again = await asyncio.gather(
            outcome(one.submit(thread, action, {"approved": "perhaps"})),
            outcome(one.command("cancel", thread=thread, action=action, reason="no need", id=f"cancel-{n}")),
            outcome(one.submit(thread, action, {"approved": True})),
            outcome(one.command("fail", thread=thread, action=action, error={"message": "cannot"})),
        )
        a.proxy.down.delay = 0.0
        assert first.code in ("invalid", "already-resolved")
        assert cancelled["type"] == "ack"
        for refusal in (late, again):
            assert refusal.code == "already-resolved", refusal
            assert refusal.frame["winner"]["reason"] == "no need"
        await one.until(lambda view=view: view.idle, "idle")
        await one.command("unsubscribe", thread=thread)


async def test_an_answer_behind_a_stop_whose_reply_is_cut_learns_how_it_ended(world: Rig) -> None:
    a, b = await world.instance("a"), await world.instance("b", WAITPOINT_LOOK="100")
    one, two = await world.client(a), await world.client(b)
    for n in range(5):
        thread = f"stopped-{n}"
        view = await two.subscribe(thread)
        (action,) = await ask(one, thread)
        await two.until(lambda view=view: view.state["status"] == "waiting", "waiting")
        cut = cut_replies(a.proxy, "commit", b"committed", when=lambda chunk: b'"closing"' in chunk)
        # While the first command has the store looked at, the two others come to lie in one commit.
        a.proxy.down.delay = 0.1
        first = asyncio.create_task(outcome(one.submit(thread, action, {"approved": "perhaps"})))
        stop = asyncio.create_task(outcome(one.command("stop", thread=thread)))
        late = asyncio.create_task(outcome(one.submit(thread, action, {"approved": True})))
        await eventually(lambda cut=cut: cut.cuts == 1, "the reply is cut")
        a.proxy.refuse = True  # and before A can look again, the other instance has closed the turn
        a.proxy.cut()
        cut.stop()
        a.proxy.down.delay = 0.0
        await two.until(lambda view=view: view.idle, "idle")
        a.proxy.refuse = False
        # Decided alone or together with the others; after the stop it is no longer asked whether the answer fits.
        assert (await first).code in ("invalid", "already-resolved")
        assert (await stop)["type"] == "ack"
        refusal = await late
        assert refusal.code == "already-resolved", refusal
        assert refusal.frame["winner"]["how"] == "cancelled"
        await one.command("unsubscribe", thread=thread)


async def test_a_claim_whose_reply_is_cut_is_not_left_to_run_out(world: Rig, journal: Journal) -> None:
    a = await world.instance("a")
    one = await world.client(a)
    claims = itertools.count()
    # Every other one: the first of each thread, and not what is asked after it.
    cut = cut_replies(a.proxy, "claim", b"claimed", when=lambda chunk: next(claims) % 2 == 0)
    for n in range(100):
        thread = f"claim-{n}"
        view = await one.subscribe(thread)
        await one.say(thread, "hello")
        # A lease is ten seconds; a claim that nobody knew of would take as long.
        await one.until(lambda view=view: view.idle and view.text, "the reply", deadline=3)
        await one.command("unsubscribe", thread=thread)
    assert cut.cuts >= 100
    assert journal.count("model") == 100


async def test_a_token_batch_whose_reply_is_cut_is_there_once(world: Rig) -> None:
    a, b = await world.instance("a"), await world.instance("b")
    one, two = await world.client(a), await world.client(b)
    chance = random.Random(78)
    cut = cut_replies(
        a.proxy, "commit", b"committed", when=lambda chunk: b"text-delta" in chunk and chance.random() < 0.2
    )
    for n in range(40):
        thread = f"tokens-{n}"
        view = await two.subscribe(thread)
        await one.say(thread, STORY)
        await two.until(lambda view=view: view.idle and view.text, "the story")
        assert view.text == WHOLE
        assert not any(event["type"] == "step-reset" for event in view.events)
        await two.command("unsubscribe", thread=thread)
    assert cut.cuts >= 100


async def test_scripts_that_vanish_in_a_burst_are_sent_again(world: Rig, journal: Journal) -> None:
    a, b = await world.instance("a"), await world.instance("b")
    one, two = await world.client(a), await world.client(b)
    flushes = 0
    over = asyncio.Event()

    async def flush() -> None:
        nonlocal flushes
        client = world.store.client()
        while not over.is_set():
            await asyncio.to_thread(client.script_flush)
            flushes += 1
            await asyncio.sleep(0.002)
        client.close()

    flushing = asyncio.create_task(flush())
    try:
        for n in range(100):
            thread = f"burst-{n}"
            view = await one.subscribe(thread)
            (action,) = await ask(one, thread)
            results = await asyncio.gather(
                outcome(one.submit(thread, action, {"approved": True})),
                outcome(two.submit(thread, action, {"approved": False})),
            )
            assert sorted(getattr(result, "code", "ack") for result in results) == ["ack", "already-resolved"]
            await one.until(lambda view=view: view.idle, "idle")
            await one.command("unsubscribe", thread=thread)
    finally:
        over.set()
        await flushing
    assert journal.count("approved") == 100
    assert flushes > 100


async def test_an_answer_reaches_a_driver_elsewhere_that_is_not_told_of_it(world: Rig, journal: Journal) -> None:
    a = await world.instance("a")
    one = await world.client(a)
    view = await one.subscribe("t")
    (action,) = await ask(one, "t", json.dumps([[["slow", {"seconds": 6}], ["approve", {"label": "x"}]]]))
    driver = journal.entries("slow")[0]["pid"]
    assert driver == a.server.pid
    # From now on nothing that is published reaches A.
    a.proxy.down.tap = lambda chunk: b"" if b"$7\r\nmessage\r\n" in chunk else chunk
    b = await world.instance("b")
    two = await world.client(b)
    await two.submit("t", action, {"approved": True})
    began = time.monotonic()
    await eventually(lambda: journal.count("approved") == 1, "A entered the tool", timeout=5)
    assert time.monotonic() - began < 2.5
    assert journal.entries("approved")[0]["pid"] == driver
    a.proxy.down.tap = None
    await one.until(lambda: view.idle, "A's tab catches up", deadline=15)
    assert journal.count("slow-done") == 1


async def test_a_renewal_that_the_network_swallowed_does_not_cost_the_lease(world: Rig, journal: Journal) -> None:
    a = await world.instance("a")
    one = await world.client(a)
    view = await one.subscribe("t")
    swallowed = 0

    def swallow(chunk: bytes) -> bytes:
        nonlocal swallowed
        if not swallowed and script("renew").sha.encode() in chunk:
            swallowed += 1
            return b""
        return chunk

    a.proxy.up.tap = swallow
    await one.say("t", json.dumps([[["slow", {"seconds": 13, "label": "x"}]]]))
    await one.until(lambda: view.idle and view.tools, "idle", deadline=40)
    assert swallowed == 1
    assert view.tools[0]["output"] == "slept x"
    assert [entry["attempt"] for entry in journal.entries("slow")] == [1]


async def test_a_driver_that_sleeps_between_the_start_and_the_tool_does_not_enter_it_when_it_wakes(
    world: Rig, journal: Journal
) -> None:
    a = await world.instance("a", WAITPOINT_LEASE="1500")
    one = await world.client(a)

    def put_to_sleep(chunk: bytes) -> bytes:
        if b'"tool-running"' in chunk:
            a.server.signal(signal.SIGSTOP)  # the start is stored, and its driver does not hear of it
        return chunk

    a.proxy.up.tap = put_to_sleep
    await one.say("t", json.dumps([[["slow", {"seconds": 2, "label": "x"}]]]))
    b = await world.instance("b", WAITPOINT_LEASE="1500")
    two = await world.client(b)
    view = await two.subscribe("t")
    await eventually(lambda: journal.count("slow") == 1, "B enters the tool")
    a.proxy.up.tap = None
    a.server.signal(signal.SIGCONT)
    await two.until(lambda: view.idle and view.tools, "idle")
    assert [(entry["pid"], entry["attempt"]) for entry in journal.entries("slow")] == [(b.server.pid, 2)]
    assert view.tools[0]["output"] == "slept x"


async def test_a_store_300_ms_away_costs_time_and_nothing_else(world: Rig, journal: Journal) -> None:
    a, b = await world.instance("a"), await world.instance("b")
    for instance in (a, b):
        instance.proxy.down.delay = 0.3
    one, two = await world.client(a), await world.client(b)

    async def talk(n: int) -> None:
        thread = f"far-{n}"
        view = await one.subscribe(thread)
        await one.say(thread, json.dumps([[["approve", {"label": "x"}], ["slow", {"seconds": 1}]], {"words": 20}]))
        await one.until(lambda: view.pending, "the question", deadline=30)
        # Answered the instant it is heard of, on the other instance.
        await two.submit(thread, view.pending[0]["id"], {"approved": True})
        await one.until(lambda: view.idle, "idle", deadline=30)
        assert view.tools[0]["state"] == view.tools[1]["state"] == "output-available"

    await asyncio.gather(*(talk(n) for n in range(8)))
    assert journal.count("approved") == 8
    assert {entry["attempt"] for entry in journal.entries("slow")} == {1}


@pytest.mark.timeout(180)
async def test_a_store_that_pauses_for_20_s_comes_back_to_a_house_that_waited(world: Rig, journal: Journal) -> None:
    a, b = await world.instance("a"), await world.instance("b")
    one, two = await world.client(a), await world.client(b)
    waiting = await one.subscribe("waits")
    (action,) = await ask(one, "waits")
    running = await two.subscribe("runs")
    await two.say("runs", json.dumps([[["slow", {"seconds": 3}]]]))
    await two.until(lambda: running.tools and running.tools[0]["state"] == "running", "running")
    world.store.freeze()
    paused = time.monotonic()
    refusal = await outcome(one.submit("waits", action, {"approved": True}, id="once"))
    assert isinstance(refusal, Refusal)
    assert refusal.code == "unavailable"
    assert time.monotonic() - paused < 8, "silence is never an answer"
    await asyncio.sleep(20 - (time.monotonic() - paused))  # the length of the pause is the case itself
    world.store.thaw()
    await insist(one, "waits", action, {"approved": True}, "once")
    await one.until(lambda: waiting.idle, "the wait ends")
    # The lease ran out during the pause, so the tool was left and is entered again.
    await two.until(lambda: running.idle, "the run ends", deadline=30)
    assert running.tools[0]["output"] == "slept "
    assert journal.count("approved") == 1
    assert one.closed is None
    assert two.closed is None


@pytest.mark.timeout(180)
async def test_ten_restarts_of_the_store_lose_nothing_and_leave_nothing_behind(world: Rig, journal: Journal) -> None:
    a, b = await world.instance("a"), await world.instance("b")
    one, two = await world.client(a), await world.client(b)

    def descriptors() -> int:
        return sum(len(os.listdir(f"/proc/{instance.server.pid}/fd")) for instance in (a, b))

    def connections() -> int:
        return len(world.store.run("CLIENT", "LIST"))

    (warm,) = await ask(one, "warm")
    await two.submit("warm", warm, {"approved": True})
    await one.until(lambda: one.views["warm"].idle, "idle")
    held, connected = descriptors(), a.proxy.open + b.proxy.open
    for n in range(10):
        thread = f"restart-{n}"
        view = await one.subscribe(thread)
        (action,) = await ask(one, thread)
        await asyncio.to_thread(world.store.restart)
        began = time.monotonic()
        await insist(two, thread, action, {"approved": True}, f"click-{n}")
        assert time.monotonic() - began < 3
        await one.until(lambda view=view: view.idle, "idle")
        await one.command("unsubscribe", thread=thread)
    assert journal.count("approved") == 11
    assert journal.count("asked") == 11
    await eventually(lambda: a.proxy.open + b.proxy.open <= connected, "connections at baseline")
    await eventually(lambda: descriptors() <= held + 2, "descriptors at baseline")
    assert connections() > 0


async def test_a_full_store_refuses_by_name_writes_nothing_half_and_goes_on_when_there_is_room(
    world: Rig, journal: Journal
) -> None:
    a, b = await world.instance("a"), await world.instance("b")
    one, two = await world.client(a), await world.client(b)
    actions = {}
    for n in range(10):
        (actions[f"full-{n}"],) = await ask(one, f"full-{n}")
    await asyncio.gather(
        *(one.until(lambda t=thread: one.views[t].state["status"] == "waiting", "waiting") for thread in actions)
    )

    def stored() -> dict[bytes, bytes]:
        client = world.store.client()
        try:
            return {key: client.dump(key) for key in sorted(client.scan_iter("wp:*:*"))}
        finally:
            client.close()

    before = stored()
    world.store.run("CONFIG", "SET", "maxmemory", "1mb")
    for n in range(3):
        for thread, action in actions.items():
            refusal = await outcome((one, two)[n % 2].submit(thread, action, {"approved": True}, id=f"click-{thread}"))
            assert isinstance(refusal, Refusal)
            assert refusal.code == "unavailable"
    refusal = await outcome(one.command("message", thread="new", parts=[{"type": "text", "text": "hello"}]))
    assert isinstance(refusal, Refusal)
    assert refusal.code == "unavailable"
    assert stored() == before
    # Reading still works.
    assert (await (await world.client(b)).subscribe("full-0")).pending[0]["id"] == actions["full-0"]
    world.store.run("CONFIG", "SET", "maxmemory", "0")
    for thread, action in actions.items():
        await insist(two, thread, action, {"approved": True}, f"click-{thread}")
        await one.until(lambda t=thread: one.views[t].idle, "idle")
    assert journal.count("approved") == len(actions)


async def test_a_store_that_fills_up_while_a_tool_runs_ends_no_thread(world: Rig, journal: Journal) -> None:
    a = await world.instance("a", WAITPOINT_LEASE="1500")
    one = await world.client(a)
    view = await one.subscribe("t")
    await one.say("t", json.dumps([[["slow", {"seconds": 1, "label": "x"}]], {"words": 30, "delay": 0.01}]))
    await one.until(lambda: view.tools and view.tools[0]["state"] == "running", "running")
    world.store.run("CONFIG", "SET", "maxmemory", "1mb")
    await asyncio.sleep(3)  # longer than the lease: its holder must give up
    world.store.run("CONFIG", "SET", "maxmemory", "0")
    await one.until(lambda: view.idle, "idle", deadline=20)
    assert view.tools[0]["output"] == "slept x"
    assert view.text == "".join(f"word{n} " for n in range(30))


async def test_a_deadline_that_passed_while_everything_was_down_fires_once(tmp_path: Path) -> None:
    async with rig(tmp_path, chat="chaos.chat:chat") as world:
        a, b = await world.instance("a"), await world.instance("b")
        one = await world.client(a)
        threads = [f"late-{n}" for n in range(20)]
        for thread in threads:
            await one.subscribe(thread)
            script = {"nonce": thread, "steps": [[["ask_soon", {"label": "x"}]]]}
            await one.command("message", thread=thread, parts=[{"type": "text", "text": json.dumps(script)}])
        await asyncio.gather(*(one.until(lambda t=t: one.views[t].pending, "the question") for t in threads))
        actions = {thread: one.views[thread].pending[0]["id"] for thread in threads}
        await asyncio.gather(a.server.kill(), b.server.kill())
        world.store.kill()
        await asyncio.sleep(2)  # the deadlines (1.5 s) pass while nobody is there
        world.store.start()
        await asyncio.gather(a.server.start(), b.server.start())
        two = await world.client(b)
        for thread in threads:
            view = await two.subscribe(thread)
            await two.until(lambda view=view: view.idle, "idle")
            (record,) = view.tools[0]["actions"]
            assert record["resolution"]["how"] == "expired"
            assert record["resolution"]["by"]["kind"] == "system"
            late = await outcome(two.submit(thread, actions[thread], {"nonce": "late"}))
            assert isinstance(late, Refusal)
            assert late.code == "expired"
            log = world.store.client().xrange(Keys().of(thread).log)
            assert sum(entry[b"body"].count(b'"action-resolved"') for _, entry in log) == 1
        world.no_exceptions()
