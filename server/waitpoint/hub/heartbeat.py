"""One ticker for all connections of an instance, and a clock that does not count the time we slept.

Knows time only. If the event loop was blocked, pongs are waiting unread in the sockets: the time in which nobody could
have been heard must not count as silence.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

__all__ = ["Clock", "Heartbeat"]

logger = logging.getLogger(__name__)

LATE = 0.5
"""Seconds by which a tick may be late before the delay is taken out of the clock."""


class Clock:
    """Seconds in which this instance could hear its peers."""

    def __init__(self, source: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._excused = 0.0

    def __call__(self) -> float:
        return self._source() - self._excused

    def excuse(self, seconds: float) -> None:
        """Take a time of deafness out."""
        self._excused += seconds


class Heartbeat:
    """Calls ``tick(now)`` every ``interval`` seconds while it runs."""

    def __init__(self, clock: Clock, tick: Callable[[float], None], *, interval: float = 0.5) -> None:
        self._clock = clock
        self._tick = tick
        self._interval = interval
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="heartbeat")

    async def stop(self) -> None:
        """End."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _run(self) -> None:
        while True:
            before = self._clock()
            await asyncio.sleep(self._interval)
            late = self._clock() - before - self._interval
            if late > LATE:
                logger.warning("the event loop was blocked for %.1f s", late)
                self._clock.excuse(late)
            try:
                self._tick(self._clock())
            except Exception:
                logger.exception("a tick failed")
