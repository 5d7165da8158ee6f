"""Replies of the scripts, read into the store's vocabulary.

Knows the shapes that the Lua files document, and the one that a commit publishes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from waitpoint_protocol.frames import Cursor

from .types import (
    Batch,
    Busy,
    Claimed,
    CommitResult,
    Committed,
    Conflict,
    Fenced,
    Forked,
    Gone,
    Head,
    Joined,
    Known,
    LogLost,
    NotDue,
    Replay,
    ReplayResult,
)

__all__ = ["claim", "commit", "cursor", "head", "joined", "published", "release", "replay"]


def _text(value: bytes | None) -> str:
    return value.decode() if value else ""


def _number(value: bytes | None) -> int:
    return int(value) if value else 0


def head(fields: Sequence[bytes | None]) -> Head:
    """``read_head`` of the prelude."""
    log, seq, tag, rev, mark, control, fence, owner, until, now = fields
    return Head(
        log=_text(log),
        seq=_number(seq),
        tag=_text(tag),
        rev=_number(rev),
        mark=_text(mark),
        control=control or b"",
        fence=_number(fence),
        owner=_text(owner),
        lease_until=_number(until),
        now=_number(now),
    )


def cursor(fields: Sequence[bytes | None]) -> Cursor:
    """``log, seq, tag`` of a thread's hash."""
    log, seq, tag = fields
    return Cursor(log=_text(log), seq=_number(seq), tag=_text(tag))


def commit(reply: list[Any]) -> tuple[CommitResult, int | None]:
    """The result of ``commit.lua``, and the store's time if it says."""
    match reply[0]:
        case b"committed":
            repeated, log, seq, count, prev, tag, rev, now = reply[1:]
            committed = Committed(
                log=_text(log),
                seq=int(seq),
                count=int(count),
                prev=_text(prev),
                tag=_text(tag),
                rev=int(rev),
                now=int(now),
                repeated=repeated == b"1",
            )
            return committed, committed.now
        case b"conflict":
            there = head(reply[1])
            return Conflict(there), there.now
        case b"fenced":
            return Fenced(int(reply[1])), None
        case b"known":
            return Known(_text(reply[1]), reply[2]), None
        case other:
            raise AssertionError(f"commit.lua returned {other!r}")


def claim(reply: list[Any]) -> Claimed | Busy | NotDue:
    """The result of ``claim.lua``."""
    match reply[0]:
        case b"claimed":
            return Claimed(head(reply[2]), int(reply[1]))
        case b"busy":
            return Busy(_text(reply[1]), int(reply[2]))
        case b"not-due":
            return NotDue()
        case other:
            raise AssertionError(f"claim.lua returned {other!r}")


def release(reply: list[Any]) -> Head | None:
    """The result of ``release.lua``; a lease that is somebody else's leaves nothing to release."""
    return head(reply[1]) if reply[0] == b"moved" else None


def joined(reply: list[Any]) -> Joined:
    """The result of ``join.lua``."""
    fields, checkpoint, position, entries, messages, before = reply
    there = head(fields)
    return Joined(
        head=there,
        checkpoint=checkpoint,
        checkpoint_seq=int(position),
        batches=_batches(there.log, entries),
        messages=tuple(messages),
        messages_before=int(before),
    )


def replay(reply: list[Any]) -> ReplayResult:
    """The result of ``replay.lua``."""
    match reply[0]:
        case b"replay":
            _, log, seq, tag, more, entries = reply
            there = Cursor(log=_text(log), seq=int(seq), tag=_text(tag))
            return Replay(there, _batches(there.log, entries), more == b"1")
        case b"gone":
            return Gone()
        case b"forked":
            return Forked()
        case b"log-lost":
            return LogLost()
        case other:
            raise AssertionError(f"replay.lua returned {other!r}")


def _batches(log: str, entries: Sequence[Any]) -> tuple[Batch, ...]:
    return tuple(
        Batch(
            log=log,
            seq=int(entry_id.partition(b"-")[0]),
            count=int(fields[1]),
            prev=_text(fields[3]),
            tag=_text(fields[5]),
            body=fields[7],
        )
        for entry_id, fields in entries
    )


def published(message: bytes) -> Batch:
    """What a commit publishes (and ``delete.lua``: an empty batch of no log). Raises ``ValueError``."""
    log, seq, count, prev, tag, body = message.split(b"\n", 5)
    return Batch(log.decode(), int(seq), int(count), prev.decode(), tag.decode(), body)
