"""Who follows which thread on this instance. Knows channels and subscribers; no sockets.

A channel lives while somebody follows its thread and a little longer, so that a page that reloads finds it warm.
"""

from __future__ import annotations

import asyncio

from waitpoint_protocol.codes import ResetWhy

from ..store.types import Store
from .channel import Channel, Source
from .follow import Follow, Outlet
from .limits import Sizes

__all__ = ["Fanout"]

LINGER = 2.0
"""Seconds for which a channel that nobody follows is kept."""


class _Room:
    """A channel and its subscribers."""

    __slots__ = ("channel", "closing", "follows")

    def __init__(self, thread: str, source: Source, store: Store, sizes: Sizes) -> None:
        self.follows: set[Follow] = set()
        self.closing: asyncio.TimerHandle | None = None
        self.channel = Channel(thread, source, store, self, sizes)

    def advanced(self) -> None:
        for follow in self.follows:
            follow.advanced()

    def restarted(self, why: ResetWhy) -> None:
        for follow in self.follows:
            follow.restart(why)


class Fanout:
    """Hands out places in threads' logs."""

    def __init__(self, source: Source, store: Store, *, sizes: Sizes | None = None, linger: float = LINGER) -> None:
        self._source = source
        self._store = store
        self._sizes = sizes or Sizes()
        self._linger = linger
        self._rooms: dict[str, _Room] = {}
        self._subscriptions = 0

    @property
    def subscriptions(self) -> int:
        """Subscribers, over all threads."""
        return self._subscriptions

    @property
    def threads(self) -> int:
        """Threads with a channel."""
        return len(self._rooms)

    def follow(self, thread: str, outlet: Outlet) -> Follow:
        """A new subscriber of a thread; ``begin`` it, and :meth:`leave` it in the end."""
        room = self._rooms.get(thread)
        if room is None:
            room = self._rooms[thread] = _Room(thread, self._source, self._store, self._sizes)
        if room.closing is not None:
            room.closing.cancel()
            room.closing = None
        follow = Follow(room.channel, self._store, outlet)
        room.follows.add(follow)
        self._subscriptions += 1
        return follow

    def leave(self, follow: Follow) -> None:
        """The subscriber takes nothing any more. Doing it twice is harmless."""
        follow.leave()
        room = self._rooms.get(follow.thread)
        if room is None or follow not in room.follows:
            return
        room.follows.discard(follow)
        self._subscriptions -= 1
        if not room.follows:
            loop = asyncio.get_running_loop()
            room.closing = loop.call_later(self._linger, self._close, follow.thread, room)

    def _close(self, thread: str, room: _Room) -> None:
        if not room.follows and self._rooms.get(thread) is room:
            del self._rooms[thread]
            room.channel.close()

    def tidy(self, now: float) -> None:
        """Let channels forget what nobody wanted for a while."""
        for room in self._rooms.values():
            room.channel.tidy(now)

    def close(self) -> None:
        """Close every channel."""
        for room in self._rooms.values():
            if room.closing is not None:
                room.closing.cancel()
            for follow in room.follows:
                follow.leave()
            room.channel.close()
        self._rooms.clear()
        self._subscriptions = 0
