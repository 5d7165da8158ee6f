"""Which pages may open a socket here. Knows the ``Origin`` and ``Host`` headers and a list of names.

A browser lets any page open a WebSocket to anywhere and sends cookies along; the ``Origin`` header is the only thing
that tells our page from a stranger's.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from ..errors import ConfigurationError

__all__ = ["OriginPolicy", "is_loopback"]

_DEFAULT_PORTS = {"http": 80, "https": 443}


def is_loopback(host: str) -> bool:
    """Whether a host name or address (without port) can only mean this machine."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


class OriginPolicy:
    """The page's own host, or an origin listed by name.

    ``loopback_only``: the page's own host counts only if it names this machine. Without it a stranger's page whose DNS
    name was rebound to 127.0.0.1 is "the page's own host" too, which matters where nobody has to say who they are.
    """

    def __init__(self, origins: Iterable[str] = (), *, loopback_only: bool = False) -> None:
        self._listed = frozenset(_listed(origin) for origin in origins)
        self._loopback_only = loopback_only

    def allows(self, origin: str | None, host: str | None) -> bool:
        """Whether a request with these two headers may go on. No ``Origin`` means no browser."""
        if origin is None:
            return True
        page = _split(origin)
        if page is None:
            return False  # "null": a sandboxed frame, a file, a redirect; it names nobody
        if _spell(page) in self._listed:
            return True
        if host is None:
            return False
        server = _split(f"{page.scheme}://{host}")
        if server is None or _spell(server) != _spell(page):
            return False
        return not self._loopback_only or is_loopback(page.hostname or "")


def _split(origin: str) -> SplitResult | None:
    try:
        parts = urlsplit(origin)
        _ = parts.port  # a port that is not a number is noticed here
    except ValueError:
        return None
    bare = not (parts.path or parts.query or parts.fragment or parts.username or parts.password)
    return parts if parts.scheme in _DEFAULT_PORTS and parts.hostname and bare else None


def _spell(parts: SplitResult) -> str:
    port = parts.port or _DEFAULT_PORTS[parts.scheme]
    return f"{parts.scheme}://{parts.hostname}:{port}"


def _listed(origin: str) -> str:
    parts = _split(origin.rstrip("/"))
    if parts is None:
        raise ConfigurationError(
            f"origins: {origin!r} is not an origin; write scheme and host, such as 'https://app.example.com'"
        )
    return _spell(parts)
