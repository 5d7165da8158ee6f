"""From a submit on A to the tool's output at a tab of B: validated, durable, through two real server processes.

The baseline is the least a hand-over between two processes over Redis can cost: a pushed and a popped list item.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import secrets
import statistics
import tempfile
import time
from pathlib import Path

import redis

from support.client import Client
from support.process import ServerProcess
from support.servers import start_server

ROUNDS = 300


def quantiles(samples: list[float]) -> str:
    ordered = sorted(samples)
    return f"p50 {1000 * statistics.median(ordered):6.2f} ms   p99 {1000 * ordered[int(len(ordered) * 0.99)]:6.2f} ms"


def pop_for_ever(url: str) -> None:
    connection = redis.Redis.from_url(url)
    while True:
        _, item = connection.blpop(["bench:there"])  # type: ignore[misc]
        connection.lpush("bench:back", item)


def baseline(url: str) -> list[float]:
    worker = multiprocessing.get_context("spawn").Process(target=pop_for_ever, args=(url,), daemon=True)
    worker.start()
    connection = redis.Redis.from_url(url)
    samples = []
    try:
        for n in range(ROUNDS + 20):
            started = time.perf_counter()
            connection.lpush("bench:there", n)
            connection.blpop(["bench:back"], timeout=10)
            if n >= 20:
                samples.append((time.perf_counter() - started) / 2)
    finally:
        worker.terminate()
        worker.join()
    return samples


async def answers(a: ServerProcess, b: ServerProcess) -> tuple[list[float], list[float]]:
    acks, outputs = [], []
    async with await Client.open(a.url) as one, await Client.open(b.url) as two:
        for n in range(ROUNDS + 20):
            thread = f"bench-{n}-{secrets.token_hex(3)}"
            view = await two.subscribe(thread)
            await two.say(thread, json.dumps([[["approve", {"label": "x"}]]]))
            await two.until(lambda view=view: view.pending and view.state["status"] == "waiting", "waiting")
            action = view.pending[0]["id"]
            started = time.perf_counter()
            await one.submit(thread, action, {"approved": True})
            acked = time.perf_counter()
            await two.until(lambda view=view: view.tools[0]["state"] == "output-available", "the output")
            if n >= 20:
                acks.append(acked - started)
                outputs.append(time.perf_counter() - started)
            await two.until(lambda view=view: view.idle, "idle")
            await two.command("unsubscribe", thread=thread)
    return acks, outputs


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory, start_server("valkey", Path(directory)) as store:
        servers = [
            ServerProcess("support.chats:chat", store.url, Path(directory), name=name, WAITPOINT_RATE="100000")
            for name in ("a", "b")
        ]
        async with servers[0] as a, servers[1] as b:
            acks, outputs = await answers(a, b)
        floor = await asyncio.to_thread(baseline, store.url)
    print(f"bare push and pop, one way           {quantiles(floor)}")
    print(f"submit -> ack on A                   {quantiles(acks)}")
    print(f"submit on A -> tool output at B's tab {quantiles(outputs)}")
    print(f"ratio of medians to the baseline: ack {statistics.median(acks) / statistics.median(floor):.1f}, ", end="")
    print(f"output {statistics.median(outputs) / statistics.median(floor):.1f}")


if __name__ == "__main__":
    asyncio.run(main())
