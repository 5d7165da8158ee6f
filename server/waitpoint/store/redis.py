"""The store on Redis or Valkey: each method is one script or one pipelined read.

Knows keys, scripts and replies; has no idea what an event means. Writes share one connection and reads another, so that
a large read never stands in front of a commit. A write whose reply was lost raises ``UnknownOutcome`` and is never sent
again from here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any

from redis.exceptions import NoScriptError, ResponseError

from waitpoint_protocol.frames import Cursor

from ..errors import StoreError
from . import replies, startup
from .clock import StoreClock
from .endpoint import Endpoint
from .keys import DEFAULT_PARTITIONS, Keys
from .link import Argument, Link
from .scripts import script
from .types import (
    Busy,
    Claimed,
    Commit,
    CommitResult,
    Due,
    Head,
    Joined,
    NotDue,
    ReplayResult,
    StoreUnavailable,
    UnknownOutcome,
)

__all__ = ["RedisStore"]

REPLAY_BYTES = 4 * 1024 * 1024
"""Bodies that one replay returns at most; the rest comes with the next one."""

# Answers of a server that ran nothing and may run it later.
_LATER = ("OOM", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MISCONF", "BUSY", "LOADING")

_DEMOTED = ("READONLY", "MASTERDOWN")

_MARK = re.compile(r"[!-~]{0,64}")


class RedisStore:
    """The :class:`~waitpoint.store.types.Store` of an outside or embedded server.

    ``partitions`` is fixed at a store's first use. Call :meth:`open` before anything else.
    """

    def __init__(self, url: str, *, partitions: int = DEFAULT_PARTITIONS, timeout: float = 5.0) -> None:
        self._url = url
        self._timeout = timeout
        self.endpoint = Endpoint(url)
        self.keys = Keys(partitions)
        self._clock = StoreClock()
        self._writes = Link(self.endpoint, timeout=timeout)
        self._reads = Link(self.endpoint, timeout=timeout)

    async def open(self) -> None:
        """Check the store.

        Raises ``StoreUnavailable`` if it cannot be reached and ``StoreRefused`` if it must not be used. Both say what
        to change; the URL is named without its password.
        """
        try:
            await startup.check(self._reads, str(self.endpoint), self.keys.partitions)
        except (StoreUnavailable, UnknownOutcome) as error:
            raise StoreUnavailable(
                f"{str(error).rstrip('.')}. Is it running? WAITPOINT_REDIS_URL says where it is"
            ) from None
        sent = time.monotonic()
        seconds, micros = await self._reads.call(b"TIME")
        self._clock.learn(int(seconds) * 1000 + int(micros) // 1000, sent, time.monotonic())

    async def close(self) -> None:
        """Close the connections."""
        await self._writes.close()
        await self._reads.close()

    def twin(self, *, timeout: float | None = None) -> RedisStore:
        """The same store over connections of its own, for use on another event loop; silence may be borne less long."""
        timeout = self._timeout if timeout is None else min(timeout, self._timeout)
        return RedisStore(self._url, partitions=self.keys.partitions, timeout=timeout)

    def now(self) -> int:
        """The store's clock in ms, estimated to within the last round trip."""
        return self._clock.now()

    # --- the thread

    async def head(self, thread: str) -> Head:
        """Where a thread stands."""
        sent = time.monotonic()
        head = replies.head(await self._read_script("head", [self.keys.of(thread).thread], []))
        self._clock.learn(head.now, sent, time.monotonic())
        return head

    async def commit(self, commit: Commit) -> CommitResult:
        """Change a thread if every guard holds; see :class:`~waitpoint.store.types.Commit`."""
        _check(commit)
        keys = self.keys.of(commit.thread)
        names = [keys.thread, keys.log, keys.messages, keys.values, keys.outcomes, keys.due, keys.pending]
        sent = time.monotonic()
        result, now = replies.commit(await self._write("commit", names, _commit_args(commit, keys.channel)))
        if now is not None:
            self._clock.learn(now, sent, time.monotonic())
        return result

    async def join(self, thread: str, *, page: int) -> Joined:
        """Checkpoint, what follows it, and the last ``page`` finished messages before it, at one moment."""
        keys = self.keys.of(thread)
        return replies.joined(await self._read_script("join", [keys.thread, keys.log, keys.messages], [page]))

    async def replay(self, thread: str, cursor: Cursor, *, limit: int = 10_000) -> ReplayResult:
        """What follows ``cursor``: about ``limit`` events at most, always whole batches and at least one."""
        keys = self.keys.of(thread)
        args: list[Argument] = [cursor.log, cursor.seq, cursor.tag, limit, REPLAY_BYTES]
        return replies.replay(await self._read_script("replay", [keys.thread, keys.log], args))

    async def cursors(self, threads: Sequence[str]) -> list[Cursor]:
        """The heads of many threads, without their control state."""
        commands = [(b"HMGET", self.keys.of(thread).thread, b"log", b"seq", b"tag") for thread in threads]
        return [replies.cursor(fields) for fields in await self._read(commands)]

    async def values(self, thread: str, ids: Sequence[str]) -> list[bytes | None]:
        """Large values by id; ``None`` for what is not there."""
        return await self._fields(self.keys.of(thread).values, ids)

    async def outcomes(self, thread: str, names: Sequence[str]) -> list[bytes | None]:
        """Outcomes by name; ``None`` for what is not there."""
        return await self._fields(self.keys.of(thread).outcomes, names)

    async def messages(self, thread: str, *, before: int, limit: int) -> tuple[int, list[bytes]]:
        """Up to ``limit`` finished messages that precede position ``before``, and the first one's position."""
        key = self.keys.of(thread).messages
        start, end = max(0, before - limit), max(0, before)
        if start >= end:
            return start, []
        # The list only grows, so these two need not be one.
        [found, length] = await self._read([(b"LRANGE", key, start, end - 1), (b"LLEN", key)])
        if end > length:
            start, end = max(0, length - limit), length
            [found] = await self._read([(b"LRANGE", key, start, end - 1)]) if end else [[]]
        return start, list(found)

    async def delete(self, thread: str, *, pending: Sequence[str] = ()) -> bool:
        """Remove a thread for good, and ``pending`` ids from the index. Its followers learn that the log is lost."""
        keys = self.keys.of(thread)
        names = [keys.thread, keys.log, keys.messages, keys.values, keys.outcomes, keys.due, keys.pending]
        return bool(await self._write("delete", names, [thread, keys.channel, *pending]))

    # --- the schedule

    async def claim(self, thread: str, *, owner: str, nonce: str, lease: int) -> Claimed | Busy | NotDue:
        """Take the lease of a due thread for ``lease`` ms. The same ``nonce`` gets the same lease again."""
        keys = self.keys.of(thread)
        return replies.claim(await self._write("claim", [keys.thread, keys.due], [thread, owner, nonce, lease]))

    async def renew(self, thread: str, *, fence: int, lease: int) -> bool:
        """Move the lease's end to ``lease`` ms from now; ``False`` if it belongs to somebody else or nobody."""
        keys = self.keys.of(thread)
        sent = time.monotonic()
        held, now = await self._write("renew", [keys.thread, keys.due], [thread, fence, lease])
        self._clock.learn(int(now), sent, time.monotonic())
        return bool(int(held))

    async def release(self, thread: str, *, fence: int, rev: int, due: Due) -> Head | None:
        """Give the lease up and set the next appointment; if ``rev`` moved, keep it and return the head instead."""
        keys = self.keys.of(thread)
        args: list[Argument] = [thread, fence, rev, _due(due)]
        return replies.release(await self._write("release", [keys.thread, keys.due], args))

    async def due(self, *, limit: int) -> list[str]:
        """Threads that need a driver now, the longest waiting first."""
        now = self.now()
        found: list[tuple[float, str]] = []
        for reply in await self._read(
            [(b"ZRANGEBYSCORE", key, b"-inf", now, b"WITHSCORES", b"LIMIT", 0, limit) for key in self.keys.due()]
        ):
            found.extend((float(score), bytes(name).decode()) for name, score in zip(*[iter(reply)] * 2, strict=True))
        found.sort()
        return [name for _, name in found[:limit]]

    async def pending(self) -> list[tuple[str, bytes]]:
        """The pending index of all threads."""
        pairs: list[tuple[str, bytes]] = []
        for reply in await self._read([(b"HGETALL", key) for key in self.keys.pending()]):
            pairs.extend((bytes(name).decode(), value) for name, value in zip(*[iter(reply)] * 2, strict=True))
        return pairs

    # --- commands

    async def _write(self, name: str, keys: Sequence[bytes], args: Sequence[Argument]) -> Any:
        try:
            return await script(name).run(self._writes, keys, args)
        except ResponseError as error:
            raise self._judge(error) from None

    async def _read_script(self, name: str, keys: Sequence[bytes], args: Sequence[Argument]) -> Any:
        try:
            return await script(name).run(self._reads, keys, args)
        except ResponseError as error:
            raise self._judge(error) from None
        except UnknownOutcome as error:
            raise StoreUnavailable(str(error)) from None

    async def _read(self, commands: Sequence[tuple[Argument, ...]]) -> list[Any]:
        try:
            return await self._reads.calls(commands)
        except ResponseError as error:
            raise self._judge(error) from None
        except UnknownOutcome as error:
            raise StoreUnavailable(str(error)) from None

    async def _fields(self, key: bytes, names: Sequence[str]) -> list[bytes | None]:
        if not names:
            return []
        [found] = await self._read([(b"HMGET", key, *names)])
        return list(found)

    def _judge(self, error: ResponseError) -> Exception:
        code = str(getattr(error, "status_code", None) or str(error).partition(" ")[0])
        if code in _DEMOTED:
            # The same name may lead to the new master by now.
            self._writes.abandon()
            self._reads.abandon()
        if code in _LATER or isinstance(error, NoScriptError):
            return StoreUnavailable(f"the store at {self.endpoint} does not take writes now: {code} {error}")
        return StoreError(f"the store at {self.endpoint} refused a command: {error}")


