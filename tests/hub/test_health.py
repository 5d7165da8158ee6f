"""Health is what the store and the follower say; a draining process is healthy but not ready."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette

from support.house import House, house
from support.servers import start_server
from waitpoint.http import health_routes


async def ask(home: House, path: str) -> tuple[int, dict[str, Any]]:
    app = Starlette(routes=health_routes(home))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as http:
        reply = await http.get(path)
    return reply.status_code, reply.json()


async def until_healthy(home: House) -> None:
    async with asyncio.timeout(10):
        while (await ask(home, "/healthz"))[0] != 200:
            await asyncio.sleep(0.02)


async def test_a_working_instance_is_healthy_and_ready(home: House) -> None:
    await until_healthy(home)
    assert await ask(home, "/readyz") == (
        200,
        {"ok": True, "store": True, "follower": True, "draining": False},
    )


async def test_a_draining_instance_is_healthy_and_not_ready(home: House) -> None:
    await until_healthy(home)
    await home.hub.drain(0)
    assert (await ask(home, "/healthz"))[0] == 200
    status, body = await ask(home, "/readyz")
    assert (status, body["ok"], body["draining"]) == (503, False, True)


async def test_an_instance_without_its_store_is_neither_and_recovers(tmp_path: Path, stack: AsyncExitStack) -> None:
    with start_server("valkey", tmp_path) as server:
        home = await stack.enter_async_context(house(server.url))
        await until_healthy(home)
        await asyncio.to_thread(server.stop)
        for path in ("/healthz", "/readyz"):
            status, body = await ask(home, path)
            assert (status, body["store"]) == (503, False)
        await asyncio.to_thread(server.start)
        await until_healthy(home)
