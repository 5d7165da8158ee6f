"""One subscriber of one thread: a place in the thread's ring, and how it gets back there when it has lost it.

Knows cursors, the ring and the store's replay. A subscriber owns no queue of events: what it has not taken is in the
ring (shared) or in the store. Only what brings it to the ring (missed events, a snapshot, a reset) is held here.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol, assert_never

from waitpoint_protocol.codec import Codec
from waitpoint_protocol.codes import ResetWhy
from waitpoint_protocol.frames import Cursor

from ..store.types import Batch, Forked, Gone, LogLost, Replay, Store, StoreUnavailable
from .channel import Channel
from .encode import events_frame, live_frame, reset_frame
from .ring import AHEAD, UNKNOWN

__all__ = ["Follow", "Outlet"]

logger = logging.getLogger(__name__)

RETRY_DELAYS = (0.1, 0.25, 0.5, 1.0, 2.0)
"""Seconds between attempts to bring a subscriber back while the store is out of reach; the last one repeats."""


class Outlet(Protocol):
    """Where a subscriber's frames go. ``mark`` says that there is something to take; it must not wait."""

    @property
    def codec(self) -> Codec: ...
    def mark(self, follow: Follow) -> None: ...


class Follow:
    """A subscriber's place. ``begin`` puts it somewhere, ``take`` moves it on."""

    __slots__ = (
        "_at",
        "_batch",
        "_channel",
        "_index",
        "_live",
        "_outlet",
        "_parked",
        "_prelude",
        "_seeking",
        "_store",
        "_task",
        "left",
        "thread",
    )

    def __init__(self, channel: Channel, store: Store, outlet: Outlet) -> None:
        self.thread = channel.thread
        self.left = False
        self._channel = channel
        self._store = store
        self._outlet = outlet
        self._prelude: list[bytes] = []  # last first
        self._at = Cursor(log="", seq=0, tag="")
        self._batch: Batch | None = None  # the last batch taken: makes a cursor only when one is wanted
        self._index: int | None = None
        self._live = False
        self._parked = -1
        self._seeking = True  # nowhere yet; nothing is taken before it stands
        self._task: asyncio.Task[None] | None = None

    @property
    def cursor(self) -> Cursor:
        """What the subscriber has, once everything taken so far has arrived there."""
        return self._at if self._batch is None else self._batch.cursor

    # --- getting to a place

    async def begin(self, cursor: Cursor | None) -> None:
        """Find the place of a cursor (or start with a snapshot). Raises ``StoreUnavailable``; then leave."""
        await self._channel.opened()
        if not self._seeking or self._task is not None or self.left:
            return  # a reset came first; it brings a snapshot
        task = self._task = asyncio.create_task(self._seek(cursor, None), name=f"seek {self.thread}")
        # Waited for, not awaited: a reset cancels this task and puts another in its place, which is no failure.
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()

    def restart(self, why: ResetWhy) -> None:
        """The log was joined anew: whatever place this was is void."""
        self._seek_soon(None, why)

    def leave(self) -> None:
        """Take nothing any more."""
        self.left = True
        self._prelude.clear()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _seek_soon(self, cursor: Cursor | None, why: ResetWhy | None) -> None:
        if self.left:
            return
        if self._task is not None:
            self._task.cancel()
        self._prelude.clear()
        self._index = None
        self._seeking = True
        self._task = asyncio.create_task(self._seek_persistently(cursor, why), name=f"seek {self.thread}")

    async def _seek_persistently(self, cursor: Cursor | None, why: ResetWhy | None) -> None:
        attempt = 0
        while True:
            try:
                await self._seek(cursor, why)
                return
            except StoreUnavailable:
                # The subscriber stays connected: it has lost its place, not its right to one.
                await asyncio.sleep(RETRY_DELAYS[min(attempt, len(RETRY_DELAYS) - 1)])
                attempt += 1
            except Exception:
                logger.exception("thread %s: a subscriber could not be brought back, trying again", self.thread)
                await asyncio.sleep(RETRY_DELAYS[-1])

    async def _seek(self, cursor: Cursor | None, why: ResetWhy | None) -> None:
        if cursor is not None:
            if isinstance(self._channel.ring.locate(cursor), int):
                self._stand([], cursor)
                return
            found = await self._replay(cursor)
            if isinstance(found, list):
                codec, thread = self._outlet.codec, self.thread
                frames = [events_frame(codec, thread, batch) for batch in found]
                self._stand(frames, found[-1].cursor if found else cursor)
                return
            # A subscriber that was here all the time fell behind; it did not come back with an old cursor.
            why = "lagged" if found == "gone" and why == "lagged" else found
        snapshot = await self._channel.snapshot(self._outlet.codec)
        reset = [] if why is None else [reset_frame(self._outlet.codec, self.thread, why)]
        self._stand([*reset, *snapshot.frames], snapshot.cursor)

    async def _replay(self, cursor: Cursor) -> list[Batch] | ResetWhy:
        match await self._store.replay(self.thread, cursor, limit=self._channel.sizes.replay_events):
            case Replay(batches=batches, more=more):
                if more or sum(len(batch.body) for batch in batches) > self._channel.sizes.replay_bytes:
                    return "lagged"
                return list(batches)
            case Gone():
                return "gone"
            case Forked():
                return "forked"
            case LogLost():
                return "log-lost"
            case other:
                assert_never(other)

    def _stand(self, prelude: list[bytes], cursor: Cursor) -> None:
        self._prelude = prelude[::-1]
        self._at, self._batch, self._index = cursor, None, None
        self._live = False
        self._parked = self._channel.version
        self._seeking = False
        self._task = None
        if not self.left:
            self._outlet.mark(self)

    # --- moving on

    def advanced(self) -> None:
        """There is a new batch."""
        if not self._seeking:
            self._outlet.mark(self)

    def take(self, budget: int) -> tuple[list[bytes], bool]:
        """Frames to send next, of about ``budget`` bytes, and whether more is ready. Moves the place."""
        taken: list[bytes] = []
        if self.left:
            return taken, False
        while self._prelude:
            if budget <= 0:
                return taken, True
            taken.append(self._prelude.pop())
            budget -= len(taken[-1])
        if self._seeking:
            return taken, False
        if self._index is None and not self._find():
            return self._caught_up(taken), False
        ring, codec, thread = self._channel.ring, self._outlet.codec, self.thread
        index = self._index
        assert index is not None
        if index < ring.first:
            self._seek_soon(self.cursor, "lagged")  # served from the store, or with a snapshot
            return taken, False
        end = ring.end
        while index < end and budget > 0:
            entry = ring.entry(index)
            frame = entry.frame(codec, thread)
            taken.append(frame)
            budget -= len(frame)
            self._batch = entry.batch
            index += 1
        self._index = index
        if index < end:
            return taken, True
        return self._caught_up(taken), False

    def _find(self) -> bool:
        at = self._channel.ring.locate(self.cursor)
        if isinstance(at, int):
            self._index = at
            return True
        # The store has just placed us. Only when the ring has moved since can asking again say something new.
        if at is UNKNOWN and self._parked != self._channel.version:
            self._seek_soon(self.cursor, None)
        assert at is AHEAD or at is UNKNOWN
        return False

    def _caught_up(self, taken: list[bytes]) -> list[bytes]:
        if not self._live and not self._seeking:
            self._live = True
            taken.append(live_frame(self._outlet.codec, self.thread, self.cursor))
        return taken
