"""Everything one connection is sent, by one task at a time. Knows bytes, places in logs, and the ASGI ``send``.

Replies wait in a small queue; events wait in the threads' rings. The task takes all there is (up to a message's size),
puts it into one WebSocket message, sends it and looks again; it exists only while there is something to send, so an
idle connection costs none. A send that blocks therefore holds up this connection and nobody else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from waitpoint_protocol.codec import Codec

from .follow import Follow
from .peer import Peer

__all__ = ["Sender"]

logger = logging.getLogger(__name__)

MESSAGE_BYTES = 262_144
"""Frames are joined into messages of about this size."""

QUEUE_BYTES = 262_144
QUEUE_FRAMES = 512
"""Replies that may wait; above it nothing more is read from the peer."""

PROGRESS = 16_384
"""Bytes that a slow peer must take within the send timeout, or it counts as stalled."""

TAIL_BYTES = 1_048_576
"""What is still sent of the threads' events before a close."""


class Sender:
    """The way out of one connection. ``clock`` gives seconds."""

    __slots__ = (
        "_clock",
        "_close",
        "_over",
        "_peer",
        "_queue",
        "_queued",
        "_ready",
        "_room",
        "_send",
        "_since",
        "_task",
        "_unsent",
        "codec",
    )

    def __init__(
        self, codec: Codec, send: Callable[[dict[str, Any]], Awaitable[None]], peer: Peer, clock: Callable[[], float]
    ) -> None:
        self.codec = codec
        self._send = send
        self._peer = peer
        self._clock = clock
        self._queue: list[bytes] = []
        self._queued = 0
        self._ready: dict[Follow, None] = {}
        self._task: asyncio.Task[None] | None = None
        self._since: float | None = None
        self._unsent: int | None = None
        self._close: tuple[int, str] | None = None
        self._over = False
        self._room: asyncio.Event | None = None

    def put(self, frame: bytes) -> None:
        """Send a reply."""
        if self._close is None and not self._over:
            self._queue.append(frame)
            self._queued += len(frame)
            self._wake()

    def mark(self, follow: Follow) -> None:
        """A subscriber has something to take."""
        if self._close is None and not self._over:
            self._ready[follow] = None
            self._wake()

    def close(self, code: int, reason: str) -> None:
        """Send what is there, then close."""
        if self._close is not None or self._over:
            return
        tail = TAIL_BYTES
        for follow in self._ready:
            frames, _ = follow.take(tail)
            self._queue.extend(frames)
            size = sum(map(len, frames))
            self._queued += size
            tail -= size
        self._ready.clear()
        self._close = (code, reason)
        self._release()
        self._wake()

    def cut(self, code: int, reason: str) -> None:
        """Stop sending in the middle of whatever blocks, and close."""
        self.stop()
        self._peer.cut(code, reason)

    def abort(self) -> None:
        """Cut the connection off, whatever is still to be sent."""
        self.stop()
        self._peer.abort()

    def stop(self) -> None:
        """The peer is gone: send nothing any more."""
        self._over = True
        self._queue.clear()
        self._ready.clear()
        self._release()
        if self._task is not None:
            self._task.cancel()

    def blocked(self, now: float) -> float:
        """Seconds for which the peer has taken next to nothing of what waits for it. Ask regularly."""
        if self._since is None:
            return 0.0
        unsent = self._peer.unsent()
        if unsent is not None and (self._unsent is None or unsent <= self._unsent - PROGRESS):
            # Slow is not stalled: a message may take longer than the timeout over a bad link.
            if self._unsent is not None:
                self._since = now
            self._unsent = unsent
        return now - self._since

    async def room(self) -> None:
        """Wait until the replies that wait are few: a peer that does not read is not read from."""
        while (
            (self._queued > QUEUE_BYTES or len(self._queue) > QUEUE_FRAMES) and self._close is None and not self._over
        ):
            self._room = asyncio.Event()
            await self._room.wait()

    def _release(self) -> None:
        if self._room is not None:
            self._room.set()
            self._room = None

    def _wake(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            while (message := self._next()) is not None:
                self._since = self._clock()
                await self._send(message)
                self._since = self._unsent = None
            if self._close is not None:
                self._over = True
                self._since = self._clock()
                code, reason = self._close
                await self._send({"type": "websocket.close", "code": code, "reason": reason})
                self._peer.closing()
        except (OSError, RuntimeError) as error:
            # The peer vanished between a check and a send, or its close came first. Neither is anybody's mistake.
            logger.debug("connection lost while sending: %r", error)
            self._over = True
            self._queue.clear()
            self._ready.clear()
            self._release()
        finally:
            self._since = self._unsent = None
            self._task = None

    def _next(self) -> dict[str, Any] | None:
        frames: list[bytes] = []
        budget = MESSAGE_BYTES
        if self._queue:
            for frame in self._queue:
                if budget <= 0:
                    break
                frames.append(frame)
                budget -= len(frame)
            del self._queue[: len(frames)]
            self._queued -= MESSAGE_BYTES - budget
            self._release()
        while self._ready and budget > 0:
            follow = next(iter(self._ready))
            del self._ready[follow]
            taken, more = follow.take(budget)
            if more:
                self._ready[follow] = None  # behind the others: one busy thread must not starve the rest
            frames.extend(taken)
            budget -= sum(map(len, taken))
        if not frames:
            return None
        message = self.codec.join(frames)
        if self.codec.binary:
            return {"type": "websocket.send", "bytes": message}
        return {"type": "websocket.send", "text": message.decode()}
