"""Is this process alive, and should it get traffic? Knows three questions and how to spell their answers.

``/healthz``: the store answers and live events arrive. A draining process is still healthy: a supervisor that killed
it would cut short what drains. ``/readyz``: healthy, and not draining.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

__all__ = ["health_routes"]

PROBE_TIMEOUT = 2.0
"""Seconds in which the store must answer; probes of load balancers rarely wait longer."""


def health_routes(
    *, store_answers: Callable[[], Awaitable[object]], hears: Callable[[], bool], draining: Callable[[], bool]
) -> list[Route]:
    """Routes for ``/healthz`` and ``/readyz``.

    ``store_answers`` reads something from the store and raises if it cannot; ``hears`` tells whether live events
    arrive; ``draining`` whether the process is about to stop.
    """

    async def probe() -> tuple[bool, dict[str, object]]:
        try:
            async with asyncio.timeout(PROBE_TIMEOUT):
                await store_answers()
            store = True
        except Exception:
            store = False
        follower = hears()
        return store and follower, {"store": store, "follower": follower, "draining": draining()}

    async def healthz(request: Request) -> JSONResponse:
        good, body = await probe()
        return _answer(good, body)

    async def readyz(request: Request) -> JSONResponse:
        good, body = await probe()
        return _answer(good and not draining(), body)

    return [Route("/healthz", healthz), Route("/readyz", readyz)]


def _answer(good: bool, body: dict[str, object]) -> JSONResponse:
    return JSONResponse({"ok": good, **body}, 200 if good else 503, headers={"cache-control": "no-store"})
