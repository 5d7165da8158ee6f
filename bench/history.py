"""Does cost grow with history? Answering and joining, early and late in the same thread (promise 12)."""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path

from support.client import Client
from support.process import ServerProcess
from support.servers import start_server

FIRST = 60
"""Messages before the early samples: a snapshot shows a page of them, so both times the page is full."""

MESSAGES = 2_000
SAMPLES = 60


async def measure(client: Client, other: Client, thread: str) -> tuple[float, float]:
    view = client.views[thread]
    answered, joined = [], []
    for _ in range(SAMPLES):
        await client.say(thread, json.dumps([[["approve", {"label": "x"}]]]))
        await client.until(lambda: view.pending and view.state["status"] == "waiting", "waiting")
        started = time.perf_counter()
        await other.submit(thread, view.pending[0]["id"], {"approved": True})
        answered.append(time.perf_counter() - started)
        await client.until(lambda: view.idle, "idle")
        started = time.perf_counter()
        await other.subscribe(thread)
        joined.append(time.perf_counter() - started)
        await other.command("unsubscribe", thread=thread)
    return statistics.median(answered), statistics.median(joined)


async def grow(client: Client, thread: str, messages: int) -> None:
    view = client.views[thread]
    while view.state["before"] + len(view.state["messages"]) < messages:
        await client.say(thread, "more")
        await client.until(lambda: view.idle, "idle")


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory, start_server("valkey", Path(directory)) as store:
        async with ServerProcess("support.chats:chat", store.url, Path(directory), WAITPOINT_RATE="100000") as server:
            async with await Client.open(server.url) as client, await Client.open(server.url) as other:
                await client.subscribe("long")
                await grow(client, "long", FIRST)
                early = await measure(client, other, "long")
                await grow(client, "long", MESSAGES)
                late = await measure(client, other, "long")
    for name, first, second in zip(("answer", "join"), early, late, strict=True):
        print(f"{name:7} early {1000 * first:6.2f} ms   late {1000 * second:6.2f} ms   ratio {second / first:.2f}")


if __name__ == "__main__":
    asyncio.run(main())
