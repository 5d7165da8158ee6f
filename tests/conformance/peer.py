"""A client for tests: one WebSocket, and the rules that PROTOCOL.md sets for what a server may send.

Knows sockets and the rules of cursors; judges nothing else. It breaks (and says why) when the chain of a thread does:
a hole, a repeat, an event before its snapshot. The view of a thread is folded by the reference fold.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from waitpoint_protocol.codec import JSON, MSGPACK, Codec
from waitpoint_protocol.events import decode_events
from waitpoint_protocol.packed import dump_msgpack
from waitpoint_protocol.state import ThreadState, empty
from waitpoint_protocol.text import dump_json
from waitpoint_protocol.values import Value
from waitpoint_protocol.view import fold

__all__ = ["Memory", "Peer", "View"]

Memory = dict[tuple[str, str, int, str], ThreadState]
"""Views by (thread, log, seq, tag): what a client that comes back with a cursor still has."""

DEADLINE = 15.0

NOWHERE = {"log": "", "seq": 0, "tag": ""}
"""The cursor of a thread in which nothing has happened."""


@dataclass(slots=True)
class View:
    """What this client has of one thread."""

    cursor: dict[str, Any]
    state: ThreadState | None
    live: bool = False
    parts: list[dict[str, Any]] = field(default_factory=list)


class Peer:
    """A connection. ``frames`` are those received and not yet claimed; ``events`` all events, in order."""

    def __init__(self, codec: Codec, memory: Memory) -> None:
        self.codec = codec
        self.frames: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.views: dict[str, View] = {}
        self.closed: tuple[int, str] | None = None
        self.seen = 0  # events that the transcript has passed
        self._memory = memory
        self._broken: str | None = None
        self._leaving: dict[str, str] = {}  # thread by the id of its unsubscribe
        self._left: set[str] = set()
        self._changed = asyncio.Condition()
        self._socket: ClientConnection
        self._reader: asyncio.Task[None]

    @classmethod
    async def open(
        cls, url: str, *, subprotocol: str = "json", memory: Memory | None = None, offer: list[str] | None = None
    ) -> Peer:
        """Connect, offering one subprotocol (or exactly those in ``offer``)."""
        peer = cls({"json": JSON, "msgpack": MSGPACK}[subprotocol], {} if memory is None else memory)
        offered = [Subprotocol(name) for name in ([peer.codec.name] if offer is None else offer)]
        peer._socket = await connect(url, subprotocols=offered or None, compression=None, max_size=None, proxy=None)
        peer._reader = asyncio.create_task(peer._read())
        return peer

    async def close(self) -> None:
        """Leave without a word."""
        self._socket.transport.abort()
        with suppress(ConnectionClosed):
            await self._socket.wait_closed()
        self._reader.cancel()
        await asyncio.wait([self._reader])

    async def send(self, value: Value) -> None:
        """Send a frame, a list of frames, or (text or bytes) something that may be none."""
        self._expect(value)
        message: str | bytes
        if isinstance(value, (str, bytes)):
            message = value
        else:
            message = dump_msgpack(value) if self.codec.binary else dump_json(value)
        with suppress(ConnectionClosed):
            await self._socket.send(message)

    async def until(self, what: Callable[[], str], condition: Callable[[], bool]) -> None:
        """Wait for a condition; ``what`` says what is missing when time is up."""
        try:
            async with asyncio.timeout(DEADLINE), self._changed:
                await self._changed.wait_for(lambda: self._broken is not None or condition())
        except TimeoutError:
            raise AssertionError(f"not within {DEADLINE:g} s: {what()}") from None
        assert self._broken is None, self._broken

    # --- what comes in

    def _expect(self, value: Value) -> None:
        """Remember where the client stands in the threads it asks for."""
        for frame in value if isinstance(value, list) else [value]:
            if not isinstance(frame, dict):
                continue
            asked = frame.get("subscribe", []) if frame.get("type") == "hello" else [frame]
            for one in asked if frame.get("type") in ("hello", "subscribe") else []:
                self._stand(one.get("thread"), one.get("from"))
            if frame.get("type") == "unsubscribe":
                self.views.pop(frame["thread"], None)
                self._leaving[frame.get("id", "")] = frame["thread"]

    def _stand(self, thread: Any, cursor: Any) -> None:
        if not isinstance(thread, str):
            return
        self._left.discard(thread)
        if thread in self.views and cursor is None:
            return
        known = None
        if isinstance(cursor, dict):
            known = self._memory.get((thread, cursor.get("log", ""), cursor.get("seq", 0), cursor.get("tag", "")))
        if cursor == NOWHERE:
            known = empty(thread)
        place = cursor if known is not None else {**NOWHERE, "seq": -1}
        self.views[thread] = View(place, copy.deepcopy(known))

    async def _read(self) -> None:
        try:
            async for message in self._socket:
                value = self.codec.parse(message)
                for frame in value if isinstance(value, list) else [value]:
                    await self._receive(frame)
                async with self._changed:
                    self._changed.notify_all()
        except ConnectionClosed:
            pass
        except Exception as error:
            self._broken = f"{type(error).__name__}: {error}"
        self.closed = (self._socket.close_code or 1006, self._socket.close_reason or "")
        async with self._changed:
            self._changed.notify_all()

    async def _receive(self, frame: dict[str, Any]) -> None:
        if frame["type"] in ("snapshot", "events", "live", "reset"):
            self._check(frame["thread"] not in self._left, f"{frame['type']} of a thread that was left")
        match frame["type"]:
            case "ping":
                await self.send({"type": "pong"})
                return
            case "ack" if frame["id"] in self._leaving:
                self._left.add(self._leaving.pop(frame["id"]))
            case "snapshot":
                self._snapshot(frame)
            case "events":
                self._batch(frame)
            case "live":
                view = self.views.get(frame["thread"])
                if view is not None:
                    self._check(view.cursor == frame["cursor"], f"live at {frame['cursor']}, not {view.cursor}")
                    view.live = True
            case "reset":
                if frame["thread"] in self.views:
                    self.views[frame["thread"]] = View({**NOWHERE, "seq": -1}, None)
            case _:
                pass
        self.frames.append(frame)

    def _snapshot(self, frame: dict[str, Any]) -> None:
        view = self.views.get(frame["thread"])
        if view is None:
            return  # of a thread that was left
        part = frame.get("part", {"index": 1, "of": 1})
        self._check(part["index"] == len(view.parts) + 1, f"part {part} after {len(view.parts)} parts")
        view.parts.append(frame)
        if part["index"] < part["of"]:
            return
        state = {**frame["state"], "messages": [m for piece in view.parts for m in piece["state"]["messages"]]}
        self.views[frame["thread"]] = fresh = View(frame["cursor"], state)  # type: ignore[arg-type]
        self._remember(frame["thread"], fresh)

    def _batch(self, frame: dict[str, Any]) -> None:
        view = self.views.get(frame["thread"])
        if view is None:
            return
        at = view.cursor
        self._check(view.state is not None, "events before a snapshot")
        self._check(at["log"] in ("", frame["log"]), f"events of log {frame['log']}, not {at['log']}")
        self._check(frame["seq"] == at["seq"] + 1, f"events from {frame['seq']} after {at['seq']}")
        self._check(frame["prev"] == at["tag"], f"prev {frame['prev']!r} after tag {at['tag']!r}")
        self._check(len(frame["events"]) > 0, "a batch without events")
        assert view.state is not None
        fold(view.state, decode_events(json.dumps(frame["events"])))
        view.cursor = {"log": frame["log"], "seq": frame["seq"] + len(frame["events"]) - 1, "tag": frame["tag"]}
        self.events.extend({**event, "thread": frame["thread"]} for event in frame["events"])
        self._remember(frame["thread"], view)

    def _remember(self, thread: str, view: View) -> None:
        at = view.cursor
        assert view.state is not None
        self._memory[thread, at["log"], at["seq"], at["tag"]] = copy.deepcopy(view.state)

    def _check(self, holds: bool, otherwise: str) -> None:
        if not holds and self._broken is None:
            self._broken = f"the server broke the chain: {otherwise}"
