"""The door of one instance: every connection, what they share, and how they are let in and sent away.

Knows how its own parts are put together. Does not know the chat, its tools or how threads are decided.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from waitpoint_protocol.codes import Close

from ..auth import Guard, read_connection
from ..store.types import Store
from .channel import Source
from .claims import ClaimDesk, Claims
from .drain import drain
from .fanout import Fanout
from .gate import CommandDesk, Gate
from .handshake import choose_codec
from .heartbeat import Clock, Heartbeat
from .limits import Limits, Sizes
from .peer import Peer
from .session import Session
from .socket import Receive, SendMessage, Socket

__all__ = ["Hub", "HubDesk"]

logger = logging.getLogger(__name__)

TIDY_EVERY = 5.0

AFTER_WINDOW = 5.0
"""Seconds for the answers in flight and the closing handshakes, after the window of a drain."""


class HubDesk(CommandDesk, ClaimDesk, Protocol):
    """What a hub needs of the desk."""


class Hub:
    """Accepts WebSocket connections and connects them to threads. ``endpoint`` is the ASGI application for ``/ws``.

    ``heartbeat`` and ``drain_window`` are in milliseconds, as in the settings; they and the two limits before them win
    over ``limits``, whose times are in seconds.
    """

    def __init__(
        self,
        store: Store,
        follower: Source,
        desk: HubDesk,
        guard: Guard | None = None,
        *,
        frame_bytes: int | None = None,
        max_subscriptions: int | None = None,
        max_connections: int = 10_000,
        heartbeat: int | None = None,
        drain_window: int | None = None,
        limits: Limits | None = None,
        sizes: Sizes | None = None,
        tick: float = 0.5,
    ) -> None:
        self.guard = guard or Guard()
        self.limits = _limits(limits or Limits(), frame_bytes, max_subscriptions, heartbeat, drain_window)
        self.gate = Gate(self.guard, desk, store)
        self.fanout = Fanout(follower, store, sizes=sizes)
        self.claims = Claims(desk, self.run, every=self.limits.claim_renewal)
        self.clock = Clock()
        self.draining = False
        self._store = store
        self._follower = follower
        self._max_connections = max_connections
        self._sockets: dict[Socket, None] = {}
        self._work: set[asyncio.Task[None]] = set()
        self._heartbeat = Heartbeat(self.clock, self._tick, interval=tick)
        self._tidied = 0.0

    # --- life

    async def start(self) -> None:
        """Begin to keep time. Connections may come before; their limits in time count from here."""
        self._heartbeat.start()

    async def drain(self, window: float | None = None, *, deadline: float | None = None) -> None:
        """Refuse new connections and empty the rest: clients get ``window`` seconds to leave by themselves.

        Whoever is left at the ``deadline`` (seconds from now; by default 5 s after the window) is cut off.
        """
        self.draining = True
        window = self.limits.drain_window if window is None else window
        deadline = window + AFTER_WINDOW if deadline is None else deadline
        await drain(self._sockets.keys(), window=window, deadline=deadline)

    async def stop(self) -> None:
        """Cut off whoever is left and finish what is being carried out."""
        self.draining = True
        await self._heartbeat.stop()
        for socket in tuple(self._sockets):
            socket.abort()
        if self._work:
            await asyncio.wait(tuple(self._work), timeout=1.0)
        for task in tuple(self._work):
            task.cancel()
        self.fanout.close()

    # --- numbers

    @property
    def connections(self) -> int:
        """Open connections."""
        return len(self._sockets)

    @property
    def subscriptions(self) -> int:
        """Threads followed, over all connections."""
        return self.fanout.subscriptions

    @property
    def healthy(self) -> bool:
        """Whether live events reach this instance."""
        return self._follower.healthy

    # --- connections

    async def endpoint(self, scope: Any, receive: Any, send: Any) -> None:
        """The ASGI application."""
        if scope["type"] != "websocket":
            await _upgrade_required(scope, receive, send)
            return
        message = await receive()
        if message["type"] != "websocket.connect":
            return
        codec, subprotocol = choose_codec(scope.get("subprotocols", []))
        try:
            await send({"type": "websocket.accept", "subprotocol": subprotocol})
        except (OSError, RuntimeError):
            return  # gone before it began
        if self.draining:
            await _close(receive, send, Close.DRAINING, "draining")
        elif codec is None:
            await _close(receive, send, Close.VERSION, "none of the offered subprotocols is spoken here")
        elif not self.guard.origin_allowed(read_connection(scope)):
            origin = read_connection(scope).origin
            logger.warning("refused a page of %s; add it to `origins` if it is yours", origin)
            await _close(receive, send, Close.ORIGIN, "pages of this origin are not allowed here")
        elif len(self._sockets) >= self._max_connections:
            logger.warning("refused a connection: there are %d already", len(self._sockets))
            await _close(receive, send, Close.TOO_MANY_CONNECTIONS, "too many connections")
        else:
            session = Session(
                "conn_" + secrets.token_urlsafe(9), self.limits, now=self.clock(), jitter=random.uniform(0.8, 1.2)
            )
            socket = Socket(self, session, partial(read_connection, scope), codec, receive, send)
            self._sockets[socket] = None
            try:
                await socket.run()
            finally:
                del self._sockets[socket]

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run work that outlives the connection it came by."""
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task

    def _tick(self, now: float) -> None:
        for socket in tuple(self._sockets):
            socket.tick(now)
        self.claims.tick(now)
        if now - self._tidied > TIDY_EVERY:
            self._tidied = now
            self.fanout.tidy(asyncio.get_running_loop().time())


def _limits(
    base: Limits, frame_bytes: int | None, subscriptions: int | None, heartbeat: int | None, drain_window: int | None
) -> Limits:
    return replace(
        base,
        frame_bytes=base.frame_bytes if frame_bytes is None else frame_bytes,
        subscriptions=base.subscriptions if subscriptions is None else subscriptions,
        heartbeat=base.heartbeat if heartbeat is None else heartbeat / 1000,
        drain_window=base.drain_window if drain_window is None else drain_window / 1000,
    )


async def _close(receive: Receive, send: SendMessage, code: Close, reason: str) -> None:
    try:
        await send({"type": "websocket.close", "code": code, "reason": reason})
    except (OSError, RuntimeError):
        return
    Peer(receive).closing()


async def _upgrade_required(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"upgrade", b"websocket"), (b"connection", b"upgrade")]
    await send({"type": "http.response.start", "status": 426, "headers": headers})
    await send({"type": "http.response.body", "body": b"open a WebSocket here\n"})
