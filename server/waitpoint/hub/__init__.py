"""The door: WebSocket connections, and the live logs of the threads they follow.

Knows frames, sessions, sockets and cursors. Does not decide commands (the desk does) and does not run anything.
"""

from .hub import Hub
from .limits import Limits, Sizes

__all__ = ["Hub", "Limits", "Sizes"]
