"""One followed thread: where it stands, what came last, and whether the next batch fits.

Pure: knows the chain of batches (log, position, tag of the one before) and listeners. Does not read or wait.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import Literal, Protocol

from waitpoint_protocol.codes import ResetWhy
from waitpoint_protocol.frames import Cursor

from .types import Batch, Joined

__all__ = ["Feed", "Listener", "Verdict", "contiguous"]

logger = logging.getLogger(__name__)

RING_EVENTS = 4096
RING_BYTES = 2 * 1024 * 1024
KNOWN_TAGS = 8192
BUFFERED = 1024

Verdict = Literal["next", "old", "odd"]


class Listener(Protocol):
    """Who is told of a thread's batches, synchronously and in order."""

    def on_batch(self, batch: Batch) -> None:
        """The next batch; the feed's head is already behind it."""

    def on_reset(self, why: ResetWhy) -> None:
        """The chain broke; the feed has joined anew, and its ``joined``, ``ring`` and ``head`` are the new ones."""


class Feed:
    """A followed thread, as :meth:`Follower.attach` returns it. Read only for everybody but the follower."""

    def __init__(self, thread: str, *, ring_events: int = RING_EVENTS, ring_bytes: int = RING_BYTES) -> None:
        self.thread = thread
        self.ring: deque[Batch] = deque()
        """Recent batches, contiguous, ending at :attr:`head`; bounded, so it may begin later than it once did."""
        self.head = Cursor(log="", seq=0, tag="")
        self._joined: Joined | None = None
        self._ring_limits = (ring_events, ring_bytes)
        self._ring_events = 0
        self._ring_bytes = 0
        self._tags: dict[str, None] = {}
        self._listeners: list[Listener] = []
        self._buffer: list[Batch] = []
        self._overflowed = False

    @property
    def joined(self) -> Joined:
        """What the feed started from; replaced when it is reset."""
        if self._joined is None:
            raise RuntimeError(f"thread {self.thread} was not joined yet")
        return self._joined

    # --- the chain

    def start(self, joined: Joined) -> None:
        """Stand at the head of what was just read; forget everything before."""
        self._joined = joined
        self.ring.clear()
        self._ring_events = self._ring_bytes = 0
        self._tags.clear()
        for batch in joined.batches:
            self._keep(batch)
        self.head = joined.head.cursor

    def verdict(self, batch: Batch) -> Verdict:
        """Whether a batch follows, was delivered already, or neither: then only the store can tell what is true."""
        head = self.head
        if batch.prev == head.tag and batch.seq == head.seq + 1 and (batch.log == head.log or not head.log):
            return "next"
        if batch.log == head.log and batch.last <= head.seq and batch.tag in self._tags:
            return "old"
        return "odd"

    def deliver(self, batch: Batch) -> None:
        """Append the next batch and tell the listeners."""
        self._keep(batch)
        self.head = batch.cursor
        for listener in tuple(self._listeners):
            try:
                listener.on_batch(batch)
            except Exception:
                # One listener's mistake must not cost the others their batch.
                logger.exception("thread %s: a listener failed on a batch", self.thread)

    def announce_reset(self, why: ResetWhy) -> None:
        """Tell the listeners that the feed has joined anew."""
        for listener in tuple(self._listeners):
            try:
                listener.on_reset(why)
            except Exception:
                logger.exception("thread %s: a listener failed on a reset", self.thread)

    def _keep(self, batch: Batch) -> None:
        self.ring.append(batch)
        self._ring_events += batch.count
        self._ring_bytes += len(batch.body)
        self._tags[batch.tag] = None
        while len(self._tags) > KNOWN_TAGS:
            del self._tags[next(iter(self._tags))]
        events, size = self._ring_limits
        while self._ring_events > events or self._ring_bytes > size:
            gone = self.ring.popleft()
            self._ring_events -= gone.count
            self._ring_bytes -= len(gone.body)

    # --- listeners

    def add(self, listener: Listener) -> None:
        """Tell this listener from now on."""
        self._listeners.append(listener)

    def remove(self, listener: Listener) -> bool:
        """Tell it no more. ``False`` if it was not told before."""
        for index, known in enumerate(self._listeners):
            if known is listener:
                del self._listeners[index]
                return True
        return False

    # --- what arrives while the feed is being mended

    def hold(self, batch: Batch) -> None:
        """Keep a batch until the feed is whole again; too many of them are read from the store instead."""
        if len(self._buffer) >= BUFFERED:
            self._buffer.clear()
            self._overflowed = True
        self._buffer.append(batch)

    def take_held(self) -> tuple[list[Batch], bool]:
        """The held batches, and whether some were dropped."""
        held, self._buffer = self._buffer, []
        overflowed, self._overflowed = self._overflowed, False
        return held, overflowed


def contiguous(joined: Joined) -> bool:
    """Whether a join's batches form one chain from its checkpoint to its head."""
    position = joined.checkpoint_seq
    batches: Sequence[Batch] = joined.batches
    for before, batch in zip((None, *batches), batches, strict=False):
        if batch.seq != position + 1 or (before is not None and batch.prev != before.tag):
            return False
        position = batch.last
    return position == joined.head.seq and (not batches or batches[-1].tag == joined.head.tag)
