"""A store that forgets what it had acknowledged: failover to a replica that was behind, an older copy, FLUSHALL.

Nothing is pretended: clients are told, a wait may reopen, and what is decided is decided on what is there. Cases 42,
58, 59 of the house.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.client import Client, Refusal
from support.copies import copy_of
from support.proxy import cut_proxy
from support.rig import Instance, Rig, eventually, rig
from support.servers import Kind, RedisServer, start_server
from system.conftest import Journal
from system.test_answers import ask, outcome
from waitpoint.store.keys import Keys

TWICE = json.dumps([[["approve", {"label": "v1"}]], [["approve", {"label": "v2"}]]])


@pytest.fixture
async def world(tmp_path: Path, journal: Journal) -> AsyncIterator[Rig]:
    async with rig(tmp_path, WAITPOINT_TEST_JOURNAL=str(journal.path)) as made:
        yield made
        made.no_exceptions()


def same(view: Any, fresh: Any) -> None:
    assert view.cursor == fresh.cursor
    assert view.state == fresh.state


# --- FLUSHALL


async def test_flushed_store_means_log_lost_a_snapshot_and_a_new_start(world: Rig, journal: Journal) -> None:
    a, b = await world.instance("a"), await world.instance("b")
    one, two = await world.client(a), await world.client(b)
    idle, waits, runs = [await one.subscribe(thread) for thread in ("idle", "waits", "runs")]
    await one.say("idle", "hello")
    await one.until(lambda: idle.idle and idle.text, "a reply")
    (action,) = await ask(one, "waits")
    await two.say("runs", json.dumps([[["slow", {"seconds": 3}]]]))
    await one.until(lambda: runs.tools and runs.tools[0]["state"] == "running", "running")
    away = await two.subscribe("idle")
    assert away.cursor == idle.cursor
    await two.cut()
    world.store.run("FLUSHALL")
    for view in (idle, waits, runs):
        await one.until(lambda view=view: view.resets == ["log-lost"] and view.live, "told that the log is lost")
        assert view.state["messages"] == []
        assert view.idle
    refusal = await outcome(one.submit("waits", action, {"approved": True}))
    assert isinstance(refusal, Refusal)
    assert refusal.code == "unknown-action"
    # All of it can be used again, from both instances, and the one that was away is told when it comes back.
    await one.say("idle", "again")
    await one.until(lambda: idle.idle and "again" in idle.text, "a reply in the new log")
    back = await world.client(b)
    resumed = await back.resume("idle", two)
    assert resumed.resets == ["log-lost"]
    await back.until(lambda: resumed.idle, "idle")
    same(resumed, idle)
    (action,) = await ask(back, "waits")
    await one.submit("waits", action, {"approved": True})
    await one.until(lambda: waits.idle, "idle")
    await eventually(lambda: journal.count("approved") == 1, "the tool is entered")
    # The driver has stopped its tool: it never came to its end, and nothing of it came back.
    await asyncio.sleep(3)
    assert journal.count("slow-done") == 0
    assert runs.state["messages"] == []
    assert world.store.run("EXISTS", Keys().of("runs").thread) == 0


# --- an older copy


@pytest.mark.parametrize("kind", ["valkey", "redis7"])
async def test_an_answer_decided_on_a_lost_history_lands_nowhere(tmp_path: Path, journal: Journal, kind: Kind) -> None:
    async with rig(tmp_path, kind=kind, WAITPOINT_TEST_JOURNAL=str(journal.path)) as world:
        a, b = await world.instance("a"), await world.instance("b")
        one, two = await world.client(a), await world.client(b)
        view, other = await one.subscribe("t"), await two.subscribe("t")
        (first,) = await ask(one, "t", TWICE)
        await one.until(lambda: view.state["status"] == "waiting", "waiting")
        older = copy_of(world.store)
        await one.submit("t", first, {"approved": True, "comment": "lost"})
        await one.until(lambda: view.pending and view.pending[0]["id"] != first, "the second question")
        await one.until(lambda: view.state["status"] == "waiting", "waiting")
        (ghost,) = [action["id"] for action in view.pending]
        lost = dict(view.cursor)
        older.put_back(world.store)
        # The same steps through the other instance: the same positions and revisions, another history.
        await two.submit("t", first, {"approved": True, "comment": "kept"})
        await two.until(lambda: other.pending and other.pending[0]["id"] not in (first, ghost), "another question")
        await two.until(lambda: other.state["status"] == "waiting", "waiting")
        (asked,) = [action["id"] for action in other.pending]
        assert other.cursor["seq"] == lost["seq"]
        refusal = await outcome(one.submit("t", ghost, {"approved": True}))
        assert isinstance(refusal, Refusal), "an answer to a question that is not there was accepted"
        assert refusal.code == "unknown-action"
        for client, seen in ((one, view), (two, other)):
            await client.until(lambda seen=seen: seen.pending and seen.pending[0]["id"] == asked, "the true question")
            assert "forked" in seen.resets
        await one.submit("t", asked, {"approved": True, "comment": "second"})
        await one.until(lambda: view.idle, "idle")
        await two.until(lambda: other.idle, "idle")
        assert [part["output"]["comment"] for part in view.state["messages"][1]["parts"] if part["type"] == "tool"] == [
            "kept",
            "second",
        ]
        same(view, other)
        world.no_exceptions()


# --- failover


class Pair:
    """A master and a replica whose link can be frozen, so that what the master acknowledges never arrives."""

    def __init__(self, master: RedisServer, replica: RedisServer, link: Any) -> None:
        self.master = master
        self.replica = replica
        self.link = link

    async def in_step(self) -> None:
        def offset(server: RedisServer) -> int:
            return int(server.client().info("replication")["master_repl_offset"])

        await eventually(
            lambda: self.replica.client().info("replication").get("master_link_status") == "up", "the link is up"
        )
        await eventually(lambda: offset(self.master) == offset(self.replica), "the replica is in step")

    def fall_behind(self) -> None:
        self.link.down.freeze()

    def fail_over(self, instances: list[Instance]) -> None:
        """The master dies, the replica is promoted, and the name leads to it."""
        self.master.kill()
        self.replica.run("REPLICAOF", "NO", "ONE")
        for instance in instances:
            instance.proxy.target = ("127.0.0.1", self.replica.port)
            instance.proxy.cut()


@pytest.fixture
async def pair(world: Rig, tmp_path: Path) -> AsyncIterator[Pair]:
    with start_server("valkey", tmp_path / "replica") as replica:
        async with cut_proxy(world.store.port) as link:
            replica.run("REPLICAOF", "127.0.0.1", link.port)
            made = Pair(world.store, replica, link)
            await made.in_step()
            yield made


async def test_failover_that_loses_an_answer_reopens_the_wait_and_tells_everybody(
    world: Rig, pair: Pair, journal: Journal
) -> None:
    a, b = await world.instance("a"), await world.instance("b")
    stays, leaves = await world.client(a), await world.client(b)
    view = await stays.subscribe("t")
    (action,) = await ask(stays, "t")
    await stays.until(lambda: view.state["status"] == "waiting", "waiting")
    await pair.in_step()
    pair.fall_behind()
    ack = await stays.submit("t", action, {"approved": True, "comment": "lost"}, id="lost")
    assert ack["type"] == "ack"
    await stays.until(lambda: view.idle, "idle")
    gone = await leaves.subscribe("t")
    assert gone.cursor == view.cursor
    await leaves.cut()
    pair.fail_over([a, b])
    # Other events take the numbers of the lost ones.
    third = await world.client(b)
    seen = await third.subscribe("t")
    await third.until(lambda: [pending["id"] for pending in seen.pending] == [action], "the wait is open again")
    await _insist(third, "t", action, {"approved": False, "comment": "kept"})
    await third.until(lambda: seen.idle, "idle", deadline=20)
    back = await world.client(a)
    resumed = await back.resume("t", leaves)
    await back.until(lambda: resumed.idle, "idle")
    await stays.until(lambda: view.idle and view.cursor == seen.cursor, "the one that stayed is told")
    assert resumed.resets == ["forked"]
    assert view.resets == ["forked"]
    same(view, seen)
    same(resumed, seen)
    assert view.tools[0]["output"]["comment"] == "kept"
    # The lost answer's repeat is not taken for what it once was.
    refusal = await outcome(back.submit("t", action, {"approved": True, "comment": "lost"}, id="lost"))
    assert isinstance(refusal, Refusal)
    assert refusal.code == "already-resolved"
    # Both bodies have run: of what the store forgot, the tool had been told. Nobody can claim otherwise.
    assert sorted(entry["data"]["comment"] for entry in journal.entries("approved")) == ["kept", "lost"]


async def test_failover_in_the_middle_of_streams_ends_with_every_text_whole(world: Rig, pair: Pair) -> None:
    a, b = await world.instance("a", WAITPOINT_LEASE="1500"), await world.instance("b", WAITPOINT_LEASE="1500")
    one, two = await world.client(a), await world.client(b)
    threads = [f"s{n}" for n in range(6)]
    views = [(client, await client.subscribe(thread)) for thread in threads for client in (one, two)]
    for thread in threads:
        await one.say(thread, json.dumps([{"words": 150, "delay": 0.02}]))
    await asyncio.gather(*(client.until(lambda v=view: "word5 " in v.text, "some text") for client, view in views))
    pair.fall_behind()
    await asyncio.gather(*(client.until(lambda v=view: "word40 " in v.text, "more text") for client, view in views))
    pair.fail_over([a, b])
    await asyncio.gather(*(client.until(lambda v=view: v.idle, "idle", deadline=30) for client, view in views))
    whole = "".join(f"word{n} " for n in range(150))
    fresh = await world.client(b)
    for thread in threads:
        truth = await fresh.subscribe(thread)
        assert truth.text == whole
        for client, view in views:
            if view.state["thread"] == thread:
                await client.until(lambda v=view, t=truth: v.cursor == t.cursor, "the same place")
                same(view, truth)


async def _insist(client: Client, thread: str, action: str, data: object) -> None:
    for n in range(100):
        result = await outcome(client.submit(thread, action, data, id=f"insist-{thread}"))
        if not isinstance(result, Refusal):
            return
        assert result.code == "unavailable", (n, result)
        await asyncio.sleep(0.1)
    raise AssertionError("never accepted")
