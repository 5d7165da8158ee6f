"""A WebSocket client for tests: speaks the protocol over a real socket, folds what it hears, and checks the chain.

Independent of the server's code: only the wire shapes and the reference fold are shared.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import Any

import msgpack
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from waitpoint_protocol import events as e
from waitpoint_protocol.state import ThreadState, empty
from waitpoint_protocol.view import apply

DEADLINE = 15.0

_ids = itertools.count(1)


class Refusal(Exception):
    """A command was refused; ``frame`` is the reject."""

    def __init__(self, frame: dict[str, Any]) -> None:
        self.frame = frame
        self.code: str = frame["code"]
        super().__init__(f"{frame['code']}: {frame['message']}")


class View:
    """What this client knows of a thread."""

    def __init__(self, thread: str) -> None:
        self.state: ThreadState = empty(thread)
        self.cursor: dict[str, Any] = {"log": "", "seq": 0, "tag": ""}
        self.live = False
        self.resets: list[str] = []
        self.snapshots = 0
        self.events: list[dict[str, Any]] = []
        self._pieces: list[dict[str, Any]] = []

    def hear(self, frame: dict[str, Any]) -> None:
        match frame["type"]:
            case "snapshot":
                self._snapshot(frame)
            case "reset":
                self.resets.append(frame["why"])
                self.live = False
            case "live":
                assert frame["cursor"] == self.cursor, (frame["cursor"], self.cursor)
                self.live = True
            case "events":
                self._events(frame)

    def _snapshot(self, frame: dict[str, Any]) -> None:
        self._pieces.append(frame)
        if frame.get("part", {"index": 1, "of": 1})["index"] < frame.get("part", {"of": 1})["of"]:
            return
        pieces, self._pieces = self._pieces, []
        self.state = pieces[-1]["state"]
        self.state["messages"] = [message for piece in pieces for message in piece["state"]["messages"]]
        self.state["before"] = pieces[0]["state"]["before"]
        self.cursor = frame["cursor"]
        self.snapshots += 1

    def _events(self, frame: dict[str, Any]) -> None:
        # A hole or a repeat is a broken promise 7: fail where it is seen.
        assert frame["seq"] == self.cursor["seq"] + 1, f"expected {self.cursor['seq'] + 1}, got {frame['seq']}"
        assert frame["prev"] == self.cursor["tag"], "the chain of tags is broken"
        assert self.cursor["log"] in ("", frame["log"])
        for event in e.decode_events(json.dumps(frame["events"])):
            apply(self.state, event)
        self.events.extend(frame["events"])
        last = frame["seq"] + len(frame["events"]) - 1
        self.cursor = {"log": frame["log"], "seq": last, "tag": frame["tag"]}

    # --- reading

    @property
    def pending(self) -> list[Any]:
        return list(self.state["pending"])

    @property
    def tools(self) -> list[Any]:
        """Tool parts of the newest assistant message."""
        for message in reversed(self.state["messages"]):
            if message["role"] == "assistant":
                return [part for part in message["parts"] if part["type"] == "tool"]
        return []

    def tool(self, call_id: str) -> Any:
        return next(part for part in self.tools if part["toolCallId"] == call_id)

    @property
    def text(self) -> str:
        """Text of the newest assistant message."""
        for message in reversed(self.state["messages"]):
            if message["role"] == "assistant":
                return "".join(part["text"] for part in message["parts"] if part["type"] == "text")
        return ""

    def knows(self, message: str) -> bool:
        return any(known["id"] == message for known in [*self.state["messages"], *self.state["queued"]])

    @property
    def idle(self) -> bool:
        return self.live and self.state["status"] == "idle" and not self.state["queued"] and self._all_final()

    def _all_final(self) -> bool:
        return all(message["status"] == "final" for message in self.state["messages"])


class Client:
    """One socket. ``await Client.open(url)``; commands return the ack or raise :class:`Refusal`."""

    def __init__(self, socket: ClientConnection, binary: bool) -> None:
        self.socket = socket
        self.binary = binary
        self.welcome: dict[str, Any] = {}
        self.views: dict[str, View] = {}
        self.frames: list[dict[str, Any]] = []
        self.closed: tuple[int, str] | None = None
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._changed = asyncio.Condition()
        self._failure: BaseException | None = None
        self._reader: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        subprotocol: str = "waitpoint.v1.json",
        hello: dict[str, Any] | None = None,
        origin: str | None = None,
        headers: dict[str, str] | None = None,
        deadline: float = DEADLINE,
    ) -> Client:
        """Connect and be welcomed within ``deadline`` seconds; nothing is left behind when that fails."""
        socket = await connect(
            url,
            subprotocols=[subprotocol],  # type: ignore[list-item]
            origin=origin,  # type: ignore[arg-type]
            additional_headers=headers,
            compression=None,
            max_size=None,
            ping_interval=None,
            open_timeout=deadline,
        )
        client = cls(socket, subprotocol.endswith("msgpack"))
        client._reader = asyncio.create_task(client._read())
        try:
            await client.send({"type": "hello", **(hello or {})})
            await client.until(lambda: bool(client.welcome), "welcome", deadline)
        except BaseException:
            await client.cut()
            raise
        return client

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- talking

    async def send(self, frame: dict[str, Any] | list[Any]) -> None:
        await self.send_raw(msgpack.packb(frame) if self.binary else json.dumps(frame))

    async def send_raw(self, message: str | bytes) -> None:
        await self.socket.send(message)

    async def command(self, type: str, id: str | None = None, **fields: Any) -> dict[str, Any]:
        """Send a command and return its ack; raises :class:`Refusal`."""
        command_id = id or f"t{next(_ids)}"
        future = self._waiting[command_id] = asyncio.get_running_loop().create_future()
        await self.send({"type": type, "id": command_id, **fields})
        frame = await asyncio.wait_for(future, DEADLINE)
        if frame["type"] == "reject":
            raise Refusal(frame)
        return frame

    async def subscribe(self, thread: str, cursor: dict[str, Any] | None = None) -> View:
        """Follow a thread and wait until live. With a cursor the known view is kept."""
        view = self.views.get(thread)
        if view is None or cursor is None:
            view = self.views[thread] = View(thread)
        view.live = False
        frame: dict[str, Any] = {"type": "subscribe", "id": f"t{next(_ids)}", "thread": thread}
        if cursor is not None:
            frame["from"] = cursor
        future = self._waiting[frame["id"]] = asyncio.get_running_loop().create_future()
        await self.send(frame)
        await self.until(lambda: view.live or future.done(), f"live on {thread}")
        if future.done() and future.result()["type"] == "reject":
            raise Refusal(future.result())
        await self.until(lambda: view.live, f"live on {thread}")
        return view

    async def resume(self, thread: str, other: Client) -> View:
        """Follow a thread from where another client's view stands."""
        known = other.views[thread]
        self.views[thread] = known
        return await self.subscribe(thread, dict(known.cursor))

    async def say(self, thread: str, text: str, id: str | None = None) -> dict[str, Any]:
        """Send a message; where the thread is followed, wait until it shows (the ack may come first)."""
        ack = await self.command("message", id, thread=thread, parts=[{"type": "text", "text": text}])
        view = self.views.get(thread)
        if view is not None and view.live:
            await self.until(lambda: view.knows(ack["message"]), "the message to show")
        return ack

    async def submit(self, thread: str, action: str, data: Any, id: str | None = None) -> dict[str, Any]:
        return await self.command("submit", id, thread=thread, action=action, data=data)

    async def close(self) -> None:
        await self.socket.close()
        await self._stop_reading()

    async def cut(self) -> None:
        """Tear the TCP connection down without a close handshake."""
        self.socket.transport.abort()
        await self._stop_reading()

    async def _stop_reading(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        if self._failure is not None:
            raise self._failure

    # --- listening

    async def until(self, condition: Callable[[], Any], what: str = "", deadline: float = DEADLINE) -> None:
        """Wait until ``condition()`` holds; fails loudly when it does not in time, or when a promise breaks."""

        def settled() -> bool:
            return self._failure is not None or bool(condition())

        try:
            async with asyncio.timeout(deadline), self._changed:
                await self._changed.wait_for(settled)
        except TimeoutError:
            states = {thread: view.state for thread, view in self.views.items()}
            raise AssertionError(
                f"not within {deadline} s: {what or condition}; closed={self.closed}; {json.dumps(states)[:4000]}"
            ) from None
        if self._failure is not None:
            raise self._failure

    async def wait_closed(self) -> tuple[int, str]:
        await self.until(lambda: self.closed is not None, "the socket to close")
        assert self.closed is not None
        return self.closed

    async def _read(self) -> None:
        try:
            async for message in self.socket:
                frames = msgpack.unpackb(message) if isinstance(message, bytes) else json.loads(message)
                for frame in frames if isinstance(frames, list) else [frames]:
                    await self._hear(frame)
        except ConnectionClosed:
            pass
        except BaseException as failure:
            if not isinstance(failure, asyncio.CancelledError):
                self._failure = failure
            raise
        finally:
            self.closed = (self.socket.close_code or 1006, self.socket.close_reason or "")
            async with self._changed:
                self._changed.notify_all()

    async def _hear(self, frame: dict[str, Any]) -> None:
        self.frames.append(frame)
        match frame["type"]:
            case "welcome":
                self.welcome = frame
            case "ping":
                await self.send({"type": "pong"})
            case "ack" | "reject":
                future = self._waiting.pop(frame.get("id", ""), None)
                if future is not None and not future.done():
                    future.set_result(frame)
            case "snapshot" | "events" | "reset" | "live":
                self.views.setdefault(frame["thread"], View(frame["thread"])).hear(frame)
        async with self._changed:
            self._changed.notify_all()
