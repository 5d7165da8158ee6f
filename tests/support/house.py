"""A hub on a real store behind a real server, in the test's own event loop, with a desk that only writes messages."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import secrets
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from waitpoint.auth import Guard, Identity
from waitpoint.hub import Hub
from waitpoint.store import RedisStore
from waitpoint.store.follow import Follower
from waitpoint.store.types import Commit, Committed, Joined
from waitpoint.thread.snapshot import checkpoint
from waitpoint_protocol import events as e
from waitpoint_protocol import frames
from waitpoint_protocol.state import Message, ThreadState

AT = "2026-01-01T00:00:00.000Z"
_numbers = itertools.count(1)


def message(text: str, id: str | None = None) -> Message:
    """A finished message of a person."""
    return {
        "id": id or f"m{next(_numbers)}",
        "role": "user",
        "parts": [{"type": "text", "text": text, "state": "done"}],
        "status": "final",
        "at": AT,
    }


class CountingStore(RedisStore):
    """A store that counts the joins it is asked for."""

    joins = 0

    async def join(self, thread: str, *, page: int) -> Joined:
        self.joins += 1
        return await super().join(thread, page=page)


class Writer:
    """Appends batches to a thread's log, as desks and runners do."""

    def __init__(self, store: RedisStore, thread: str) -> None:
        self.store = store
        self.thread = thread
        self._log: str | None = None
        self._lock = asyncio.Lock()

    async def write(
        self, *events: e.Event, view: ThreadState | None = None, messages: Sequence[Message] = (), keep: int = 1024
    ) -> Committed:
        """Append one batch. With ``view`` a checkpoint of it is stored and the log is trimmed to ``keep``."""
        async with self._lock:
            if self._log is None:
                self._log = (await self.store.head(self.thread)).log
            result = await self.store.commit(
                Commit(
                    thread=self.thread,
                    log=self._log,
                    new_log="" if self._log else secrets.token_urlsafe(9),
                    tag=secrets.token_urlsafe(6),
                    count=len(events),
                    body=e.encode_events(list(events)),
                    messages=[json.dumps(message).encode() for message in messages],
                    checkpoint=None if view is None else checkpoint(view),
                    keep=keep,
                )
            )
            assert isinstance(result, Committed), result
            self._log = result.log
            return result

    async def say(self, text: str) -> Committed:
        """A batch of one finished message."""
        return await self.write(e.MessageAdded(message=message(text)))

    async def title(self, title: str) -> Committed:
        """A batch of one small event."""
        return await self.write(e.ThreadUpdated(title=title))

    def forget(self) -> None:
        """The store was emptied: the next batch makes the thread anew."""
        self._log = None


@dataclass
class StubDesk:
    """Writes messages, acknowledges everything else; ``hold`` makes submits wait."""

    store: RedisStore
    writers: dict[str, Writer] = field(default_factory=dict)
    handled: list[tuple[str, str]] = field(default_factory=list)
    hold: asyncio.Event | None = None

    def writer(self, thread: str) -> Writer:
        return self.writers.setdefault(thread, Writer(self.store, thread))

    async def handle(
        self, thread: str, frame: frames.Command, identity: Identity, connection: str
    ) -> frames.Ack | frames.Reject:
        self.handled.append((identity.id, frame.id))
        if isinstance(frame, frames.SendMessage):
            said = message("".join(part.text for part in frame.parts if isinstance(part, frames.UserText)))
            await self.writer(thread).write(e.MessageAdded(message=said))
            return frames.Ack(id=frame.id, thread=thread, message=said["id"])
        if self.hold is not None:
            await self.hold.wait()
        return frames.Ack(id=frame.id, thread=thread)

    async def renew_claim(self, thread: str, action: str, by: Identity, connection: str) -> bool:
        self.handled.append((by.id, f"renew {action}"))
        return True

    async def release_claim(self, thread: str, action: str, by: Identity, connection: str) -> None:
        self.handled.append((by.id, f"release {action}"))


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # signals are the test runner's


@dataclass
class House:
    """Everything of one instance."""

    store: CountingStore
    follower: Follower
    desk: StubDesk
    hub: Hub
    port: int

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws"

    def writer(self, thread: str) -> Writer:
        return self.desk.writer(thread)


@contextlib.asynccontextmanager
async def house(
    redis_url: str, *, guard: Guard | None = None, send_buffer: int | None = None, **options: Any
) -> AsyncIterator[House]:
    """Start an instance; ``options`` go to the hub."""
    store = CountingStore(redis_url)
    await store.open()
    follower = Follower(store)
    await follower.start()
    desk = StubDesk(store)
    hub = Hub(store, follower, desk, guard, **{"tick": 0.05, **options})
    await hub.start()
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if send_buffer is not None:  # accepted sockets inherit it; a small one makes a stalled reader felt soon
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        hub.endpoint,
        interface="asgi3",
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        ws_ping_interval=None,
        ws_max_size=4_194_304,
        lifespan="off",
        log_level="warning",
        timeout_graceful_shutdown=2,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started:
            if serving.done():
                serving.result()
            await asyncio.sleep(0.005)
        yield House(store, follower, desk, hub, listener.getsockname()[1])
    finally:
        await hub.stop()
        server.should_exit = True
        await serving
        listener.close()
        await follower.stop()
        await store.close()
