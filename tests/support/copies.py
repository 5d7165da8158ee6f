"""An older copy of a store put back, as a failover that lost acknowledged writes or a restored backup does.

Knows keys as bytes; nothing of what they mean.
"""

from __future__ import annotations

from dataclasses import dataclass

from .servers import RedisServer

__all__ = ["Copy", "copy_of"]


@dataclass(frozen=True)
class Copy:
    """Everything that a store held at one moment."""

    keys: dict[bytes, bytes]

    def put_back(self, server: RedisServer) -> None:
        """Make the store hold this and nothing else, at one moment."""
        client = server.client()
        try:
            with client.pipeline(transaction=True) as pipe:
                pipe.flushdb()
                for key, value in self.keys.items():
                    pipe.restore(key, 0, value)
                pipe.execute()
        finally:
            client.close()


def copy_of(server: RedisServer) -> Copy:
    """Copy a store that nobody writes to just now."""
    client = server.client()
    try:
        return Copy({key: client.dump(key) for key in client.scan_iter()})
    finally:
        client.close()
