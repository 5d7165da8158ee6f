"""The server's transport below ASGI, where it can be reached: ASGI itself has no way to give up on a stalled peer.

Knows what uvicorn's WebSocket protocols look like from outside, and does without if they look otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

__all__ = ["Peer"]

CUT_AFTER = 5.0
"""Seconds in which a stalled peer may still take what is buffered (the close code comes last) before it is cut off."""

CLOSE_AFTER = 30.0
"""Seconds for a closing handshake. A dead peer's socket would otherwise live until TCP gives up on it."""


class Peer:
    """The other end of one connection. ``receive`` is the ASGI callable, which is a method of the server's protocol."""

    __slots__ = ("_protocol",)

    def __init__(self, receive: object) -> None:
        self._protocol: Any = getattr(receive, "__self__", None)

    def cut(self, code: int, reason: str) -> None:
        """Close now, without waiting for room to write; abort if that does not help."""
        protocol = self._protocol
        with contextlib.suppress(Exception):
            protocol.conn.send_close(code, reason)
            protocol.transport.write(b"".join(protocol.conn.data_to_send()))
            protocol.close_sent = True
            protocol.transport.close()
        self._abort_in(CUT_AFTER)

    def closing(self) -> None:
        """A close frame is on its way; make sure that the connection ends."""
        self._abort_in(CLOSE_AFTER)

    def unsent(self) -> int | None:
        """Bytes that wait for the peer to take them, if that can be known."""
        transport = getattr(self._protocol, "transport", None)
        return None if transport is None else transport.get_write_buffer_size()

    def abort(self) -> None:
        """Cut the connection off."""
        transport = getattr(self._protocol, "transport", None)
        if transport is not None:
            transport.abort()

    def _abort_in(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self.abort)
