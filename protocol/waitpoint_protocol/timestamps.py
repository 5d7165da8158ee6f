"""Timestamps of the wire: RFC 3339, UTC, milliseconds. Pure conversion; nobody reads a clock here."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["from_millis", "to_millis"]


def from_millis(millis: int) -> str:
    """Spell milliseconds since the epoch, e.g. ``2026-12-01T08:30:00.250Z``."""
    whole, part = divmod(millis, 1000)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{part:03d}Z"


def to_millis(text: str) -> int:
    """Read a timestamp back to milliseconds since the epoch. Raises ``ValueError`` if it is not one."""
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
