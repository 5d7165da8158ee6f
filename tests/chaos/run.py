"""A chaos run: servers, store, people and faults together for a while; then rest, and everything that was seen.

Knows processes, clients and time. What is right and wrong is for the checker.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from support.client import Client
from support.process import ServerProcess
from support.proxy import CutProxy, cut_proxy
from support.servers import Kind, start_server

from .faults import Faults
from .history import History, Observer
from .person import Person
from .tab import Tab

__all__ = ["LEASE", "run"]

INSTANCES = 3
LEASE = 1.5
"""Seconds; short, so that a run of a minute sees many takeovers."""

REST_WITHIN = 30.0
"""Seconds after the last fault in which every thread must have come to idle or waiting."""


async def run(
    directory: Path,
    *,
    seed: int,
    seconds: float,
    threads: int,
    kind: Kind = "valkey",
    every: float = 1.2,
    say: Callable[[str], None] = lambda text: None,
) -> History:
    """Let it rain for ``seconds``, then settle and return the history. ``say`` is told how far it is."""
    history = History(seed)
    journal = directory / "journal.jsonl"
    async with AsyncExitStack() as stack:
        store = stack.enter_context(start_server(kind, directory / "store"))
        proxies = [await stack.enter_async_context(cut_proxy(store.port)) for _ in range(INSTANCES)]
        servers = [_server(directory, proxy, journal, n) for n, proxy in enumerate(proxies)]
        for server in servers:
            stack.push_async_callback(_end, server)
        await asyncio.gather(*(server.start() for server in servers))
        pids = _Pids(servers)
        stack.push_async_callback(pids.stop)
        names = [f"t{n}" for n in range(threads)]
        urls = [server.url for server in servers]
        people = [Person(name, urls, history, f"{seed} {name}") for name in names]
        watchers = [Tab(f"{name} watcher", name, urls, history, f"{seed} {name} watcher") for name in names]
        history.started = time.time()
        lives = [asyncio.create_task(person.live(), name=f"person on {person.thread}") for person in people]
        faults = Faults(servers, proxies, store, history, lease=LEASE, threads=names, every=every)
        faults.start()
        await _watch(lives, seconds)
        say(f"{len(history.faults)} faults; healing the last ones")
        await faults.stop()
        history.ended = time.time()
        for person in people:
            person.rest()
        for watcher in watchers:
            watcher.settle()
        say("waiting for every command's reply")
        await asyncio.gather(*lives)
        say("waiting for every thread to come to rest")
        await _come_to_rest(history, people, servers[0].url)
        say("waiting for every client to be where a fresh one is")
        await _converge(history, [*(person.tab for person in people), *watchers])
        for person in people:
            await person.close()
        _look_into_store(history, store.client())
        history.journal = [
            {**line, "instance": pids.instance.get(line["pid"])}
            for line in map(json.loads, journal.read_text().splitlines())
        ]
        history.tracebacks = [text for server in servers for text in _tracebacks(server.log)]
    return history


def _server(directory: Path, proxy: CutProxy, journal: Path, number: int) -> ServerProcess:
    return ServerProcess(
        "chaos.chat:chat",
        proxy.url,
        directory,
        name=str(number),
        WAITPOINT_LEASE=str(int(LEASE * 1000)),
        WAITPOINT_RATE="100000",
        WAITPOINT_LOOK="250",
        WAITPOINT_DRAIN_WINDOW="300",
        WAITPOINT_GRACE="6000",
        WAITPOINT_STORE_WAIT="10000",
        WAITPOINT_TEST_JOURNAL=str(journal),
    )


async def _end(server: ServerProcess) -> None:
    if server.returncode is None:
        await server.kill()


async def _watch(lives: list[asyncio.Task[None]], seconds: float) -> None:
    """Let people live for a while; one that fails ends the run at once."""
    await asyncio.wait(lives, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for life in lives:
        if life.done():
            life.result()


class _Pids:
    """Which process belonged to which instance, however often it was started anew."""

    def __init__(self, servers: list[ServerProcess]) -> None:
        self.instance: dict[int, int] = {}
        self._servers = servers
        self._task = asyncio.create_task(self._watch(), name="pids")

    async def _watch(self) -> None:
        while True:
            for number, server in enumerate(self._servers):
                self.instance[server.pid] = number
            await asyncio.sleep(0.05)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


# --- rest


async def _come_to_rest(history: History, people: list[Person], url: str) -> None:
    """Idle or waiting first; then every open wait is answered or stopped, and all must be idle."""
    judge = await Client.open(url)
    try:
        for person in people:
            await judge.subscribe(person.thread)
        await _until(
            history,
            lambda: [
                person.thread
                for person in people
                if judge.views[person.thread].state["status"] not in ("idle", "waiting")
            ],
            "neither idle nor waiting",
        )
        for number, person in enumerate(people):
            for action in judge.views[person.thread].pending:
                await (person.stop() if number % 3 == 0 else person.answer(action["id"]))
        deadline = time.monotonic() + REST_WITHIN
        while time.monotonic() < deadline and not all(judge.views[person.thread].idle for person in people):
            for person in people:
                view = judge.views[person.thread]
                if view.state["status"] == "waiting":  # it asked again
                    await person.stop()
            await asyncio.sleep(0.2)
    finally:
        await judge.close()
    fresh = await Client.open(url)
    try:
        for person in people:
            view = await fresh.subscribe(person.thread)
            history.finals[person.thread] = Observer("fresh", person.thread, dict(view.cursor), dict(view.state), [])
            history.messages[person.thread] = await _all_messages(fresh, person.thread)
    finally:
        await fresh.close()


async def _all_messages(client: Client, thread: str) -> list[dict[str, Any]]:
    state = client.views[thread].state
    messages: list[dict[str, Any]] = list(state["messages"])  # type: ignore[arg-type]
    before = state["before"]
    while before:
        page = (await client.command("history", thread=thread, before=before, limit=100))["page"]
        messages = [*page["messages"], *messages]
        before = page["before"]
    return messages


async def _until(history: History, left: Any, what: str) -> None:
    deadline = time.monotonic() + REST_WITHIN
    while still := left():
        if time.monotonic() > deadline:
            history.complaints.append(f"{REST_WITHIN:g} s after the last fault these are {what}: {', '.join(still)}")
            return
        await asyncio.sleep(0.1)


async def _converge(history: History, tabs: list[Tab]) -> None:
    """Every tab that stayed must be where a fresh one is."""
    await _until(
        history,
        lambda: [tab.name for tab in tabs if tab.view.cursor != history.finals[tab.thread].cursor],
        "not where a fresh client is",
    )
    history.observers = [await tab.stop() for tab in tabs]


def _look_into_store(history: History, client: Any) -> None:
    """Leases, appointments and the pending index must be empty within a lease of the end."""
    deadline = time.monotonic() + 2 * LEASE
    while True:
        left: list[str] = []
        for key in client.scan_iter("wp:{*}:due"):
            left += [f"{name.decode()}: still has an appointment" for name in client.zrange(key, 0, -1)]
        for key in client.scan_iter("wp:{*}:pending"):
            left += [f"{name.decode()}: still in the index of pending actions" for name in client.hkeys(key)]
        for key in client.scan_iter("wp:{*}:t:*"):
            if client.hget(key, "owner"):
                left.append(f"{key.decode()}: still has a lease")
        if not left or time.monotonic() > deadline:
            history.leftovers = left
            client.close()
            return
        time.sleep(0.1)


def _tracebacks(log: Path) -> list[str]:
    """Exceptions in a log, each with the line before it; of many alike, one is enough."""
    lines = log.read_text(errors="replace").splitlines()
    found: dict[str, str] = {}
    for number, line in enumerate(lines):
        if line.startswith("Traceback (most recent call last)"):
            end = number + 1
            while end < len(lines) and lines[end].startswith(" "):
                end += 1
            raised = lines[end] if end < len(lines) else ""
            found.setdefault(raised.partition(":")[0], "\n".join(lines[max(0, number - 1) : end + 1]))
    return list(found.values())
