"""Asks the application's hooks, and fails closed. Knows the ports; no sockets, no store.

Every path into the house asks here. What a hook raises is logged and means no.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Iterable

from waitpoint_protocol.frames import Hello

from ..errors import ConfigurationError
from ..thread.model import Action
from .identity import ANONYMOUS, Identity
from .origin import OriginPolicy, is_loopback
from .ports import Authenticate, AuthRefused, Connection, May, Verb

__all__ = ["AuthUnavailable", "Guard", "check_bind"]

logger = logging.getLogger(__name__)

HOOK_TIMEOUT = 10.0
"""Seconds a hook may take. A hook that hangs must not hold a connection (or a command) for ever."""


class AuthUnavailable(Exception):
    """The ``authenticate`` hook broke: nobody was refused, so the client may come back later."""


class Guard:
    """The application's policy: who is this, may they, and is this page ours."""

    def __init__(
        self,
        authenticate: Authenticate | None = None,
        may: May | None = None,
        origins: Iterable[str] = (),
        *,
        timeout: float = HOOK_TIMEOUT,
    ) -> None:
        self._authenticate = authenticate
        self._may = may
        self._origins = OriginPolicy(origins, loopback_only=authenticate is None)
        self._timeout = timeout

    def origin_allowed(self, connection: Connection) -> bool:
        """Whether the page that opened this connection is ours, or listed."""
        return self._origins.allows(connection.origin, connection.host)

    async def identify(self, connection: Connection, hello: Hello) -> Identity | None:
        """Who this is; ``None`` if refused. Raises :class:`AuthUnavailable` when the hook itself broke."""
        if self._authenticate is None:
            return ANONYMOUS
        try:
            async with asyncio.timeout(self._timeout):
                answer = self._authenticate(connection, hello)
                identity = await answer if inspect.isawaitable(answer) else answer
        except AuthRefused as refused:
            logger.info("authentication refused: %s", refused)
            return None
        except Exception as error:
            logger.exception("the authenticate hook broke; the connection is refused for now")
            raise AuthUnavailable(str(error)) from error
        if identity is not None and not isinstance(identity, Identity):
            logger.error("authenticate returned %s; it must return an Identity or None", type(identity).__name__)
            raise AuthUnavailable("authenticate returned something else than an Identity")
        return identity

    async def may(self, identity: Identity, verb: Verb, thread: str, action: Action | None = None) -> bool:
        """Whether ``identity`` may do this. Anything but ``True`` is no."""
        if self._may is None:
            return True
        try:
            async with asyncio.timeout(self._timeout):
                answer = self._may(identity, verb, thread, action)
                allowed = await answer if inspect.isawaitable(answer) else answer
        except Exception:
            logger.exception("the may hook broke; %r on thread %s is refused", verb, thread)
            return False
        if not isinstance(allowed, bool):
            # A hook that returns a record or a string has forgotten to compare; truthiness would let everybody in.
            logger.error("may returned %s for %r; it must return True or False", type(allowed).__name__, verb)
            return False
        return allowed


def check_bind(host: str, authenticate: Authenticate | None) -> None:
    """Refuse to listen to other machines while nobody has to say who they are.

    Raises :class:`~waitpoint.errors.ConfigurationError` naming what to set.
    """
    if authenticate is None and not is_loopback(host):
        raise ConfigurationError(
            f"refusing to listen on {host or 'all interfaces'}: without an `authenticate` hook everybody who can reach "
            "this port may read and answer every thread. Pass Chat(authenticate=...), or listen on 127.0.0.1"
        )
