"""Recent batches of one thread, contiguous up to its head, each spelled once per codec. Pure: no store, no tasks.

Indexes count up for ever, so an index says by itself whether what it names is still here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from waitpoint_protocol.codec import Codec
from waitpoint_protocol.frames import Cursor

from ..store.types import Batch
from .encode import events_frame

__all__ = ["AHEAD", "UNKNOWN", "Entry", "Place", "Ring"]


class Place:
    """Where a cursor is that the ring does not hold."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


AHEAD = Place("ahead")
"""Beyond our head: the store knew more than has arrived here."""

UNKNOWN = Place("unknown")
"""Before the ring, or in another log: ask the store."""


class Entry:
    """A batch and its frames, spelled when somebody first needs them."""

    __slots__ = ("batch", "json", "msgpack")

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.json: bytes | None = None
        self.msgpack: bytes | None = None

    def frame(self, codec: Codec, thread: str) -> bytes:
        """The ``events`` frame of the batch."""
        if codec.binary:
            if self.msgpack is None:
                self.msgpack = events_frame(codec, thread, self.batch)
            return self.msgpack
        if self.json is None:
            self.json = events_frame(codec, thread, self.batch)
        return self.json


class Ring:
    """Batches between the indexes :attr:`first` and :attr:`end`, bounded in number and bytes."""

    __slots__ = ("_bytes", "_entries", "_max_batches", "_max_bytes", "first", "head")

    def __init__(self, max_batches: int, max_bytes: int) -> None:
        self.first = 0
        """The index of the oldest batch that is still here."""
        self.head = Cursor(log="", seq=0, tag="")
        """The place after the newest batch."""
        self._entries: list[Entry] = []
        self._bytes = 0
        self._max_batches = max_batches
        self._max_bytes = max_bytes

    @property
    def end(self) -> int:
        """The index after the newest batch."""
        return self.first + len(self._entries)

    def entry(self, index: int) -> Entry:
        """The batch at an index between :attr:`first` and :attr:`end`."""
        return self._entries[index - self.first]

    def append(self, batch: Batch) -> bool:
        """Add the batch that follows the head. True: old ones were dropped."""
        self._entries.append(Entry(batch))
        self._bytes += len(batch.body)
        self.head = batch.cursor
        return self._trim()

    def restart(self, batches: Sequence[Batch], head: Cursor) -> None:
        """Begin anew with batches that end at ``head``. Indexes of the former life are not valid in this one."""
        self.first = self.end
        self._entries = [Entry(batch) for batch in batches]
        self._bytes = sum(len(batch.body) for batch in batches)
        self.head = head
        self._trim()

    def locate(self, cursor: Cursor) -> int | Place:
        """The index of what follows a cursor, if the ring shows that the cursor is a place in this log."""
        head, entries = self.head, self._entries
        if cursor.log != head.log:
            from_the_start = cursor.log == "" and bool(entries) and entries[0].batch.seq == 1
            return self.first if from_the_start else UNKNOWN
        if cursor.seq > head.seq:
            return AHEAD
        if cursor.seq == head.seq:
            return self.end if cursor.tag == head.tag else UNKNOWN
        at = bisect_left(entries, cursor.seq, key=_last)
        if at < len(entries) and entries[at].batch.last == cursor.seq:
            return self.first + at + 1 if entries[at].batch.tag == cursor.tag else UNKNOWN
        if at == 0 and entries:
            oldest = entries[0].batch
            if oldest.seq == cursor.seq + 1 and oldest.prev == cursor.tag:
                return self.first
        return UNKNOWN

    def _trim(self) -> bool:
        entries = self._entries
        if len(entries) <= self._max_batches and self._bytes <= self._max_bytes:
            return False
        # In strides, down to seven eighths: deleting at the front of a list moves the rest.
        least = len(entries) - self._max_batches * 7 // 8
        enough = self._max_bytes * 7 // 8
        drop = 0
        while drop < len(entries) - 1 and (drop < least or self._bytes > enough):
            self._bytes -= len(entries[drop].batch.body)
            drop += 1
        del entries[:drop]
        self.first += drop
        return True


def _last(entry: Entry) -> int:
    return entry.batch.last
