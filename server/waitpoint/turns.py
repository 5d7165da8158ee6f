"""First come, first served: whoever asks for a turn waits for those who asked before. Knows futures only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

__all__ = ["Turns"]


class Turns:
    """Turns by key. A key that nobody uses costs nothing."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[Hashable, asyncio.Future[None]] = {}

    def __len__(self) -> int:
        return len(self._last)

    @asynccontextmanager
    async def of(self, key: Hashable) -> AsyncIterator[None]:
        """Hold the turn. What runs right after the block, without awaiting, still runs before the next one's turn."""
        before = self._last.get(key)
        mine = self._last[key] = asyncio.get_running_loop().create_future()
        try:
            if before is not None:
                await asyncio.wait([before])
            yield
        finally:
            if before is None or before.done():
                mine.set_result(None)
            else:  # given up while waiting: those behind us wait for the one before us
                before.add_done_callback(lambda _: mine.set_result(None))
            if self._last.get(key) is mine and mine.done():
                del self._last[key]
