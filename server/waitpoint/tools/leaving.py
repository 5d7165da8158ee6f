"""How a tool body is left before its end: to wait, or because the call cannot go on.

Both are no ``Exception``: an author's ``except Exception`` must not swallow them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .outcome import Suspended
    from .waitpoint import WaitPoint

__all__ = ["Abandoned", "InlineSuspension", "Leaving", "Suspension"]


class Leaving(BaseException):
    """Leaves the tool body; what was to come of it stands even if the body catches this."""


class Suspension(Leaving):
    """Leaves for a declared wait point."""

    def __init__(self, point: WaitPoint[Any, Any], data: object) -> None:
        self.point = point
        self.data = data
        super().__init__(f"suspended at {point!r}")

    @property
    def name(self) -> str:
        return str(getattr(self.point, "name", repr(self.point)))


class InlineSuspension(Leaving):
    """Leaves for an inline wait."""

    def __init__(self, wait: Suspended) -> None:
        self.wait = wait
        super().__init__(f"suspended at {wait.wait_point}")

    @property
    def name(self) -> str:
        return self.wait.wait_point


class Abandoned(Leaving):
    """Leaves for good: the call ends in ``output-error`` with this text."""
