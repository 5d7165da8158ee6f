"""The store's vocabulary: what a commit asks for and what can come back.

Knows bytes, numbers and names of threads; has no idea what an event, an action or a message means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from waitpoint_protocol.frames import Cursor

from ..errors import StoreError

__all__ = [
    "Batch",
    "Busy",
    "Claimed",
    "Commit",
    "Committed",
    "Conflict",
    "Due",
    "Fenced",
    "Forked",
    "Gone",
    "Head",
    "Joined",
    "Known",
    "LogLost",
    "NotDue",
    "Replay",
    "Store",
    "StoreUnavailable",
    "UnknownOutcome",
]


class StoreUnavailable(StoreError):
    """The store cannot be reached, and certainly nothing was written."""


class UnknownOutcome(StoreError):
    """The reply of a write was lost: it may or may not have happened. Ask again with something idempotent."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One entry of a thread's log: ``count`` events encoded once, positions ``seq`` .. ``seq + count - 1``."""

    log: str
    seq: int
    count: int
    prev: str
    tag: str
    body: bytes

    @property
    def last(self) -> int:
        return self.seq + self.count - 1

    @property
    def cursor(self) -> Cursor:
        """The place right after this batch."""
        return Cursor(log=self.log, seq=self.last, tag=self.tag)


@dataclass(frozen=True, slots=True)
class Head:
    """Where a thread stands. A thread that does not exist has ``log == ""``, ``seq == rev == 0``.

    ``now`` is the store's clock (ms since the epoch) when this was read; ``lease_until`` is 0 when nobody drives.
    ``mark`` is the tag of the commit that made ``rev``: after a failover a number can come again, a mark cannot.
    """

    log: str
    seq: int
    tag: str
    rev: int
    control: bytes
    fence: int
    owner: str
    lease_until: int
    now: int
    mark: str = ""

    @property
    def cursor(self) -> Cursor:
        return Cursor(log=self.log, seq=self.seq, tag=self.tag)


@dataclass(frozen=True, slots=True)
class Due:
    """When the thread next needs a driver: ``at`` in ms of the store's clock, 0 for now, ``None`` for never."""

    at: int | None


@dataclass(frozen=True, slots=True)
class Commit:
    """One atomic change of a thread. Guards first; if one fails nothing is written.

    ``log``: the log id the writer knows; ``""`` means "the thread must not exist", and ``new_log`` becomes its log id.
    ``rev`` and ``mark``: the revision the decision was made on and its mark, as the head had them; ``rev`` is required
    iff ``control`` is given, and an empty ``mark`` guards nothing.
    ``fence`` and ``batch``: the driver's fence and its next batch number (1, 2, ... under one fence). Repeating the
    last number returns the first result again instead of writing twice; leaving one out means that the store has lost
    it, and is fenced.
    ``outcomes``: fields of the outcome table that this commit writes and that must not be there yet.
    ``body``/``count``: the encoded events (``count`` may be 0: no log entry, nothing published).
    ``control``: the new control state; moves ``rev``.
    ``puts``/``drops``: large values beside the control state, by id.
    ``messages``: finished messages to append. ``checkpoint``: encoded live state *after* this commit's events; the log
    is trimmed to ``keep`` events behind it.
    ``due``: the thread's next appointment; left alone while somebody else holds the lease (the lease end stands).
    ``pending``: cross-thread pending index, id -> bytes, ``None`` removes.
    ``release``: give the lease up in the same commit (then ``due`` applies).
    """

    thread: str
    log: str
    tag: str
    new_log: str = ""
    rev: int | None = None
    mark: str = ""
    fence: int | None = None
    batch: int = 0
    count: int = 0
    body: bytes = b""
    control: bytes | None = None
    outcomes: Mapping[str, bytes] = field(default_factory=dict)
    puts: Mapping[str, bytes] = field(default_factory=dict)
    drops: Sequence[str] = ()
    messages: Sequence[bytes] = ()
    checkpoint: bytes | None = None
    keep: int = 1024
    due: Due | None = None
    pending: Mapping[str, bytes | None] = field(default_factory=dict)
    release: bool = False


@dataclass(frozen=True, slots=True)
class Committed:
    """It is stored and published. ``repeated``: this fence and batch number had already been written."""

    log: str
    seq: int
    count: int
    prev: str
    tag: str
    rev: int
    now: int
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Conflict:
    """The log id or revision was not the expected one; decide again on ``head``."""

    head: Head


@dataclass(frozen=True, slots=True)
class Fenced:
    """The writer does not hold the lease (any more). Nothing it writes will be accepted."""

    fence: int


@dataclass(frozen=True, slots=True)
class Known:
    """One of ``outcomes`` was already there: ``name`` and what is stored under it."""

    name: str
    outcome: bytes


@dataclass(frozen=True, slots=True)
class Claimed:
    """The caller drives the thread until ``head.lease_until``. ``crashes`` counts leases that ran out unreleased."""

    head: Head
    crashes: int


@dataclass(frozen=True, slots=True)
class Busy:
    """Somebody else drives the thread."""

    owner: str
    lease_until: int


@dataclass(frozen=True, slots=True)
class NotDue:
    """There is nothing to do on this thread now."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Everything a view is made of: checkpoint (at position ``checkpoint_seq``), the batches after it, and the page of
    finished messages that ends at the checkpoint. ``messages_before`` counts the older ones not included.
    """

    head: Head
    checkpoint: bytes
    checkpoint_seq: int
    batches: Sequence[Batch]
    messages: Sequence[bytes]
    messages_before: int


@dataclass(frozen=True, slots=True)
class Replay:
    """What follows a cursor, in order, up to ``head`` unless ``more``."""

    head: Cursor
    batches: Sequence[Batch]
    more: bool = False


@dataclass(frozen=True, slots=True)
class Gone:
    """The log no longer reaches back to the cursor."""


@dataclass(frozen=True, slots=True)
class Forked:
    """The log has other data at the cursor's position."""


@dataclass(frozen=True, slots=True)
class LogLost:
    """The thread has another log now (or none)."""


CommitResult = Committed | Conflict | Fenced | Known
ReplayResult = Replay | Gone | Forked | LogLost
Durability = Literal["primary", "replica"]


class Store(Protocol):
    """The log and its scheduler. Every method may raise :class:`StoreUnavailable`; ``commit``, ``claim``, ``renew`` and
    ``release`` may raise :class:`UnknownOutcome`. A cancelled call may have been applied.
    """

    async def head(self, thread: str) -> Head: ...
    async def commit(self, commit: Commit) -> CommitResult: ...
    async def join(self, thread: str, *, page: int) -> Joined: ...
    async def replay(self, thread: str, cursor: Cursor, *, limit: int = 10_000) -> ReplayResult: ...
    async def values(self, thread: str, ids: Sequence[str]) -> list[bytes | None]: ...
    async def outcomes(self, thread: str, names: Sequence[str]) -> list[bytes | None]: ...
    async def messages(self, thread: str, *, before: int, limit: int) -> tuple[int, list[bytes]]: ...
    async def claim(self, thread: str, *, owner: str, nonce: str, lease: int) -> Claimed | Busy | NotDue: ...
    async def renew(self, thread: str, *, fence: int, lease: int) -> bool: ...
    async def release(self, thread: str, *, fence: int, rev: int, due: Due) -> Head | None: ...
    async def due(self, *, limit: int) -> list[str]: ...
    async def pending(self) -> list[tuple[str, bytes]]: ...
    def now(self) -> int: ...