def _due(due: Due | None) -> str:
    if due is None:
        return ""
    return "-" if due.at is None else str(due.at)


def _check(commit: Commit) -> None:
    """Refuse what no caller can mean."""
    if commit.control is not None and commit.rev is None:
        raise ValueError("a new control state needs the rev it was decided on")
    if not commit.log and not commit.new_log:
        raise ValueError("a thread that must not exist yet needs new_log")
    if commit.release and commit.fence is None:
        raise ValueError("only a driver can release a lease")
    if commit.batch and commit.fence is None:
        raise ValueError("batch numbers count under a fence")
    if bool(commit.count) is not bool(commit.body) or commit.count < 0 or commit.keep < 0:
        raise ValueError("count and body go together, and neither count nor keep is negative")
    for mark in (commit.log, commit.new_log, commit.tag, commit.mark):
        if not _MARK.fullmatch(mark):
            raise ValueError(f"a log id or tag is up to 64 visible ASCII characters, not {mark!r}")
    if commit.count and not commit.tag:
        raise ValueError("a batch needs a tag")


def _commit_args(commit: Commit, channel: bytes) -> list[Argument]:
    flags = "".join(
        letter
        for letter, given in (
            ("c", commit.control is not None),
            ("k", commit.checkpoint is not None),
            ("r", commit.release),
        )
        if given
    )
    puts = {name: value for name, value in commit.pending.items() if value is not None}
    drops = [name for name, value in commit.pending.items() if value is None]
    args: list[Argument] = [
        commit.thread,
        channel,
        commit.log,
        commit.new_log,
        "" if commit.rev is None else commit.rev,
        "" if commit.fence is None else commit.fence,
        commit.batch,
        commit.count,
        commit.tag,
        commit.body,
        flags,
        commit.control or b"",
        commit.checkpoint or b"",
        commit.keep,
        _due(commit.due),
        commit.mark,
        len(commit.outcomes),
        len(commit.puts),
        len(commit.drops),
        len(commit.messages),
        len(puts),
        len(drops),
    ]
    for table in (commit.outcomes, commit.puts):
        for name, value in table.items():
            args += (name, value)
    args += commit.drops
    args += commit.messages
    for name, value in puts.items():
        args += (name, value)
    args += drops
    return args
