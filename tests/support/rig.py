"""A store of a test's own, and server processes that each reach it through a proxy of their own.

So a test can cut, slow down or freeze one instance's way to the store, lead it to another store as a failover does, or
do to the store itself what would ruin a shared one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from waitpoint.store.scripts import script

from .client import Client
from .process import ServerProcess
from .proxy import CutProxy, cut_proxy
from .servers import Kind, RedisServer, start_server

__all__ = ["Instance", "Rig", "cut_replies", "eventually", "rig"]


@dataclass
class Instance:
    """A server process and its way to the store."""

    server: ServerProcess
    proxy: CutProxy


@dataclass
class Rig:
    """``store`` is the running store; ``instance`` and ``client`` make what a test needs, and all of it is closed."""

    store: RedisServer
    directory: Path
    chat: str
    stack: AsyncExitStack
    settings: dict[str, str] = field(default_factory=dict)
    instances: list[Instance] = field(default_factory=list)

    async def instance(self, name: str, **environment: str) -> Instance:
        """Start one more server."""
        proxy = await self.stack.enter_async_context(cut_proxy(self.store.port))
        server = ServerProcess(
            self.chat,
            proxy.url,
            self.directory,
            name=name,
            **{"WAITPOINT_RATE": "100000", **self.settings, **environment},
        )
        await self.stack.enter_async_context(server)
        made = Instance(server, proxy)
        self.instances.append(made)
        return made

    async def client(self, instance: Instance) -> Client:
        """A client of one instance."""
        return await self.stack.enter_async_context(await Client.open(instance.server.url))

    def no_exceptions(self) -> None:
        """Fail if a server met an exception that nobody foresaw."""
        for instance in self.instances:
            output = instance.server.log.read_text(errors="replace")
            assert "Traceback" not in output, output[output.index("Traceback") - 300 :][:3000]


@asynccontextmanager
async def rig(
    directory: Path, *, chat: str = "support.chats:chat", kind: Kind = "valkey", **settings: str
) -> AsyncIterator[Rig]:
    """A running store, and what is started on it until the end of the test."""
    async with AsyncExitStack() as stack:
        # Behind the servers on the stack, so that they can hand over what they hold before it goes.
        store = stack.enter_context(start_server(kind, directory / "store"))
        yield Rig(store, directory, chat, stack, settings)


class cut_replies:
    """Cut the connection in place of the reply of a script's run.

    ``name`` is the script, ``reply`` what its reply begins with, ``when`` looks at the request. Counts in ``cuts``.
    Requests of other connections that come in between are let through.
    """

    def __init__(self, proxy: CutProxy, name: str, reply: bytes, *, when: Callable[[bytes], bool]) -> None:
        self.cuts = 0
        self._proxy = proxy
        self._sha = script(name).sha.encode()
        self._text = script(name).text.encode()
        self._reply = re.compile(rb"\$\d+\r\n" + re.escape(reply) + rb"\r\n")
        self._when = when
        self._armed = False
        proxy.up.tap, proxy.down.tap = self._up, self._down

    def _up(self, chunk: bytes) -> bytes:
        if (self._sha in chunk or self._text in chunk) and self._when(chunk):
            self._armed = True
        return chunk

    def _down(self, chunk: bytes) -> bytes:
        if self._armed and self._reply.search(chunk):
            self._armed = False
            self.cuts += 1
            # Nothing of this chunk is passed on, and the connection is reset.
            self._proxy.down.cut_after = 0
        return chunk

    def stop(self) -> None:
        """Let everything through again."""
        self._proxy.up.tap = self._proxy.down.tap = None


async def eventually(condition: Callable[[], bool], what: str, timeout: float = 10.0) -> None:
    """Wait until ``condition()`` holds; fail after ``timeout`` seconds."""
    try:
        async with asyncio.timeout(timeout):
            while not condition():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"not within {timeout:g} s: {what}") from None
