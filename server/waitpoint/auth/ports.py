"""The two questions an application answers: who is this, and may they? Types only.

No web framework's type leaks through here: a hook can be written and tested with plain values.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from waitpoint_protocol.frames import Hello

from ..thread.model import Action
from .identity import Identity

__all__ = ["AuthRefused", "Authenticate", "Connection", "May", "Verb"]

Verb = Literal["subscribe", "read", "send", "answer", "stop"]
"""What somebody wants to do with a thread. ``answer`` comes with the action: submit, cancel, fail, claim or release."""


class AuthRefused(Exception):
    """Raised by an ``authenticate`` hook to refuse; the text is logged, the client learns only that it was refused."""


@dataclass(frozen=True, slots=True)
class Connection:
    """What is known of a connection before anybody said who they are.

    Header names are lower case; a header or query parameter that was sent twice has its last value here.
    ``client`` is the peer's address as the server sees it (behind a proxy: the proxy's).
    """

    headers: Mapping[str, str]
    query: Mapping[str, str]
    client: str | None
    path: str
    origin: str | None = None
    secure: bool = False

    @property
    def host(self) -> str | None:
        """The ``Host`` header: the name and port by which the client reached us."""
        return self.headers.get("host")


Authenticate: TypeAlias = Callable[[Connection, Hello], "Identity | Awaitable[Identity | None] | None"]
"""``authenticate(connection, hello)``: the identity, or ``None`` (or raise :class:`AuthRefused`) to refuse."""

May: TypeAlias = Callable[[Identity, Verb, str, "Action | None"], "bool | Awaitable[bool]"]
"""``may(identity, verb, thread, action)``: whether it is allowed; ``action`` is there when the verb is ``answer``."""
