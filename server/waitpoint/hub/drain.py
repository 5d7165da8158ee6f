"""How an instance empties itself of connections. Knows sockets as things that can be asked to go; no ASGI, no signals.

First a goodbye with a window, over which clients leave by themselves (and spread over the other instances); then the
rest is closed in batches, each once its commands in flight are answered; at the deadline whoever is left is cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from waitpoint_protocol.codes import Close

from .socket import Socket

__all__ = ["drain"]

BATCH = 50
PAUSE = 0.02
"""Connections closed at once, and seconds between two batches: a crowd sent away at once comes back at once."""

LOOK = 0.02


async def drain(sockets: Collection[Socket], *, window: float, deadline: float) -> None:
    """Empty ``sockets`` (a live view) within ``deadline`` seconds, of which clients get ``window`` to leave."""
    loop = asyncio.get_running_loop()
    end = loop.time() + deadline
    leave_by = min(loop.time() + window, end)
    for socket in tuple(sockets):
        socket.execute(socket.session.goodbye("draining", window))
    await _until(lambda: not sockets, leave_by)
    rest = tuple(sockets)
    for start in range(0, len(rest), BATCH):
        batch = rest[start : start + BATCH]
        await _answered(batch, end)
        for socket in batch:
            socket.execute(socket.session.close(Close.DRAINING, "draining"))
        await asyncio.sleep(min(PAUSE, max(0.0, end - loop.time())))
    await _until(lambda: not sockets, end)
    for socket in tuple(sockets):
        socket.abort()


async def _answered(batch: Collection[Socket], end: float) -> None:
    for socket in batch:
        socket.session.leaving()  # or a busy client would never run out of commands in flight
    await _until(lambda: all(socket.session.in_flight == 0 for socket in batch), end)


async def _until(condition: Callable[[], bool], end: float) -> None:
    loop = asyncio.get_running_loop()
    while not condition() and loop.time() < end:
        await asyncio.sleep(min(LOOK, max(0.0, end - loop.time())))
