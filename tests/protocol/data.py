"""Access to the conformance data beside the protocol: vectors as they are on disk.

Knows where the files are and how a long text is abbreviated in them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PROTOCOL = Path(__file__).resolve().parents[2] / "protocol"
CLIENT_JS = PROTOCOL.parent / "client_js"


def vectors(name: str) -> list[dict[str, Any]]:
    """The vectors of ``protocol/vectors/<name>.json``."""
    loaded: list[dict[str, Any]] = json.loads((PROTOCOL / "vectors" / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


def names(items: list[dict[str, Any]]) -> list[str]:
    """Test ids of vectors."""
    return [str(item["name"]) for item in items]


def spelled(text: str | list[list[Any]]) -> str:
    """A text of a vector: itself, or pieces that are each repeated."""
    return text if isinstance(text, str) else "".join(piece * times for piece, times in text)


def packed(text: str | list[list[Any]]) -> bytes:
    """The bytes of a vector, which it spells in hexadecimal."""
    return bytes.fromhex(spelled(text))
