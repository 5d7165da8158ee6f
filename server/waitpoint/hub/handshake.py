"""The first moments of a WebSocket connection: subprotocol, origin, room. Knows ASGI scopes; no frames.

What a page must be able to tell apart is accepted first and then closed with a code: a refused upgrade looks the same
as a dead network to it.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from waitpoint_protocol.codec import Codec, codec_for

from ..auth import Connection

__all__ = ["choose_codec", "read_connection"]


def read_connection(scope: dict[str, Any]) -> Connection:
    """What is known of a connection, without any type of the web framework."""
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    client = scope.get("client")
    return Connection(
        headers=headers,
        query=dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)),
        client=client[0] if client else None,
        path=scope["path"],
        origin=headers.get("origin"),
        secure=scope.get("scheme") == "wss",
    )


def choose_codec(offered: list[str]) -> tuple[Codec | None, str | None]:
    """The codec to speak (``None``: none that we know) and the subprotocol to name in the answer.

    A browser drops a connection whose answer names none of the subprotocols it offered, before it can see a close
    code. So when we speak none of them the first is named all the same: to say goodbye in.
    """
    for name in offered:
        codec = codec_for(name)
        if codec is not None:
            return codec, name
    if offered:
        return None, offered[0]
    return codec_for(None), None
