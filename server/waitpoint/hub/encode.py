"""Spells what many subscribers get, once per codec. Knows frames as bytes; no sockets, no store.

Stored batches are JSON already: for JSON clients the frame is put around the stored body without reading it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgpack

from waitpoint_protocol.codec import Codec, dump_json
from waitpoint_protocol.codes import ResetWhy
from waitpoint_protocol.frames import Cursor, Live, Reset
from waitpoint_protocol.state import Message, ThreadState

from ..store.types import Batch

__all__ = ["events_frame", "live_frame", "reset_frame", "snapshot_frames"]


def events_frame(codec: Codec, thread: str, batch: Batch) -> bytes:
    """The ``events`` frame of a stored batch."""
    head = {
        "type": "events",
        "thread": thread,
        "log": batch.log,
        "seq": batch.seq,
        "prev": batch.prev,
        "tag": batch.tag,
    }
    if codec.binary:
        packed: bytes = msgpack.packb({**head, "events": json.loads(batch.body)})
        return packed
    return dump_json(head)[:-1].encode() + b',"events":' + batch.body + b"}"


def live_frame(codec: Codec, thread: str, cursor: Cursor) -> bytes:
    """The ``live`` frame at a cursor."""
    return codec.encode(Live(thread=thread, cursor=cursor))


def reset_frame(codec: Codec, thread: str, why: ResetWhy) -> bytes:
    """The ``reset`` frame."""
    return codec.encode(Reset(thread=thread, why=why))


def snapshot_frames(codec: Codec, thread: str, cursor: Cursor, state: ThreadState, *, part_bytes: int) -> list[bytes]:
    """The ``snapshot`` frames of a view: one, or several parts whose messages are joined in order."""
    shown = [dump_json(message).encode() for message in state["messages"]]
    pieces = _split([len(text) for text in shown], part_bytes)
    frames: list[bytes] = []
    for index, (start, end) in enumerate(pieces, 1):
        head: dict[str, Any] = {"type": "snapshot", "thread": thread, "cursor": cursor.model_dump()}
        if len(pieces) > 1:
            head["part"] = {"index": index, "of": len(pieces)}
        rest: dict[str, Any] = {name: value for name, value in state.items() if name != "messages"}
        if codec.binary:
            messages: Sequence[Message] = state["messages"][start:end]
            frames.append(msgpack.packb({**head, "state": {**rest, "messages": messages}}))
        else:
            spelled = dump_json(rest)[:-1].encode() + b',"messages":[' + b",".join(shown[start:end]) + b"]}"
            frames.append(dump_json(head)[:-1].encode() + b',"state":' + spelled + b"}")
    return frames


def _split(sizes: Sequence[int], limit: int) -> list[tuple[int, int]]:
    """Cut a row of sizes into runs of at most ``limit``, each with at least one item (if there is any)."""
    runs: list[tuple[int, int]] = []
    start, total = 0, 0
    for index, size in enumerate(sizes):
        if index > start and total + size > limit:
            runs.append((start, index))
            start, total = index, 0
        total += size
    runs.append((start, len(sizes)))
    return runs
