"""The hands of one instance: finds threads that are due, claims them, drives each in a task of its own.

Knows leases and drivers; has no idea of rules. "Which thread is due?" is the whole scheduler: ready work, takeover
after a crash and expiry are the same question.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..desk import Desk
from ..store.types import Busy, Claimed, NotDue, Store, StoreUnavailable, UnknownOutcome
from .driver import Chatter, Driver
from .lease import LeaseKeeper, Renewing

__all__ = ["Runner"]

logger = logging.getLogger(__name__)

CLAIM_AGAIN = 0.05
"""Seconds between attempts to learn what became of a claim whose reply was lost."""


HANDFUL = 16
"""Due threads that are taken up at once, however many there are."""

CROWDED = 0.015
"""Seconds for one look at the store above which nothing more is taken up: people may be waiting in the same queues."""


class LeasedStore(Store, Renewing, Protocol):
    """A store whose leases can be renewed from another thread."""


class Runner:
    """Drives threads on this instance.

    ``lease`` is in ms; ``look`` is how often (s) the due threads are asked for; ``max_runs`` bounds what is driven at
    once, the rest is left to other instances or later looks. ``follow`` and ``unfollow`` attach a listener to a
    thread's live batches.
    """

    def __init__(
        self,
        store: LeasedStore,
        desk: Desk,
        chat: Chatter,
        *,
        follow: Callable[[str, Any], Any],
        unfollow: Callable[[str, Any], None],
        lease: int = 10_000,
        look: float = 1.0,
        max_runs: int = 1000,
    ) -> None:
        self._store = store
        self._desk = desk
        self._chat = chat
        self._follow = follow
        self._unfollow = unfollow
        self._lease = lease
        self._look = look
        self._max_runs = max_runs
        # Random per process: two processes with the same name must never pass for one another.
        self.owner = secrets.token_hex(8)
        self._keeper = LeaseKeeper(store, lease=lease)
        self._drivers: dict[str, Driver] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._looking: asyncio.Task[None] | None = None
        self._draining = False

    @property
    def runs(self) -> int:
        """How many threads this instance drives or is about to."""
        return len(self._tasks)

    def start(self) -> None:
        """Begin to look for due threads."""
        self._keeper.start()
        self._looking = asyncio.create_task(self._look_for_ever(), name="runner")

    def wake(self, thread: str) -> None:
        """Something happened to a thread: tell its driver, or try to claim it at once."""
        if thread in self._tasks:
            self._again.add(thread)
            if driver := self._drivers.get(thread):
                driver.wake()
            return
        if self._draining or len(self._tasks) >= self._max_runs:
            return
        task = asyncio.create_task(self._drive(thread), name=f"drive {thread}")
        self._tasks[thread] = task
        task.add_done_callback(lambda done: self._done(thread, done))

    async def drain(self, timeout: float) -> None:
        """Claim nothing more and hand every run over; returns when all are released or after ``timeout`` seconds."""
        self._draining = True
        if self._looking is not None:
            self._looking.cancel()
        for driver in self._drivers.values():
            driver.go()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=timeout)

    async def stop(self) -> None:
        """Stop at once; what was not handed over is taken over when its lease ends."""
        self._draining = True
        tasks = [*self._tasks.values(), *([self._looking] if self._looking else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=3)
        await self._keeper.stop()

    async def _look_for_ever(self) -> None:
        while True:
            started: list[asyncio.Task[None]] = []
            try:
                started = await self._take_due()
            except (StoreUnavailable, UnknownOutcome) as error:
                logger.info("cannot look for due threads: %s", error)
            except Exception:
                logger.exception("looking for due threads failed")
            if len(started) < HANDFUL:
                await asyncio.sleep(self._look)
            else:  # there may be thousands more
                await self._let_through(started)

    async def _let_through(self, started: Sequence[asyncio.Task[None]]) -> None:
        """Wait until these are done, or only wait themselves (for a model, a tool) and leave loop and store free."""
        left: set[asyncio.Task[None]] = set(started)
        while left:
            _, left = await asyncio.wait(left, timeout=0.1)
            began = time.monotonic()
            try:
                await self._store.due(limit=1)
            except (StoreUnavailable, UnknownOutcome):
                return
            if time.monotonic() - began < CROWDED:
                return

    async def _take_due(self) -> list[asyncio.Task[None]]:
        """Begin to drive a handful of the threads that are due; returns the tasks."""
        # Some room is kept for threads whose people are here: they are claimed in wake(), without a look.
        room = self._max_runs - self._max_runs // 10 - len(self._tasks)
        if room <= 0:
            return []
        due = [thread for thread in await self._store.due(limit=8 * HANDFUL) if thread not in self._tasks]
        # Other instances look at the same threads; a sample of its own keeps each from losing every race.
        chosen = random.sample(due, min(len(due), HANDFUL, room))
        for thread in chosen:
            self.wake(thread)
        return [self._tasks[thread] for thread in chosen if thread in self._tasks]

    async def _drive(self, thread: str) -> None:
        claimed, asked_at = await self._claim(thread)
        if not isinstance(claimed, Claimed):
            return
        lease = self._keeper.hold(thread, claimed.head.fence, asked_at, lambda: self._lost(thread))
        driver = Driver(
            self._store,
            self._desk,
            self._chat,
            thread,
            claimed,
            lease,
            follow=self._follow,
            unfollow=self._unfollow,
        )
        self._drivers[thread] = driver
        self._again.discard(thread)
        if self._draining:
            driver.go()
        try:
            await driver.run()
        finally:
            self._drivers.pop(thread, None)
            self._keeper.drop(lease)

    async def _claim(self, thread: str) -> tuple[Claimed | Busy | NotDue, float]:
        """Claim a thread; returns the result and the monotonic time just before it was asked for.

        A claim whose reply was lost may hold: left alone it would block the thread for a lease. The same nonce gets
        the same lease again, so it is asked for until the store says.
        """
        nonce = secrets.token_hex(8)
        give_up = time.monotonic() + self._lease / 1000
        unknown = False
        while True:
            asked_at = time.monotonic()
            try:
                claimed = await self._store.claim(thread, owner=self.owner, nonce=nonce, lease=self._lease)
            except (StoreUnavailable, UnknownOutcome) as error:
                unknown = unknown or isinstance(error, UnknownOutcome)
                if not unknown or time.monotonic() > give_up:
                    raise
                await asyncio.sleep(CLAIM_AGAIN)
                continue
            return claimed, asked_at

    def _lost(self, thread: str) -> None:
        if driver := self._drivers.get(thread):
            driver.lose()

    def _done(self, thread: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(thread, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            if isinstance(error, (StoreUnavailable, UnknownOutcome)):
                logger.info("thread %s: not driven now: %s", thread, error)
            else:
                logger.error("thread %s: driving failed", thread, exc_info=error)
        if thread in self._again:
            # Something arrived after the driver had looked for the last time.
            self._again.discard(thread)
            self.wake(thread)
