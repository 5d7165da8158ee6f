"""Keeping leases: renews what this instance holds, and says in time when one is lost.

Renewal runs in an operating-system thread with an event loop and connections of its own, so that user code which blocks
the main loop does not lose its lease. It does not help against a C call that holds the GIL, nor against a stopped
process: then the fence refuses whatever comes late. When the main loop has not moved for ``STUCK`` seconds the thread
stops renewing: a process that hangs for good must not keep its threads for ever.

Knows fences and times; has no idea what a driver does. A lease that could not be renewed until shortly before its end
counts as lost, so that a driver stops before another one may start.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ..desk import persist
from ..store.types import StoreUnavailable, UnknownOutcome

__all__ = ["Lease", "LeaseKeeper", "LeaseLost", "Renewing"]

logger = logging.getLogger(__name__)

SAFETY = 0.2
"""Fraction of the lease, at its end, in which its holder no longer trusts it (2 s of 10 s)."""

STUCK = 60.0
"""Seconds without a tick of the main loop after which nothing is renewed any more."""


_T = TypeVar("_T")


class LeaseLost(Exception):
    """This driver no longer holds the thread; it stops at once and writes nothing more."""


class Renewing(Protocol):
    """What the keeper needs of a store; a ``twin`` has its own connections and serves another event loop."""

    async def renew(self, thread: str, *, fence: int, lease: int) -> bool: ...
    async def close(self) -> None: ...
    def twin(self, *, timeout: float | None = None) -> Renewing: ...


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

    def trust(self) -> None:
        """Raise :class:`LeaseLost` if this process stood still for so long that another may have begun the same."""
        if not self.alive():
            raise LeaseLost(self.thread)

    async def ask(self, call: Callable[[], Awaitable[_T | None]]) -> _T:
        """Ask the store until it answers, idempotently; raises :class:`LeaseLost` when the lease ends first."""
        answer = await persist(call, self.alive)
        if answer is None:
            raise LeaseLost(self.thread)
        return answer


class LeaseKeeper:
    """Renews every held lease four times per lease length (``lease`` in ms)."""

    def __init__(self, store: Renewing, *, lease: int, stuck: float = STUCK) -> None:
        self._store = store
        self._lease = lease
        self._stuck = stuck
        self._held: dict[str, Lease] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ticked = 0.0
        self._ticker: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to renew. Called on the loop that the drivers run on."""
        self._loop = asyncio.get_running_loop()
        self._tick()
        self._thread = threading.Thread(target=self._run, name="waitpoint leases", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Stop renewing; returns when the thread has ended."""
        self._stopping.set()
        if self._ticker is not None:
            self._ticker.cancel()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, 5.0)

    def hold(self, thread: str, fence: int, claimed_at: float, on_lost: Callable[[], None]) -> Lease:
        """Start renewing. ``claimed_at`` is the monotonic time just before the claim was sent."""
        lease = Lease(thread, fence, claimed_at + self._trusted, on_lost)
        with self._lock:
            self._held[thread] = lease
        return lease

    def drop(self, lease: Lease) -> None:
        """Stop renewing this lease."""
        with self._lock:
            if self._held.get(lease.thread) is lease:
                del self._held[lease.thread]

    @property
    def _trusted(self) -> float:
        return self._lease / 1000 * (1 - SAFETY)

    def _tick(self) -> None:
        assert self._loop is not None
        self._ticked = time.monotonic()
        self._ticker = self._loop.call_later(min(1.0, self._stuck / 10), self._tick)

    # --- in the thread

    def _run(self) -> None:
        try:
            asyncio.run(self._renew_until_stopped())
        except Exception:
            # Without renewal every lease runs out and is taken over elsewhere: bad, but safe.
            logger.exception("the lease thread died")

    async def _renew_until_stopped(self) -> None:
        # A connection that swallows what it is sent must be given up in time to renew over another one.
        store = self._store.twin(timeout=max(0.5, self._lease / 8000))
        pause = self._lease / 4000
        try:
            while not await asyncio.to_thread(self._stopping.wait, pause):
                if time.monotonic() - self._ticked > self._stuck:
                    continue
                with self._lock:
                    held = list(self._held.values())
                answered = await asyncio.gather(*(self._renew(store, lease) for lease in held))
                pause = self._lease / (4000 if all(answered) else 20_000)
        finally:
            await store.close()

    async def _renew(self, store: Renewing, lease: Lease) -> bool:
        """Renew one lease; ``False`` if the store did not answer and there is still time to ask again."""
        asked_at = time.monotonic()
        try:
            if await store.renew(lease.thread, fence=lease.fence, lease=self._lease):
                lease.until = asked_at + self._trusted
                return True
            reason = "another instance took over"
        except (StoreUnavailable, UnknownOutcome) as error:
            if lease.alive():
                return False
            reason = f"it could not be renewed in time: {error}"
        with self._lock:
            current = self._held.get(lease.thread) is lease
        if current and not lease.lost:
            logger.warning("thread %s: lease lost under fence %d, %s", lease.thread, lease.fence, reason)
            lease.lost = True
            assert self._loop is not None
            self._loop.call_soon_threadsafe(lease.on_lost)
        return True
