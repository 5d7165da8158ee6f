"""One thread on one instance: the ring of its recent batches, and its view, folded when it is asked for.

Knows the follower, the store's joins and the fold; does not know who reads. Subscribers are places in the ring
(``follow.py``); a batch costs one append here, however many there are, and is read only when somebody wants a snapshot.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from waitpoint_protocol import events as e
from waitpoint_protocol.codec import Codec
from waitpoint_protocol.codes import ResetWhy
from waitpoint_protocol.frames import Cursor
from waitpoint_protocol.state import ThreadState
from waitpoint_protocol.view import fold

from ..store.types import Batch, Joined, Store, StoreUnavailable
from ..thread.snapshot import build, trim
from .encode import snapshot_frames
from .limits import Sizes
from .ring import AHEAD, UNKNOWN, Ring

__all__ = ["Channel", "Encoded", "Feed", "Listener", "Source", "Watcher"]

logger = logging.getLogger(__name__)

OPEN_TIMEOUT = 3.0
"""Seconds after which a subscriber is told to come back later; the attachment goes on for whoever comes next."""

SNAPSHOT_KEPT = 5.0
VIEW_KEPT = 30.0
"""Seconds for which an encoded snapshot, and a folded view, are kept after somebody wanted one."""


class Feed(Protocol):
    """A thread's live log, as the follower hands it out."""

    @property
    def joined(self) -> Joined: ...
    @property
    def head(self) -> Cursor: ...
    @property
    def ring(self) -> Iterable[Batch]: ...


class Listener(Protocol):
    """What the follower calls, in order, without waiting."""

    def on_batch(self, batch: Batch) -> None: ...
    def on_reset(self, why: ResetWhy) -> None: ...


class Source(Protocol):
    """The instance's follower of live logs."""

    @property
    def healthy(self) -> bool: ...
    async def attach(self, thread: str, listener: Listener) -> Feed: ...
    def detach(self, thread: str, listener: Listener) -> None: ...


@dataclass(frozen=True, slots=True)
class Encoded:
    """A snapshot as frames."""

    cursor: Cursor
    frames: list[bytes]


@dataclass(slots=True)
class _View:
    state: ThreadState
    cursor: Cursor


