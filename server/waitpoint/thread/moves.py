"""The allowed moves of a tool call, as a table (design section 1: states only move forward, except that ``running``
and ``waiting`` alternate).
"""

from __future__ import annotations

from .model import CallState

__all__ = ["MOVES", "IllegalMove", "check_move"]

MOVES: dict[CallState, frozenset[CallState]] = {
    # A call that cannot be entered, or is stopped before it was, ends from here.
    "input-available": frozenset({"running", "output-error"}),
    # running -> running is a re-entry after a crash.
    "running": frozenset({"running", "waiting", "output-available", "output-error"}),
    "waiting": frozenset({"running", "output-error"}),
    "output-available": frozenset(),
    "output-error": frozenset(),
}


class IllegalMove(AssertionError):
    """A fact asked for a move that the table does not allow: a bug in ``decide``, never a peer's fault."""


def check_move(before: CallState, after: CallState) -> None:
    """Raise :class:`IllegalMove` unless a call may go from ``before`` to ``after``."""
    if after not in MOVES[before]:
        raise IllegalMove(f"a call cannot go from {before} to {after}")
