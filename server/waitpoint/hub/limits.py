"""What one connection may use, and the bucket that measures how fast. Numbers and arithmetic only; time is an argument.

Times are in seconds; only what is told to clients is in milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from waitpoint_protocol.values import MAX_DEPTH

__all__ = ["Limits", "Sizes", "TokenBucket"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a connection. Exceeding each has a named answer: a refusal code or a close code."""

    frame_bytes: int = 262_144
    """Largest client message in bytes of UTF-8 (``too-large``)."""

    subscriptions: int = 100
    """Threads followed at once (``forbidden``)."""

    in_flight: int = 64
    """Commands accepted and not yet answered (``busy``)."""

    histories: int = 4
    """Pages of old messages asked for and not yet answered (``busy``): their answers are large."""

    rate: float = 50.0
    """Frames per second that a connection may send on average (``rate-limited``)."""

    burst: int = 100
    """Frames that it may send at once."""

    patience: int = 500
    """Rate-limited frames after which it is taken for a flood (close 4004); a tenth of it is forgiven per second."""

    hello_timeout: float = 10.0
    """Time for the first frame (close 4000)."""

    heartbeat: float = 25.0
    """Time between pings, before jitter."""

    grace: float = 10.0
    """Time for a sign of life after a ping (close 4003)."""

    send_timeout: float = 10.0
    """Time in which the peer must take a message (close 4001)."""

    drain_window: float = 2.0
    """Time over which clients spread their reconnects."""

    claim_renewal: float = 5.0
    """Time after which a living connection's claims are renewed; a third of their life."""

    depth: int = MAX_DEPTH
    """How deeply values may nest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What one followed thread may hold on this instance."""

    ring_batches: int = 1024
    """Recent batches kept for subscribers that are a little behind."""

    ring_bytes: int = 1_048_576
    """Their size; whichever is reached first."""

    replay_events: int = 10_000
    """Events read from the store for one subscriber; further behind it gets a snapshot."""

    replay_bytes: int = 4_194_304
    """Their size."""

    page: int = 50
    """Finished messages in a snapshot."""

    part_bytes: int = 262_144
    """A larger snapshot is sent in parts of about this size."""

    reuse: int = 64
    """Batches by which an encoded snapshot may be behind and still be sent (they follow it)."""


class TokenBucket:
    """Counts what may still be done: refilled at ``rate`` per second up to ``burst``."""

    __slots__ = ("_at", "_burst", "_level", "_rate")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._level = burst
        self._at = now

    def take(self, now: float) -> bool:
        """Use one token, if there is one."""
        self._level = min(self._burst, self._level + max(0.0, now - self._at) * self._rate)
        self._at = now
        if self._level < 1:
            return False
        self._level -= 1
        return True

    def wait(self) -> float:
        """Seconds until a token will be there, as of the last :meth:`take`."""
        return max(0.0, (1 - self._level) / self._rate)
