"""What a chat under test runs in: a server without sockets, its store, and the views of the threads that are looked at.

Knows how a server is started and stopped, and the fold of its logs. What a test says and sees is in ``testing.py``.
"""

from __future__ import annotations

import asyncio
import copy
import gc
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from typing import Any

from waitpoint_protocol import events as e
from waitpoint_protocol.codes import ResetWhy
from waitpoint_protocol.state import ThreadState, empty
from waitpoint_protocol.view import TERMINAL, fold

from .app import Chat, Server
from .models import Model
from .settings import Settings
from .store.feed import Feed
from .store.types import Batch
from .thread import appointment
from .thread.snapshot import build

__all__ = ["SAME", "House", "NotInTime"]

LOOK = 0.05
"""Seconds between looks at a condition when no event says that something moved."""

SAME: Any = object()
"""Stands for what the chat itself brings, where ``None`` is a value."""


class NotInTime(AssertionError):
    """What was waited for did not happen; the text says how the thread stands."""


class View:
    """The fold of one thread's log; a listener of its feed."""

    def __init__(self, thread: str) -> None:
        self.state = empty(thread)
        self.tag = ""
        self.moved = asyncio.Event()
        self._thread = thread
        self._feed: Feed | None = None

    def start(self, feed: Feed) -> None:
        self._feed = feed
        joined = feed.joined
        self.state = build(self._thread, joined.checkpoint, joined.messages, joined.messages_before)
        self.tag = joined.head.tag
        for batch in joined.batches:
            fold(self.state, e.decode_events(batch.body))
        for batch in tuple(feed.ring):
            if batch.seq > joined.head.seq:
                self.on_batch(batch)
        self.moved.set()

    def on_batch(self, batch: Batch) -> None:
        if self._feed is None:
            return  # what comes before the start is in the feed that is started from
        fold(self.state, e.decode_events(batch.body))
        self.tag = batch.tag
        self.moved.set()

    def on_reset(self, why: ResetWhy) -> None:
        if self._feed is not None:
            self.start(self._feed)


class House:
    """The server, its store, and the views of the threads that a test looks at."""

    server: Server

    def __init__(self, chat: Chat, model: Model | None, deps: Any, timeout: float, redis_url: str, lease: int) -> None:
        self.chat = chat
        self._model = model
        self._deps = deps
        self._timeout = timeout
        self._redis_url = redis_url
        self._lease = lease
        self._directory = ""
        self._views: dict[str, View] = {}
        self._running = False

    async def start(self) -> None:
        if not self._directory:
            self._directory = tempfile.mkdtemp(prefix="waitpoint-test-")
        chat = copy.copy(self.chat)
        if self._model is not None:
            chat.model = self._model
        if self._deps is not SAME:
            chat.deps = self._deps
        settings = Settings(
            redis_url=self._redis_url,
            data_dir=self._directory,
            lease=self._lease,
            look=100,
            drain_window=100,
            grace=4_000,
        )
        self.server = Server(chat, settings)
        await self.server.start()
        # Code under test speaks to threads through the chat that it knows, of which this server has a copy.
        self.chat._server = self.server
        self._running = True
        threads, self._views = list(self._views), {}
        for thread in threads:
            await self.follow(thread)

    async def stop(self, *, drain: bool) -> None:
        if self._running:
            self._running = False
            if drain:
                await self.server.drain()
            await self.server.stop()
            if self.chat._server is self.server:
                self.chat._server = None

    async def close(self) -> None:
        try:
            await self.stop(drain=False)
        finally:
            # A server keeps what it made at its start out of garbage collection, for ever; a test ends.
            gc.unfreeze()
            shutil.rmtree(self._directory, ignore_errors=True)

    async def follow(self, thread: str) -> None:
        if thread not in self._views:
            view = View(thread)
            view.start(await self.server.follower.attach(thread, view))
            self._views[thread] = view

    def seen(self, thread: str) -> ThreadState:
        view = self._views.get(thread)
        return view.state if view else empty(thread)

    async def settled(self, thread: str) -> bool:
        snapshot = await self.server.desk.refresh(thread)
        due = appointment(snapshot.thread)
        waits = due is None or due > self.server.store.now()
        return snapshot.thread.run is None and waits and self._views[thread].tag == snapshot.head.tag

    async def until(self, thread: str, condition: Callable[[], Awaitable[bool]], what: str) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._timeout
        while True:
            view = self._views[thread]
            view.moved.clear()
            if await condition():
                return
            left = end - loop.time()
            if left <= 0:
                raise NotInTime(f"waited {self._timeout:g} s for {what}; {_stands(view.state)}")
            try:
                async with asyncio.timeout(min(LOOK, left)):
                    await view.moved.wait()
            except TimeoutError:
                pass


def _stands(state: ThreadState) -> str:
    """How a thread stands, for a person who debugs a test."""
    said = [f"the thread is {state['status']}"]
    for message in state["messages"]:
        for part in message["parts"]:
            if part["type"] == "tool" and part["state"] not in TERMINAL:
                said.append(f"{part['toolName']} is {part['state']}")
    said += [f"{action['name']} is pending" for action in state["pending"]]
    if state["messages"] and (error := state["messages"][-1].get("errorText")):
        said.append(f"the last message ended in an error: {error}")
    return ", ".join(said)
