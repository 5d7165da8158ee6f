"""The cut proxy: a TCP proxy that delays, cuts after so many bytes, withholds, or freezes, per direction.

It knows nothing of what passes; a ``Tap`` may look at (and alter) each chunk.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

__all__ = ["CutProxy", "Direction", "cut_proxy"]


@dataclass(slots=True)
class Direction:
    """What is done to the bytes that flow one way, over all connections."""

    delay: float = 0.0
    """Seconds that each chunk is held back."""
    cut_after: int | None = None
    """Bytes after which the connection is reset, counted from when this was set; the rest is not passed on."""
    tap: Callable[[bytes], bytes] | None = None
    """Sees each chunk and says what is passed on; may change delays for what follows."""
    passed: int = 0
    frozen: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.frozen.set()

    def freeze(self) -> None:
        """Hold back everything; connections stay open."""
        self.frozen.clear()

    def thaw(self) -> None:
        """Let it flow again, in order."""
        self.frozen.set()


class CutProxy:
    """Passes connections on to ``host:port``. ``up`` is towards the server, ``down`` towards the client."""

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        """Where new connections lead; may be changed, as a failover does."""
        self.up = Direction()
        self.down = Direction()
        self.port = 0
        self.accepted = 0
        self.refuse = False
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """As a store's URL."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def open(self) -> int:
        """Connections that are up now."""
        return len(self._writers) // 2

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Reset every connection."""
        for writer in self._writers:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self.refuse:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self.target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        for source, sink, direction in ((reader, far_writer, self.up), (far_reader, writer, self.down)):
            task = asyncio.create_task(self._pump(source, sink, direction, (writer, far_writer)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        direction: Direction,
        both: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
    ) -> None:
        try:
            while chunk := await source.read(65536):
                if direction.tap is not None:
                    chunk = direction.tap(chunk)
                if direction.delay:
                    await asyncio.sleep(direction.delay)
                await direction.frozen.wait()
                if direction.cut_after is not None:
                    passing = chunk[: max(0, direction.cut_after)]
                    direction.cut_after -= len(passing)
                    sink.write(passing)
                    direction.passed += len(passing)
                    if len(passing) < len(chunk) or direction.cut_after == 0:
                        await sink.drain()
                        direction.cut_after = None
                        return
                    continue
                sink.write(chunk)
                direction.passed += len(chunk)
                await sink.drain()
        except OSError:
            pass
        finally:
            for writer in both:
                self._writers.discard(writer)
                writer.transport.abort()


@contextlib.asynccontextmanager
async def cut_proxy(port: int, host: str = "127.0.0.1") -> AsyncIterator[CutProxy]:
    """A running proxy to ``host:port``."""
    proxy = CutProxy(host, port)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()
