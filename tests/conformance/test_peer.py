"""The tests' own client: it must break when a server breaks the chain, or the transcripts prove less than they say."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from conformance.peer import Peer
from waitpoint_protocol.state import empty

EMPTY = {"log": "", "seq": 0, "tag": ""}


def snapshot(cursor: dict[str, Any] = EMPTY, **part: int) -> dict[str, Any]:
    frame = {"type": "snapshot", "thread": "t1", "cursor": cursor, "state": empty("t1")}
    return {**frame, "part": part} if part else frame


def batch(seq: int, prev: str, tag: str, count: int = 1, log: str = "g") -> dict[str, Any]:
    events = [{"type": "run-start", "run": "r", "at": "2026-12-01T08:00:00.000Z"}] * count
    return {"type": "events", "thread": "t1", "log": log, "seq": seq, "prev": prev, "tag": tag, "events": events}


def live(seq: int, tag: str, log: str = "g") -> dict[str, Any]:
    return {"type": "live", "thread": "t1", "cursor": {"log": log, "seq": seq, "tag": tag}}


RESET = {"type": "reset", "thread": "t1", "why": "gone"}
GOOD = [
    [snapshot(), live(0, "", ""), batch(1, "", "a"), batch(2, "a", "b", count=3), batch(5, "b", "c")],
    [snapshot({"log": "g", "seq": 7, "tag": "x"}), batch(8, "x", "y"), live(8, "y")],
    [snapshot(), RESET, snapshot({"log": "h", "seq": 1, "tag": "z"}), live(1, "z", "h")],
    [snapshot(EMPTY, index=1, of=2), snapshot(EMPTY, index=2, of=2), live(0, "", "")],
]  # fmt: skip
BAD = {
    "a hole": [snapshot(), batch(1, "", "a"), batch(3, "a", "b")],
    "a repeat": [snapshot(), batch(1, "", "a"), batch(1, "", "a")],
    "another tag before": [snapshot(), batch(1, "", "a"), batch(2, "x", "b")],
    "another log": [snapshot(), batch(1, "", "a"), batch(2, "a", "b", log="h")],
    "events before the snapshot": [batch(1, "", "a")],
    "events after a reset": [snapshot(), {"type": "reset", "thread": "t1", "why": "forked"}, batch(1, "", "a")],
    "an empty batch": [snapshot(), batch(1, "", "a", count=0)],
    "live somewhere else": [snapshot(), batch(1, "", "a"), live(2, "a")],
    "live too early": [snapshot(), live(1, "a"), batch(1, "", "a")],
    "parts out of order": [snapshot(EMPTY, index=2, of=2)],
    "what is no frame": [7],
}


@asynccontextmanager
async def saying(frames: list[Any]) -> Any:
    async def handle(socket: ServerConnection) -> None:
        await socket.recv()
        for frame in frames:
            await socket.send(json.dumps(frame))
        await socket.wait_closed()

    async with serve(handle, "127.0.0.1", 0) as server:
        peer = await Peer.open(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        try:
            await peer.send({"type": "hello", "subscribe": [{"thread": "t1"}]})
            yield peer
        finally:
            await peer.close()


@pytest.mark.parametrize("frames", GOOD)
async def test_a_chain_that_holds_is_taken(frames: list[Any]) -> None:
    async with saying(frames) as peer:
        await peer.until(lambda: "frames", lambda: len(peer.frames) == len(frames))


@pytest.mark.parametrize("frames", BAD.values(), ids=BAD.keys())
async def test_a_broken_chain_breaks_the_client(frames: list[Any]) -> None:
    async with saying(frames) as peer:
        with pytest.raises(AssertionError, match=r"broke|Error"):
            await peer.until(lambda: "nothing", lambda: False)


async def test_anything_after_an_acknowledged_unsubscribe_breaks_the_client() -> None:
    async with saying([snapshot(), {"type": "ack", "id": "u1"}, batch(1, "", "a")]) as peer:
        await peer.send({"type": "unsubscribe", "id": "u1", "thread": "t1"})
        with pytest.raises(AssertionError, match="of a thread that was left"):
            await peer.until(lambda: "nothing", lambda: False)
