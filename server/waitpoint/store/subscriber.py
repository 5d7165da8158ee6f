"""The subscriber connection: which channels are heard, and whether they really are.

Knows channels and bytes; has no idea of threads. What redis-py does on its own here (reconnect in silence, wait for a
dead link for a minute) is what loses messages, so this speaks to the connection itself: every SUBSCRIBE is confirmed,
a silent link is probed, a broken one rebuilt, and each gap is announced through ``on_gap``.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import hiredis
from redis.exceptions import RedisError

from .endpoint import Endpoint, Wire, send
from .types import StoreUnavailable

__all__ = ["Subscriber"]

logger = logging.getLogger(__name__)

CHUNK = 256
"""Channels in one SUBSCRIBE when a connection is rebuilt."""

BACKOFF = (0.05, 0.1, 0.2, 0.5, 1.0)


@dataclass(slots=True)
class _Expected:
    """A confirmation that is due: replies come in the order of the commands."""

    kind: bytes
    channel: bytes
    waiters: list[asyncio.Future[None]] = field(default_factory=list)


class Subscriber:
    """Hears channels over one connection of its own.

    ``on_message(channel, message)`` is called in order. ``on_gap()`` is called whenever messages may have been missed:
    each time a connection was (re)built and all its channels were confirmed.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        on_message: Callable[[bytes, bytes], None],
        on_gap: Callable[[], None],
        probe: float = 3.0,
    ) -> None:
        self._endpoint = endpoint
        self._on_message = on_message
        self._on_gap = on_gap
        self._probe = probe
        self._wanted: set[bytes] = set()
        self._outgoing: list[bytes] = []
        self._expected: deque[_Expected] = deque()
        self._carried: dict[bytes, list[asyncio.Future[None]]] = {}
        self._resubscribing = 0
        self._wake = asyncio.Event()
        self._rebuild = asyncio.Event()
        self._connected = False
        self._heard = False
        self._task: asyncio.Task[None] | None = None
        self._failures = 0
        self.healthy = False
        """Whether every wanted channel is being heard, as far as can be known."""

    @property
    def channels(self) -> frozenset[bytes]:
        """The channels that are to be heard."""
        return frozenset(self._wanted)

    def start(self) -> None:
        """Connect, and stay connected."""
        self._task = asyncio.create_task(self._run(), name=f"subscriber to {self._endpoint}")

    async def stop(self) -> None:
        """Close the connection. Whoever waits for a confirmation gets ``StoreUnavailable``."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._carry()
        for waiter in (waiter for waiters in self._carried.values() for waiter in waiters):
            if not waiter.done():
                waiter.set_exception(StoreUnavailable("the subscriber was stopped"))
        self._carried.clear()

    def rebuild(self) -> None:
        """Replace the connection: it was found not to hear what it should."""
        self._rebuild.set()

    async def subscribe(self, channel: bytes, *, timeout: float = 10.0) -> None:
        """Hear ``channel``; returns when the server has confirmed it. Survives reconnects for ``timeout`` s."""
        self._wanted.add(channel)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._connected:
            self._send(b"SUBSCRIBE", [channel])
            self._expected[-1].waiters.append(waiter)
        else:
            self._carried.setdefault(channel, []).append(waiter)
        try:
            async with asyncio.timeout(timeout):
                await waiter
        except TimeoutError:
            raise StoreUnavailable(f"{self._endpoint} did not confirm a subscription within {timeout:g} s") from None

    def unsubscribe(self, channel: bytes) -> None:
        """Hear ``channel`` no more. A later :meth:`subscribe` is sent after this and wins."""
        if channel in self._wanted:
            self._wanted.discard(channel)
            if self._connected:
                self._send(b"UNSUBSCRIBE", [channel])

    # --- one connection after the other

    async def _run(self) -> None:
        while True:
            reason = await self._connection()
            self.healthy = self._connected = False
            self._carry()
            delay = BACKOFF[min(self._failures, len(BACKOFF) - 1)]
            self._failures += 1
            logger.warning("the subscriber to %s is deaf, rebuilding: %s", self._endpoint, reason)
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))

    async def _connection(self) -> str:
        """Live through one connection; returns why it ended."""
        wire = self._endpoint.make()
        parts: list[asyncio.Task[None]] = []
        try:
            async with asyncio.timeout(self._probe * 2):
                await wire.connect()
            self._begin()
            work = (self._write(wire), self._read(wire), self._watch(), self._until_rebuild())
            parts = [asyncio.create_task(part) for part in work]
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            error = next(iter(done)).exception()
            if error is not None and not isinstance(error, (RedisError, OSError, TimeoutError)):
                logger.error("the subscriber to %s failed", self._endpoint, exc_info=error)
            return str(error) or type(error).__name__
        except (RedisError, OSError, TimeoutError) as error:
            return str(error) or type(error).__name__
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            await wire.disconnect(nowait=True)

    def _begin(self) -> None:
        self._rebuild.clear()
        self._outgoing.clear()
        self._expected.clear()
        self._connected = True
        self._heard = True
        for chunk in _chunks(sorted(self._wanted)):
            self._send(b"SUBSCRIBE", chunk)
        for expected in self._expected:
            expected.waiters.extend(self._carried.pop(expected.channel, ()))
        self._resubscribing = len(self._expected)
        if not self._resubscribing:
            self._complete()

    def _complete(self) -> None:
        self._failures = 0
        self.healthy = True
        self._on_gap()

    def _carry(self) -> None:
        """Keep those who still wait for a confirmation for the next connection."""
        for expected in self._expected:
            waiting = [waiter for waiter in expected.waiters if not waiter.done()]
            if waiting:
                self._carried.setdefault(expected.channel, []).extend(waiting)
        self._expected.clear()

    def _send(self, kind: bytes, channels: list[bytes]) -> None:
        self._outgoing.append(hiredis.pack_command((kind, *channels)))  # type: ignore[arg-type]
        self._expected.extend(_Expected(kind.lower(), channel) for channel in channels)
        self._wake.set()

    async def _write(self, wire: Wire) -> None:
        self._wake.set()
        while True:
            await self._wake.wait()
            self._wake.clear()
            outgoing, self._outgoing = self._outgoing, []
            if outgoing:
                await send(wire, outgoing)

    async def _read(self, wire: Wire) -> None:
        while True:
            reply = await wire.read_response(disable_decoding=True)
            self._heard = True
            if isinstance(reply, list) and reply[0] == b"message":
                try:
                    self._on_message(reply[1], reply[2])
                except Exception:
                    logger.exception("a published message could not be taken in")
            elif isinstance(reply, list) and reply[0] in (b"subscribe", b"unsubscribe"):
                self._confirmed(reply[0], reply[1])

    def _confirmed(self, kind: bytes, channel: bytes) -> None:
        expected = self._expected.popleft() if self._expected else None
        if expected is None or (expected.kind, expected.channel) != (kind, channel):
            raise RedisError(f"unexpected confirmation of {kind!r}")
        for waiter in expected.waiters:
            if not waiter.done():
                waiter.set_result(None)
        if self._resubscribing:
            self._resubscribing -= 1
            if not self._resubscribing:
                self._complete()

    async def _watch(self) -> None:
        while True:
            self._heard = False
            self._outgoing.append(b"*1\r\n$4\r\nPING\r\n")
            self._wake.set()
            await asyncio.sleep(self._probe)
            if not self._heard:
                # If it was this process that stood still, the answer is at hand: let the reader look first.
                await asyncio.sleep(0.05)
                if not self._heard:
                    raise TimeoutError(f"no answer to a probe within {self._probe:g} s")

    async def _until_rebuild(self) -> None:
        await self._rebuild.wait()
        raise ConnectionError("asked to rebuild")


def _chunks(channels: list[bytes]) -> Iterator[list[bytes]]:
    for start in range(0, len(channels), CHUNK):
        yield channels[start : start + CHUNK]