class Channel:
    """The live log and view of one thread. The watcher is told after each batch and after a reset."""

    def __init__(self, thread: str, source: Source, store: Store, watcher: Watcher, sizes: Sizes) -> None:
        self.thread = thread
        self.sizes = sizes
        self.ring = Ring(sizes.ring_batches, sizes.ring_bytes)
        self.version = 0
        """Rises with every batch and reset."""
        self._source = source
        self._store = store
        self._watcher = watcher
        self._feed: Feed | None = None
        self._joined: Joined | None = None
        self._view: _View | None = None
        self._encoded: dict[str, Encoded] = {}
        self._wanted_at = 0.0
        self._opening: asyncio.Task[None] | None = None
        self._loading: asyncio.Task[_View] | None = None
        self._closed = False

    # --- life

    async def opened(self) -> None:
        """Wait until the live log is attached. Raises ``StoreUnavailable``."""
        if self._feed is not None:
            return
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open(), name=f"open {self.thread}")
            self._opening.add_done_callback(_seen)
        # Many wait for one: a subscriber that leaves must not take the attachment from the others.
        try:
            async with asyncio.timeout(OPEN_TIMEOUT):
                await asyncio.shield(self._opening)
        except TimeoutError:
            raise StoreUnavailable(f"thread {self.thread} could not be followed within {OPEN_TIMEOUT:g} s") from None

    async def _open(self) -> None:
        feed = await self._source.attach(self.thread, self)
        if self._closed:
            self._source.detach(self.thread, self)
            return
        self._feed = feed
        self._wanted_at = asyncio.get_running_loop().time()
        self._take_over(feed)

    def close(self) -> None:
        """Detach; nobody reads any more."""
        self._closed = True
        if self._feed is not None:
            self._feed = None
            self._source.detach(self.thread, self)

    def _take_over(self, feed: Feed) -> None:
        ring = list(feed.ring)
        joined = feed.joined
        if not ring or (ring[0].seq == joined.head.seq + 1 and ring[0].prev == joined.head.tag):
            # What followed the checkpoint is in front of the ring: a client that was away may need it.
            ring = [*joined.batches, *ring]
        if ring and ring[-1].cursor != feed.head:
            ring = []
        self.ring.restart(ring, feed.head)
        self._joined = joined
        self._view = None
        self._encoded.clear()
        self._drop_what_is_cut_off()

    # --- what the follower tells

    def on_batch(self, batch: Batch) -> None:
        """A batch follows the head."""
        if self._feed is None:
            return  # the feed we are about to take over has it
        self.version += 1
        if self.ring.append(batch):
            self._drop_what_is_cut_off()
        self._watcher.advanced()

    def on_reset(self, why: ResetWhy) -> None:
        """The log was joined anew; what was known of it is void."""
        if self._feed is None:
            return
        self._take_over(self._feed)
        self.version += 1
        self._watcher.restarted(why)

    def _drop_what_is_cut_off(self) -> None:
        # A view that was not wanted for so long is cheaper to read anew than to keep up with.
        if self._view is not None and self.ring.locate(self._view.cursor) is UNKNOWN:
            self._view = None
        if self._joined is not None and self.ring.locate(self._joined.head.cursor) is UNKNOWN:
            self._joined = None

    # --- the view

    async def snapshot(self, codec: Codec) -> Encoded:
        """The view as frames, at (or shortly before) the head. Raises ``StoreUnavailable``."""
        self._wanted_at = asyncio.get_running_loop().time()
        encoded = self._encoded.get(codec.name)
        if encoded is not None and self._recent(encoded.cursor):
            return encoded
        if not self._catch_up():
            self._view = await self._loaded()
            self._catch_up()
        view = self._view
        assert view is not None
        encoded = Encoded(view.cursor, self._spell(codec, view))
        self._encoded[codec.name] = encoded
        return encoded

    def _spell(self, codec: Codec, view: _View) -> list[bytes]:
        return snapshot_frames(codec, self.thread, view.cursor, view.state, part_bytes=self.sizes.part_bytes)

    def _recent(self, cursor: Cursor) -> bool:
        at = self.ring.locate(cursor)
        return at is AHEAD or (isinstance(at, int) and self.ring.end - at <= self.sizes.reuse)

    def _catch_up(self) -> bool:
        """Bring the folded view to the head. False: there is none that the ring continues."""
        if self._view is None and self._joined is not None:
            self._view = self._start(self._joined)
            self._joined = None  # the fold goes on from here; two copies are one too many
        view = self._view
        if view is None:
            return False
        at = self.ring.locate(view.cursor)
        if at is UNKNOWN:
            return False
        if isinstance(at, int) and at < self.ring.end:
            for index in range(at, self.ring.end):
                _fold(view.state, self.ring.entry(index).batch)
            trim(view.state, self.sizes.page)
            view.cursor = self.ring.head
        return True

    def _start(self, joined: Joined) -> _View:
        state = build(self.thread, joined.checkpoint, joined.messages, joined.messages_before)
        for batch in joined.batches:
            _fold(state, batch)
        trim(state, self.sizes.page)
        return _View(state, joined.head.cursor)

    async def _loaded(self) -> _View:
        if self._loading is None or self._loading.done():
            self._loading = asyncio.create_task(self._load(), name=f"view {self.thread}")
            self._loading.add_done_callback(_seen)
        return await asyncio.shield(self._loading)

    async def _load(self) -> _View:
        return self._start(await self._store.join(self.thread, page=self.sizes.page))

    def tidy(self, now: float) -> None:
        """Forget what nobody wanted for a while: a quiet thread costs its ring only."""
        idle = now - self._wanted_at
        if idle > SNAPSHOT_KEPT:
            self._encoded.clear()
        if idle > VIEW_KEPT:
            self._view = self._joined = self._loading = None


class Watcher(Protocol):
    """Who is told that a channel moved; must not wait."""

    def advanced(self) -> None: ...
    def restarted(self, why: ResetWhy) -> None: ...


def _seen(task: asyncio.Task[None] | asyncio.Task[_View]) -> None:
    # Whoever waited has got the exception; if nobody waits any more it is no news.
    if not task.cancelled():
        task.exception()


def _fold(state: ThreadState, batch: Batch) -> None:
    try:
        fold(state, e.decode_events(batch.body))
    except ValueError:
        # Written by another version, perhaps. The batch is still forwarded; one bad batch must not hide a thread.
        logger.exception("batch %d of log %s cannot be read and is left out of snapshots", batch.seq, batch.log)
