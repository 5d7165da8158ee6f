"""Who somebody is. Knows names and claims; nothing of sockets, tokens or threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ANONYMOUS", "Identity"]


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a connection acts for. ``id`` is stable and unique; ``name`` is for people; ``claims`` is the application's.

    ``id`` is written into the thread with every answer, so it should be a user id and not a token or an address.
    """

    id: str
    name: str | None = None
    claims: Mapping[str, Any] = field(default_factory=dict, hash=False, compare=False)

    def __post_init__(self) -> None:
        # Command ids are remembered per identity: an empty one would be shared by everybody who has none.
        if not isinstance(self.id, str) or not self.id:
            raise ValueError(f"Identity.id must be a non-empty string, not {self.id!r}")
        if self.name is not None and not isinstance(self.name, str):
            raise ValueError(f"Identity.name must be a string or None, not {self.name!r}")
        for text in (self.id, self.name or ""):
            if any("\ud800" <= sign <= "\udfff" for sign in text):
                raise ValueError(f"an Identity is shown to others, and half a character cannot be: {text!r}")


ANONYMOUS = Identity("anonymous")
"""Everybody, where no ``authenticate`` hook is set. Loopback only."""
