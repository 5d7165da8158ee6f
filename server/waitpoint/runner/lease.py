"""Keeping leases: renews what this instance holds, and says in time when one is lost.

Knows fences and times; has no idea what a driver does. A lease that could not be renewed until shortly before its end
counts as lost, so that a driver stops before another one may start.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from ..store.types import Store, StoreUnavailable, UnknownOutcome

__all__ = ["Lease", "LeaseKeeper"]

logger = logging.getLogger(__name__)

SAFETY = 0.2
"""Fraction of the lease, at its end, in which its holder no longer trusts it (2 s of 10 s)."""


@dataclass(slots=True)
class Lease:
    """A held lease. ``until`` is on this process's monotonic clock, in seconds."""

    thread: str
    fence: int
    until: float
    on_lost: Callable[[], None]
    lost: bool = False

    def alive(self) -> bool:
        """Whether the lease may still be relied on."""
        return not self.lost and time.monotonic() < self.until


class LeaseKeeper:
    """Renews every held lease four times per lease length (``lease`` in ms)."""

    def __init__(self, store: Store, *, lease: int) -> None:
        self._store = store
        self._lease = lease
        self._held: dict[str, Lease] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def held(self) -> int:
        return len(self._held)

    def start(self) -> None:
        self._task = asyncio.create_task(self._renew_for_ever(), name="lease keeper")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def hold(self, thread: str, fence: int, claimed_at: float, on_lost: Callable[[], None]) -> Lease:
        """Start renewing. ``claimed_at`` is the monotonic time just before the claim was sent."""
        lease = Lease(thread, fence, claimed_at + self._trusted, on_lost)
        self._held[thread] = lease
        return lease

    def drop(self, lease: Lease) -> None:
        """Stop renewing."""
        if self._held.get(lease.thread) is lease:
            del self._held[lease.thread]

    @property
    def _trusted(self) -> float:
        return self._lease / 1000 * (1 - SAFETY)

    async def _renew_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._lease / 4000)
            await asyncio.gather(*(self._renew(lease) for lease in list(self._held.values())))

    async def _renew(self, lease: Lease) -> None:
        asked_at = time.monotonic()
        try:
            if await self._store.renew(lease.thread, fence=lease.fence, lease=self._lease):
                lease.until = asked_at + self._trusted
                return
            reason = "another instance took over"
        except (StoreUnavailable, UnknownOutcome) as error:
            if lease.alive():
                return
            reason = f"it could not be renewed in time: {error}"
        if not lease.lost and self._held.get(lease.thread) is lease:
            logger.warning("thread %s: lease lost under fence %d, %s", lease.thread, lease.fence, reason)
            lease.lost = True
            lease.on_lost()
