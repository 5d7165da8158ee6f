"""What is known of a connection or a request, read from its ASGI scope. Knows ASGI scopes; no frames, no framework.

One reader for every path into the house: a hook must not be told different things of the same client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from .ports import Connection

__all__ = ["read_connection"]


def read_connection(scope: Mapping[str, Any]) -> Connection:
    """What is known of a connection, without any type of the web framework."""
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    client = scope.get("client")
    return Connection(
        headers=headers,
        query=dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)),
        client=client[0] if client else None,
        path=scope["path"],
        origin=headers.get("origin"),
        secure=scope.get("scheme") in ("wss", "https"),
    )
