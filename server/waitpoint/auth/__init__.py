"""Identities and policy: who somebody is and what they may do, asked on every path into the house.

Knows the application's two hooks and the Origin rule. Does not know sockets, frames other than ``hello``, or the store.
"""

from .guard import AuthUnavailable, Guard, check_bind
from .identity import ANONYMOUS, Identity
from .origin import OriginPolicy, is_loopback
from .ports import Authenticate, AuthRefused, Connection, May, Verb
from .scope import read_connection

__all__ = [
    "ANONYMOUS",
    "AuthRefused",
    "AuthUnavailable",
    "Authenticate",
    "Connection",
    "Guard",
    "Identity",
    "May",
    "OriginPolicy",
    "Verb",
    "check_bind",
    "is_loopback",
    "read_connection",
]
