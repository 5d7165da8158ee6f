"""One thread on one instance: a ring of recent batches, each encoded once, and the view folded when it is asked for.

Knows batches and cursors; does not know who reads. Subscribers are places in the ring (``follow.py``); a batch costs
one append here, however many there are, and is read only when somebody wants a snapshot.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
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
from .encode import events_frame, snapshot_frames
from .limits import Sizes

__all__ = ["AHEAD", "UNKNOWN", "Channel", "Encoded", "Entry", "Feed", "Listener", "Place", "Source"]

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


class Entry:
    """A batch and its frames, spelled when somebody first needs them."""

    __slots__ = ("batch", "json", "msgpack")

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.json: bytes | None = None
        self.msgpack: bytes | None = None

    def frame(self, codec: Codec, thread: str) -> bytes:
        if codec.binary:
            if self.msgpack is None:
                self.msgpack = events_frame(codec, thread, self.batch)
            return self.msgpack
        if self.json is None:
            self.json = events_frame(codec, thread, self.batch)
        return self.json


class Place:
    """Where a cursor is that the ring does not hold."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


AHEAD = Place("ahead")
"""Beyond our head: the store knew more than has arrived here."""

UNKNOWN = Place("unknown")
"""Before the ring, or in another log: ask the store."""


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
        self.version = 0
        """Rises with every batch and reset."""
        self._source = source
        self._store = store
        self._watcher = watcher
        self._feed: Feed | None = None
        self._ring: list[Entry] = []
        self._first = 0
        self._bytes = 0
        self._head = Cursor(log="", seq=0, tag="")
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
        self._first += len(self._ring)  # indexes of an earlier life must not be valid in this one
        self._ring = [Entry(batch) for batch in ring]
        self._bytes = sum(len(batch.body) for batch in ring)
        self._head = feed.head
        self._joined = joined
        self._view = None
        self._encoded.clear()
        self._trim()

    # --- what the follower tells

    def on_batch(self, batch: Batch) -> None:
        """A batch follows the head."""
        if self._feed is None:
            return  # the feed we are about to take over has it
        self._ring.append(Entry(batch))
        self._bytes += len(batch.body)
        self._head = batch.cursor
        self.version += 1
        if len(self._ring) > self.sizes.ring_batches or self._bytes > self.sizes.ring_bytes:
            self._trim()
        self._watcher.advanced()

    def on_reset(self, why: ResetWhy) -> None:
        """The log was joined anew; what was known of it is void."""
        if self._feed is None:
            return
        self._take_over(self._feed)
        self.version += 1
        self._watcher.restarted(why)

    def _trim(self) -> None:
        if len(self._ring) <= self.sizes.ring_batches and self._bytes <= self.sizes.ring_bytes:
            return
        # In strides: deleting at the front of a list moves the rest.
        drop, over = 0, self._bytes - self.sizes.ring_bytes * 7 // 8
        least = len(self._ring) - self.sizes.ring_batches * 7 // 8
        while drop < len(self._ring) - 1 and (drop < least or over > 0):
            over -= len(self._ring[drop].batch.body)
            self._bytes -= len(self._ring[drop].batch.body)
            drop += 1
        del self._ring[:drop]
        self._first += drop
        # A view that was not wanted for so long is cheaper to read anew than to keep up with.
        if self._view is not None and self.locate(self._view.cursor) is UNKNOWN:
            self._view = None
        if self._joined is not None and self.locate(self._joined.head.cursor) is UNKNOWN:
            self._joined = None

    # --- the ring

    @property
    def head(self) -> Cursor:
        """The place after the newest batch that has arrived."""
        return self._head

    @property
    def end(self) -> int:
        """The index after the newest batch."""
        return self._first + len(self._ring)

    @property
    def first(self) -> int:
        """The index of the oldest batch that is still here."""
        return self._first

    def entry(self, index: int) -> Entry:
        """The batch at an index between :attr:`first` and :attr:`end`."""
        return self._ring[index - self._first]

    def locate(self, cursor: Cursor) -> int | Place:
        """The index of what follows a cursor, if the ring shows that the cursor is a place in this log."""
        head = self._head
        if cursor.log != head.log:
            if cursor.log == "" and self._ring and self._ring[0].batch.seq == 1:
                return self._first
            return UNKNOWN
        if cursor.seq > head.seq:
            return AHEAD
        if cursor.seq == head.seq:
            return self.end if cursor.tag == head.tag else UNKNOWN
        at = bisect_left(self._ring, cursor.seq, key=_last)
        if at < len(self._ring) and self._ring[at].batch.last == cursor.seq:
            return self._first + at + 1 if self._ring[at].batch.tag == cursor.tag else UNKNOWN
        if at == 0 and self._ring:
            oldest = self._ring[0].batch
            if oldest.seq == cursor.seq + 1 and oldest.prev == cursor.tag:
                return self._first
        return UNKNOWN

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
        at = self.locate(cursor)
        return at is AHEAD or (isinstance(at, int) and self.end - at <= self.sizes.reuse)

    def _catch_up(self) -> bool:
        """Bring the folded view to the head. False: there is none that the ring continues."""
        if self._view is None and self._joined is not None:
            self._view = self._start(self._joined)
            self._joined = None  # the fold goes on from here; two copies are one too many
        view = self._view
        if view is None:
            return False
        at = self.locate(view.cursor)
        if at is UNKNOWN:
            return False
        if isinstance(at, int) and at < self.end:
            for index in range(at, self.end):
                _fold(view.state, self.entry(index).batch)
            trim(view.state, self.sizes.page)
            view.cursor = self._head
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


def _last(entry: Entry) -> int:
    return entry.batch.last


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
