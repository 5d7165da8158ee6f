"""The bundled JavaScript client, watching threads in a node process of its own."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["Watcher"]

HERE = Path(__file__).resolve().parent
CLIENT = HERE.parents[1] / "client_js" / "index.js"


class Watcher:
    """Says how the JavaScript client sees threads."""

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, Any]] = {}
        self._changed = asyncio.Condition()
        self._process: asyncio.subprocess.Process
        self._reader: asyncio.Task[None]

    @classmethod
    async def start(cls) -> Watcher:
        node = shutil.which("node")
        assert node is not None, "node is needed to hold the JavaScript client to the transcripts"
        watcher = cls()
        watcher._process = await asyncio.create_subprocess_exec(
            node, "--experimental-websocket", "--no-warnings", str(HERE / "watcher.mjs"), CLIENT.as_uri(),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=16 * 1024 * 1024,
        )  # fmt: skip
        watcher._reader = asyncio.create_task(watcher._read())
        return watcher

    async def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(5):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._reader

    async def watch(self, url: str, thread: str, token: str | None) -> None:
        """Follow a thread."""
        self._seen[thread] = {"state": None, "live": False, "error": None}
        asked = {"url": url, "thread": thread}
        await self._say({"watch": asked if token is None else {**asked, "token": token}})

    async def leave(self, thread: str) -> None:
        """Follow it no longer."""
        await self._say({"leave": thread})

    def seen(self, thread: str) -> dict[str, Any]:
        """How the client sees the thread now: ``state``, ``live``, ``error``."""
        return self._seen[thread]

    async def until(self, what: Callable[[], str], condition: Callable[[], bool], seconds: float = 15) -> None:
        """Wait for a condition."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: condition() or self._process.returncode is not None)
        except TimeoutError:
            raise AssertionError(f"the JavaScript client, not within {seconds:g} s: {what()}") from None
        assert self._process.returncode is None, "the JavaScript client died; its words are above"

    async def _say(self, command: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        await self._process.stdin.drain()

    async def _read(self) -> None:
        assert self._process.stdout is not None
        with suppress(ConnectionError):
            async for line in self._process.stdout:
                said = json.loads(line)
                async with self._changed:
                    self._seen[said.pop("thread")] = said
                    self._changed.notify_all()
        await self._process.wait()
        async with self._changed:
            self._changed.notify_all()
