"""Names of keys and channels.

Knows threads and partitions. Everything about one thread, and the schedule of its partition, shares a hash tag, so that
one script can change it atomically in a cluster too.
"""

from __future__ import annotations

from binascii import crc_hqx
from dataclasses import dataclass

__all__ = ["DEFAULT_PARTITIONS", "META", "Keys", "ThreadKeys"]

DEFAULT_PARTITIONS = 64

META = b"wp:meta"
"""Hash of what is fixed at first use: the number of partitions and the format."""


@dataclass(frozen=True, slots=True)
class ThreadKeys:
    """The keys of one thread, and those of its partition that a change of the thread touches."""

    thread: bytes
    log: bytes
    messages: bytes
    values: bytes
    outcomes: bytes
    due: bytes
    pending: bytes
    channel: bytes


@dataclass(frozen=True, slots=True)
class Keys:
    """Names under a fixed number of partitions."""

    partitions: int = DEFAULT_PARTITIONS

    def partition(self, thread: str) -> int:
        """The partition of a thread: Redis' own CRC16 (XMODEM) of its name, so that any client can compute it."""
        return crc_hqx(thread.encode(), 0) % self.partitions

    def of(self, thread: str) -> ThreadKeys:
        """All names that concern a thread."""
        p = f"wp:{{{self.partition(thread)}}}:"
        return ThreadKeys(
            thread=f"{p}t:{thread}".encode(),
            log=f"{p}log:{thread}".encode(),
            messages=f"{p}msg:{thread}".encode(),
            values=f"{p}val:{thread}".encode(),
            outcomes=f"{p}done:{thread}".encode(),
            due=f"{p}due".encode(),
            pending=f"{p}pending".encode(),
            channel=f"{p}ch:{thread}".encode(),
        )

    def due(self) -> list[bytes]:
        """The schedules of all partitions."""
        return [f"wp:{{{p}}}:due".encode() for p in range(self.partitions)]

    def pending(self) -> list[bytes]:
        """The pending indexes of all partitions."""
        return [f"wp:{{{p}}}:pending".encode() for p in range(self.partitions)]
