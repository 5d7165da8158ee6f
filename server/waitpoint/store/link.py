"""One connection that many callers share: commands go out together, replies come back in order.

Knows commands, replies and what is known about a command whose reply did not come. Because replies are read by the link
and not by the callers, a cancelled caller cannot leave the connection out of step. Nothing is ever sent twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from typing import Any

import hiredis
from redis.exceptions import BusyLoadingError, RedisError, ResponseError

from .endpoint import Endpoint, Wire, send
from .types import StoreUnavailable, UnknownOutcome

__all__ = ["Argument", "Link"]

logger = logging.getLogger(__name__)

Argument = bytes | str | int

MAX_WAITING = 50_000
"""Commands that may be on their way at once; more are refused, since the store is not keeping up."""


class _Call:
    __slots__ = ("future", "packed")

    def __init__(self, packed: bytes, future: asyncio.Future[Any]) -> None:
        self.packed = packed
        self.future = future

    def settle(self, reply: Any) -> None:
        if self.future.done():  # the caller was cancelled; the command has run all the same
            return
        if isinstance(reply, Exception):
            self.future.set_exception(reply)
        else:
            self.future.set_result(reply)


class Link:
    """A shared connection to ``endpoint``, opened when it is needed and again after it broke.

    A command that gets no reply within ``timeout`` seconds (up to twice that while the loop is busy) breaks the
    connection.
    """

    def __init__(self, endpoint: Endpoint, *, timeout: float = 5.0) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        self._waiting: deque[_Call] = deque()
        self._sent: deque[_Call] = deque()
        self._wake = asyncio.Event()
        self._abandoned = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def send(self, *args: Argument) -> asyncio.Future[Any]:
        """Queue a command; the future gets its reply.

        It fails with :class:`StoreUnavailable` if the command certainly was not run, with :class:`UnknownOutcome` if
        it was sent and its reply lost, with redis-py's ``ResponseError`` if the server refused it.
        """
        if self._closed:
            raise StoreUnavailable("the store was closed")
        if len(self._waiting) + len(self._sent) >= MAX_WAITING:
            raise StoreUnavailable(f"{MAX_WAITING} commands wait for the store at {self._endpoint} already")
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        packed = hiredis.pack_command(args)  # type: ignore[arg-type]  # its stub takes tuples of one only
        self._waiting.append(_Call(packed, future))
        self._wake.set()
        if self._task is None:
            self._task = asyncio.create_task(self._serve(), name=f"link to {self._endpoint}")
        return future

    async def call(self, *args: Argument) -> Any:
        """Send one command and wait for its reply; see :meth:`send` for what it raises."""
        return await self.send(*args)

    async def calls(self, commands: Iterable[tuple[Argument, ...]]) -> list[Any]:
        """Send commands together and wait for all replies; the first failure is raised."""
        futures = [self.send(*command) for command in commands]
        replies = await asyncio.gather(*futures, return_exceptions=True)
        for reply in replies:
            if isinstance(reply, BaseException):
                raise reply
        return replies

    def abandon(self) -> None:
        """Give the present connection up: it leads to a server that cannot serve (a demoted master, say)."""
        self._abandoned.set()

    async def close(self) -> None:
        """Close the connection. What waits for a reply fails."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _serve(self) -> None:
        try:
            while not self._closed:
                wire = self._endpoint.make()
                try:
                    # redis-py bounds the TCP connect only, not the handshake after it.
                    async with asyncio.timeout(self._timeout):
                        await wire.connect()
                except (RedisError, OSError, TimeoutError) as error:
                    await wire.disconnect(nowait=True)
                    self._fail_waiting(StoreUnavailable(f"cannot connect to {self._endpoint}: {_text(error)}"))
                    return
                reason = await self._use(wire)
                lost = UnknownOutcome(f"the connection to {self._endpoint} broke before the reply: {_text(reason)}")
                self._fail_sent(lost)
                if not self._waiting:
                    return
        finally:
            self._task = None
            self._fail_sent(UnknownOutcome("the store was closed before the reply"))
            if self._closed:
                self._fail_waiting(StoreUnavailable("the store was closed"))
            elif self._waiting:  # the loop was left by an error nobody foresaw: nobody may wait for ever
                self._fail_waiting(StoreUnavailable(f"the link to {self._endpoint} ended"))

    async def _use(self, wire: Wire) -> BaseException:
        """Serve commands over a connection until it breaks; returns why."""
        self._abandoned.clear()
        self._wake.set()
        work = (self._write(wire), self._read(wire), self._watch(), self._until_abandoned())
        parts = [asyncio.create_task(part) for part in work]
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            reason = next(iter(done)).exception()
            assert reason is not None
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            await wire.disconnect(nowait=True)
        if not isinstance(reason, (RedisError, OSError, TimeoutError)):
            logger.error("the link to %s failed", self._endpoint, exc_info=reason)
        return reason

    async def _write(self, wire: Wire) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            packed: list[bytes] = []
            while self._waiting and not self._abandoned.is_set():
                call = self._waiting.popleft()
                if not call.future.cancelled():
                    packed.append(call.packed)
                    # From here on it may have been run, whatever happens.
                    self._sent.append(call)
            if packed:
                await send(wire, packed)

    async def _read(self, wire: Wire) -> None:
        while True:
            try:
                reply = await wire.read_response(disable_decoding=True)
            except ResponseError as error:
                reply = error
            except BusyLoadingError as error:
                if self._sent:
                    self._sent.popleft().settle(StoreUnavailable(f"{self._endpoint} is loading its data"))
                raise error
            if not self._sent:
                raise RedisError("a reply that nobody asked for")
            self._sent.popleft().settle(reply)

    async def _watch(self) -> None:
        suspect: _Call | None = None
        while True:
            await asyncio.sleep(self._timeout)
            if suspect is not None and self._sent and self._sent[0] is suspect:
                # If it was this process that stood still, the reply is at hand: let the reader look first.
                await asyncio.sleep(0.05)
                if self._sent and self._sent[0] is suspect:
                    raise TimeoutError(f"no reply within {self._timeout:g} s")
            suspect = self._sent[0] if self._sent else None

    async def _until_abandoned(self) -> None:
        await self._abandoned.wait()
        while self._sent:  # what was sent may still be answered; nothing more is sent
            await asyncio.sleep(0.005)
        raise ConnectionError("the connection was abandoned")

    def _fail_sent(self, error: Exception) -> None:
        while self._sent:
            self._sent.popleft().settle(error)

    def _fail_waiting(self, error: Exception) -> None:
        while self._waiting:
            self._waiting.popleft().settle(error)


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
