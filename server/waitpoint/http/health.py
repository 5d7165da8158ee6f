"""Is this process alive, and should it get traffic? Knows three questions and how to spell their answers.

``/healthz``: the store answers and live events arrive. A draining process is still healthy: a supervisor that killed
it would cut short what drains. ``/readyz``: healthy, and not draining.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

__all__ = ["Process", "health_routes"]

PROBE_TIMEOUT = 2.0
"""Seconds in which the store must answer; probes of load balancers rarely wait longer."""

PROBE_THREAD = "healthz"


class _Store(Protocol):
    async def head(self, thread: str) -> Any: ...


class _Follower(Protocol):
    @property
    def healthy(self) -> bool: ...


class _Hub(Protocol):
    draining: bool


class Process(Protocol):
    """What is asked: does the store answer, do live events arrive, is it about to stop."""

    @property
    def store(self) -> _Store: ...
    @property
    def follower(self) -> _Follower: ...
    @property
    def hub(self) -> _Hub: ...


def health_routes(process: Process) -> list[Route]:
    """Routes for ``/healthz`` and ``/readyz``."""

    async def probe() -> tuple[bool, dict[str, object]]:
        try:
            async with asyncio.timeout(PROBE_TIMEOUT):
                await process.store.head(PROBE_THREAD)
            store = True
        except Exception:
            store = False
        follower = process.follower.healthy
        return store and follower, {"store": store, "follower": follower, "draining": process.hub.draining}

    async def healthz(request: Request) -> JSONResponse:
        good, body = await probe()
        return _answer(good, body)

    async def readyz(request: Request) -> JSONResponse:
        good, body = await probe()
        return _answer(good and not process.hub.draining, body)

    return [Route("/healthz", healthz), Route("/readyz", readyz)]


def _answer(good: bool, body: dict[str, object]) -> JSONResponse:
    return JSONResponse({"ok": good, **body}, 200 if good else 503, headers={"cache-control": "no-store"})
