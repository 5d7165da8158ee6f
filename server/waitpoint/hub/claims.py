"""The claims that connections of this instance hold: kept alive while the connection lives, given back when it is gone.

Knows connections by name and the desk. If this instance dies no claim is renewed, and each lapses by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from ..auth import Identity
from ..store.types import StoreUnavailable, UnknownOutcome

__all__ = ["ClaimDesk", "Claims"]

logger = logging.getLogger(__name__)

Key = tuple[str, str, str]
"""Connection, thread, action."""


class ClaimDesk(Protocol):
    """Keeps and ends claims. Raises ``StoreUnavailable``, ``UnknownOutcome`` or ``TimeoutError``."""

    async def renew_claim(self, thread: str, action: str, by: Identity, connection: str) -> bool: ...
    async def release_claim(self, thread: str, action: str, by: Identity, connection: str) -> None: ...


@dataclass(slots=True)
class _Held:
    by: Identity
    renew_at: float
    renewing: bool = False


class Claims:
    """Who of this instance has claimed what. ``run`` runs work that outlives a connection; times are in seconds."""

    def __init__(
        self, desk: ClaimDesk, run: Callable[[Coroutine[Any, Any, None]], object], *, every: float = 5.0
    ) -> None:
        self._desk = desk
        self._run = run
        self._every = every
        self._held: dict[Key, _Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def took(self, connection: str, by: Identity, thread: str, action: str, now: float) -> None:
        """A connection has claimed an action."""
        self._held[connection, thread, action] = _Held(by, now + self._every)

    def gave_back(self, connection: str, thread: str, action: str) -> None:
        """It released it, or ended it."""
        self._held.pop((connection, thread, action), None)

    def gone(self, connection: str) -> None:
        """The connection is no more: others may do what it had claimed."""
        for key in [key for key in self._held if key[0] == connection]:
            held = self._held.pop(key)
            self._run(self._release(key, held))

    def tick(self, now: float) -> None:
        """Renew what is due."""
        for key, held in self._held.items():
            if held.renew_at <= now and not held.renewing:
                held.renewing = True
                held.renew_at = now + self._every
                self._run(self._renew(key, held))

    async def _renew(self, key: Key, held: _Held) -> None:
        connection, thread, action = key
        try:
            if not await self._desk.renew_claim(thread, action, held.by, connection) and self._held.get(key) is held:
                del self._held[key]  # ended, or lapsed and taken by somebody else
        except (StoreUnavailable, UnknownOutcome, TimeoutError) as error:
            logger.info("thread %s: a claim was not renewed, tried again soon: %s", thread, error)
        finally:
            held.renewing = False

    async def _release(self, key: Key, held: _Held) -> None:
        connection, thread, action = key
        try:
            await self._desk.release_claim(thread, action, held.by, connection)
        except (StoreUnavailable, UnknownOutcome, TimeoutError) as error:
            logger.info("thread %s: a claim was not released and will lapse: %s", thread, error)
