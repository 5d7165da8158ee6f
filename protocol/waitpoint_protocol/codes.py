"""Refusal codes and close codes: every definite "no" of the protocol, in one table each.

Knows names and numbers only. PROTOCOL.md explains when each is used.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal, get_args

__all__ = ["REFUSAL_CODES", "SUBPROTOCOL_JSON", "SUBPROTOCOL_MSGPACK", "Close", "RefusalCode", "ResetWhy"]

SUBPROTOCOL_JSON = "waitpoint.v1.json"
SUBPROTOCOL_MSGPACK = "waitpoint.v1.msgpack"

RefusalCode = Literal[
    "invalid",  # the payload does not match the resume schema; `errors` says where
    "already-resolved",  # somebody was first; `winner` says how, when and by whom
    "expired",  # the deadline passed
    "unknown-action",  # no such action in this thread
    "not-found",  # no such thread, or none that this identity may see
    "forbidden",  # seen, but not allowed
    "waiting",  # a wait refuses new messages until it is answered
    "busy",  # try again after `retryMs`
    "id-conflict",  # this command id was used with another payload
    "too-large",  # over a byte limit, never resend as it is
    "rate-limited",  # too many commands; try again after `retryMs`
    "tool-unavailable",  # the tool is gone from this build
    "unavailable",  # the store cannot be reached; the command may be resent under the same id
    "bad-frame",  # not a frame of this protocol
]
REFUSAL_CODES: tuple[str, ...] = get_args(RefusalCode)

ResetWhy = Literal["gone", "forked", "log-lost", "lagged"]


class Close(IntEnum):
    """WebSocket close codes. The range says what to do: 4000-4499 reconnect, 4500-4999 do not."""

    NORMAL = 1000
    GOING_AWAY = 1001
    TOO_BIG = 1009
    INTERNAL_ERROR = 1011
    SERVICE_RESTART = 1012
    TRY_AGAIN_LATER = 1013

    HELLO_TIMEOUT = 4000
    SLOW = 4001
    TOKEN_EXPIRED = 4002
    NO_PONG = 4003
    FLOODING = 4004
    DRAINING = 4005

    VERSION = 4500
    UNAUTHENTICATED = 4501
    FORBIDDEN = 4502
    ORIGIN = 4503
    TOO_MANY_CONNECTIONS = 4504
    BAD_FRAME = 4505
    HELLO_EXPECTED = 4506

    @property
    def reconnect(self) -> bool:
        """Whether a client should open a new socket after this code."""
        return not 4500 <= self <= 4999
