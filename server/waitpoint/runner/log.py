"""The driver's side of a thread's log: its fold at an exact position, and everything it writes, in one row.

All writes of one driver pass through here, numbered under its fence, one in flight at a time. What is emitted while a
write is in flight goes out together in the next one; there is no timer. When somebody else wrote in between, the chain
of tags shows it and the missing batches are read.
"""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Callable, Sequence

from waitpoint_protocol import events as e
from waitpoint_protocol.frames import Cursor
from waitpoint_protocol.state import Message, ThreadState
from waitpoint_protocol.view import fold, open_message

from ..desk import Desk, Driven, Lost, Snapshot, Stale, new_tag, persist
from ..store.types import Commit, Committed, Conflict, Fenced, Joined, Known, Replay, Store
from ..thread import DriverCommand
from ..thread.snapshot import build, checkpoint
from .lease import LeaseLost

__all__ = ["DriverLog", "LeaseLost", "TooMuch"]

CHECKPOINT_EVERY = 256
"""Events after which the live state is stored anew, so that joining a long stream stays cheap."""

MAX_BUFFERED = 4096
"""Events that may wait for the store before emitting blocks."""


class TooMuch(Exception):
    """A tool says more than the store takes; it is told so, rather than heard later or not at all."""


class DriverLog:
    """What one driver sees and writes of its thread.

    ``alive`` tells whether the lease may still hold; ``on_foreign`` is called when a batch by somebody else was seen.
    """

    def __init__(
        self,
        store: Store,
        desk: Desk,
        joined: Joined,
        *,
        thread: str,
        fence: int,
        alive: Callable[[], bool],
        on_foreign: Callable[[], None],
    ) -> None:
        self.thread = thread
        self.fence = fence
        self._store = store
        self._desk = desk
        self._alive = alive
        self._on_foreign = on_foreign
        self._view = build(thread, joined.checkpoint, joined.messages, joined.messages_before)
        for batch in joined.batches:
            fold(self._view, e.decode_events(batch.body))
        self._cursor = joined.head.cursor
        self._rev = (joined.head.rev, joined.head.mark)
        self._batch = 0
        self._since_checkpoint = joined.head.seq - joined.checkpoint_seq
        self._buffer: list[e.Event] = []
        self._progress: dict[str, int] = {}
        self._lock = asyncio.Lock()
        self._flusher: asyncio.Task[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._failed: LeaseLost | None = None
        self._tags: deque[str] = deque(maxlen=256)

    @property
    def view(self) -> ThreadState:
        """The fold at :attr:`cursor`. Read only."""
        return self._view

    @property
    def cursor(self) -> Cursor:
        return self._cursor

    def open_message(self) -> Message | None:
        """A copy of the message that is being written."""
        message = open_message(self._view)
        return None if message is None else copy.deepcopy(message)

    def finished_message(self) -> Message | None:
        """As :meth:`open_message`, with every text complete, as clients fold the end of a message."""
        message = self.open_message()
        for part in message["parts"] if message else ():
            if part["type"] == "text" or part["type"] == "reasoning":
                part["state"] = "done"
        return message

    # --- writing

    async def emit(self, event: e.Event) -> None:
        """Append an event soon, in order; waits only when too many are not stored yet."""
        if self._failed is not None:
            raise self._failed
        self._buffer.append(event)
        if self._flusher is None:
            self._flusher = asyncio.create_task(self._flush_soon(), name=f"flush {self.thread}")
        if len(self._buffer) >= MAX_BUFFERED:
            self._room.clear()
        if not self._room.is_set():
            await self._room.wait()

    def emit_nowait(self, event: e.Event) -> None:
        """Like :meth:`emit` for callers that cannot wait; dropped when the driver has failed.

        Raises :class:`TooMuch` where :meth:`emit` would wait. Of a call's progress only the newest is kept.
        """
        if self._failed is None:
            self._append_or_replace(event)
            if self._flusher is None:
                self._flusher = asyncio.create_task(self._flush_soon(), name=f"flush {self.thread}")

    def _append_or_replace(self, event: e.Event) -> None:
        if isinstance(event, e.ToolProgress):
            # Only the newest counts: a tool that reports faster than the store writes must not fill the memory.
            at = self._progress.setdefault(event.tool_call_id, len(self._buffer))
            if at < len(self._buffer):
                self._buffer[at] = event
                return
        elif len(self._buffer) >= MAX_BUFFERED:
            raise TooMuch(f"{MAX_BUFFERED} events wait for the store already; await something between them")
        self._buffer.append(event)

    def drop_buffered(self) -> None:
        """Forget what is not stored yet."""
        self._buffer.clear()
        self._progress.clear()
        self._room.set()

    async def command(
        self, command: DriverCommand | Callable[[], DriverCommand], *, with_checkpoint: bool = False
    ) -> Driven | Stale:
        """Have a command decided and committed, after everything emitted so far. Raises :class:`LeaseLost`.

        A command that quotes the fold is given as a function, called when the fold holds all that comes before it. A
        cancelled caller does not cancel the write: an unnoticed write would leave the batch numbers out of step.
        """
        writing = asyncio.create_task(self._command(command, with_checkpoint))
        writing.add_done_callback(_seen)
        return await asyncio.shield(writing)

    async def _command(
        self, command: DriverCommand | Callable[[], DriverCommand], with_checkpoint: bool
    ) -> Driven | Stale:
        async with self._lock:
            await self._flush()
            driven = await self._desk.drive(
                self.thread,
                command() if callable(command) else command,
                fence=self.fence,
                batch=self._batch + 1,
                tag=self._own_tag(),
                alive=self._alive,
                view_checkpoint=self._checkpoint_after if with_checkpoint else None,
                base=self._rev if with_checkpoint else None,
            )
            match driven:
                case Lost():
                    raise self._fail()
                case Stale(snapshot):
                    await self._catch_up(snapshot)
                case Driven(snapshot=snapshot, committed=None):
                    pass
                case Driven(snapshot=snapshot, committed=Committed() as committed, events=events):
                    self._batch += 1
                    self._since_checkpoint = 0 if with_checkpoint else self._since_checkpoint + committed.count
                    await self._absorb(committed, events)
                    self._rev = (snapshot.head.rev, snapshot.head.mark)
            return driven

    async def sync(self, snapshot: Snapshot) -> None:
        """Bring the fold at least to where ``snapshot`` was read."""
        async with self._lock:
            await self._flush()
            await self._catch_up(snapshot)

    async def close(self) -> None:
        """Stop writing; what is buffered is dropped."""
        self.drop_buffered()
        if self._flusher is not None:
            self._flusher.cancel()
            await asyncio.gather(self._flusher, return_exceptions=True)

    # --- inside

    async def _flush_soon(self) -> None:
        try:
            while self._buffer:
                async with self._lock:
                    await self._flush()
        except LeaseLost:
            pass
        finally:
            self._flusher = None

    async def _flush(self) -> None:
        if self._failed is not None:
            raise self._failed
        # Once: what is emitted meanwhile comes after the command that waits for this, however much it is.
        if self._buffer:
            events, self._buffer = self._buffer, []
            self._progress.clear()
            self._room.set()
            await self._append(events)

    async def _append(self, events: list[e.Event]) -> None:
        due = self._since_checkpoint + len(events) >= CHECKPOINT_EVERY
        for checkpointed in (True, True, False) if due else (False,):
            commit = Commit(
                thread=self.thread,
                log=self._cursor.log,
                tag=self._own_tag(),
                # A checkpoint is exact only if nobody else wrote since our fold; the revision guards that.
                rev=self._rev[0] if checkpointed else None,
                mark=self._rev[1] if checkpointed else "",
                fence=self.fence,
                batch=self._batch + 1,
                count=len(events),
                body=e.encode_events(events),
                checkpoint=self._checkpoint_after(events) if checkpointed else None,
            )
            result = await persist(lambda commit=commit: self._store.commit(commit), self._alive)  # type: ignore[misc]
            match result:
                case Committed():
                    self._batch += 1
                    self._since_checkpoint = 0 if checkpointed else self._since_checkpoint + len(events)
                    await self._absorb(result, events)
                    return
                case Conflict(head) if checkpointed:
                    # Somebody's command came between: with it in the fold the checkpoint is exact again.
                    await self._read_on()
                    self._rev = (head.rev, head.mark)
                case Fenced() | Conflict() | None:
                    raise self._fail()
                case Known():
                    raise AssertionError("a driver's append carries no outcome")

    def _own_tag(self) -> str:
        tag = new_tag()
        self._tags.append(tag)
        return tag

    def wrote(self, tag: str) -> bool:
        """Whether this driver wrote (or is writing) the batch with this tag."""
        return tag in self._tags

    def _fail(self) -> LeaseLost:
        self._failed = LeaseLost(self.thread)
        self.drop_buffered()
        return self._failed

    async def _absorb(self, committed: Committed, events: Sequence[e.Event]) -> None:
        # Also a commit without events tells where the log stands; a fold that is behind must not pass for exact.
        if committed.prev == self._cursor.tag and committed.seq == self._cursor.seq + 1:
            if not events:
                return
            fold(self._view, events)
            last = committed.seq + committed.count - 1
            self._cursor = Cursor(log=committed.log, seq=last, tag=committed.tag)
            return
        self._on_foreign()
        await self._read_on()

    async def _catch_up(self, snapshot: Snapshot) -> None:
        rev = (snapshot.head.rev, snapshot.head.mark)
        if snapshot.head.seq > self._cursor.seq or rev != self._rev:
            await self._read_on()
        self._rev = rev

    async def _read_on(self) -> None:
        replay = await persist(lambda: self._store.replay(self.thread, self._cursor), self._alive)
        if not isinstance(replay, Replay):
            # The log was lost or replaced under us: whatever we know is void, and so is our lease.
            raise self._fail()
        for batch in replay.batches:
            fold(self._view, e.decode_events(batch.body))
            self._cursor = batch.cursor
        if replay.more:
            await self._read_on()

    def _checkpoint_after(self, events: Sequence[e.Event]) -> bytes:
        return checkpoint(fold(copy.deepcopy(self._view), events))


def _seen(writing: asyncio.Task[Driven | Stale]) -> None:
    # When the caller was cancelled nobody else looks at how its write ended.
    if not writing.cancelled():
        writing.exception()
