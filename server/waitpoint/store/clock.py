"""An estimate of the store's clock between two replies.

Knows two clocks and nothing else. The store's time is the only one that decides anything; this estimate serves where a
round trip would be wasted, and is corrected by every reply that carries a time.
"""

from __future__ import annotations

import time

__all__ = ["StoreClock"]


class StoreClock:
    """Milliseconds since the epoch as the store counts them, never off by more than the last round trip."""

    __slots__ = ("_offset",)

    def __init__(self) -> None:
        self._offset: float | None = None

    def now(self) -> int:
        """The store's time now; this machine's own until the store was heard for the first time."""
        if self._offset is None:
            return int(time.time() * 1000)
        return int(time.monotonic() * 1000 + self._offset)

    def learn(self, store_ms: int, sent: float, received: float) -> None:
        """Take in a time that the store read between two moments of the monotonic clock (in seconds)."""
        # The true offset lies between these two. The half millisecond is what the store cut off.
        low, high = store_ms + 0.5 - received * 1000, store_ms + 0.5 - sent * 1000
        if self._offset is None:
            self._offset = (low + high) / 2
        else:
            self._offset = min(max(self._offset, low), high)
