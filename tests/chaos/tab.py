"""A tab that does not give up: follows one thread across dead sockets and servers, resuming by its cursor.

Everything it is sent goes into the history by position; a hole or a repeat is seen by the view itself.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage

from support.client import Client, Refusal, View

from .history import History, Observer

__all__ = ["LOST", "Tab"]

LOST = (OSError, TimeoutError, ConnectionClosed, InvalidHandshake, InvalidMessage, EOFError)
"""What a connection to a server that dies, hangs or refuses can raise."""

PATIENCE = 4.0


class RecordedView(View):
    """A view whose events are compared with what other clients saw at the same positions."""

    def __init__(self, thread: str, history: History) -> None:
        super().__init__(thread)
        self._thread = thread
        self._history = history

    def _events(self, frame: dict[str, Any]) -> None:
        super()._events(frame)
        for offset, event in enumerate(frame["events"]):
            spelled = json.dumps(event, sort_keys=True)
            self._history.saw(self._thread, frame["log"], frame["seq"] + offset, spelled)


class Tab:
    """One follower of one thread. ``urls`` are the instances; each connection goes to one at random."""

    def __init__(self, name: str, thread: str, urls: list[str], history: History, seed: str) -> None:
        self.name = name
        self.thread = thread
        self.view = RecordedView(thread, history)
        self._urls = urls
        self._history = history
        self._random = random.Random(seed)
        self._client: Client | None = None
        self._stopping = False
        self._restless = True
        self._task = asyncio.create_task(self._follow(), name=name)

    def settle(self) -> None:
        """Leave no more connections on purpose."""
        self._restless = False

    async def stop(self) -> Observer:
        """Close; returns what was seen last."""
        self._stopping = True
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._leave()
        view = self.view
        return Observer(self.name, self.thread, dict(view.cursor), dict(view.state), list(view.resets))

    async def changed(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait until ``condition`` holds of the view, at most ``timeout`` seconds."""
        deadline = asyncio.get_running_loop().time() + timeout
        while not condition():
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0 or self._task.done():
                return False
            client = self._client
            if client is None or client.closed is not None:
                await asyncio.sleep(min(0.05, left))
                continue
            with suppress(AssertionError):
                await client.until(lambda client=client: condition() or client.closed, "", min(left, 0.5))
        return True

    async def _follow(self) -> None:
        while not self._stopping:
            try:
                await self._connection(self._random.choice(self._urls))
            except Refusal as refusal:
                if refusal.code != "unavailable":
                    self._history.complaints.append(f"{self.name}: could not follow {self.thread}: {refusal}")
                    return
            except LOST:
                pass
            except AssertionError as error:
                # The client's own deadlines are assertions too; only what the view asserts is a broken promise.
                if not str(error).startswith("not within"):
                    self._history.complaints.append(f"{self.name} on {self.thread}: {error!r}")
                    return
            try:
                await self._leave()
            except AssertionError as error:
                self._history.complaints.append(f"{self.name} on {self.thread}: {error!r}")
                return
            await asyncio.sleep(self._random.uniform(0.02, 0.3))

    async def _connection(self, url: str) -> None:
        client = self._client = await Client.open(url, deadline=PATIENCE)
        self._history.sockets += 1
        client.views[self.thread] = self.view
        self.view.live = False
        async with asyncio.timeout(2 * PATIENCE):
            await client.subscribe(self.thread, dict(self.view.cursor))
        if self.view.cursor["seq"]:
            self._history.resumes += 1
        loop = asyncio.get_running_loop()
        leave_at = loop.time() + self._random.expovariate(1 / 12)
        while client.closed is None and not (self._restless and loop.time() > leave_at):
            with suppress(AssertionError):
                await client.until(lambda: client.closed is not None, "", 0.5)
            client.frames.clear()

    async def _leave(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.cut()
