"""The data model: I-JSON (RFC 7493), the same for JSON and msgpack.

Knows what a value is and how a bad one is named. Knows nothing of frames, threads or sockets.

A value is ``None``, ``bool``, ``int`` within +-(2**53 - 1), a finite ``float``, well-formed ``str``, or a list or
string-keyed dict of values. A float that equals an integer in that range is the same value as the integer and is
carried as one (so ``1.0`` and ``-0.0`` arrive as ``1`` and ``0`` through every codec and every language).
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

__all__ = ["MAX_DEPTH", "MAX_SAFE_INTEGER", "Value", "ValueRefused", "normalise", "same"]

# The shape is recursive; checkers lose more than they gain from spelling it out, so readers narrow with ``isinstance``.
Value: TypeAlias = Any

MAX_SAFE_INTEGER = 2**53 - 1
"""Largest integer every peer can hold exactly (RFC 7493, section 2.2)."""

MAX_DEPTH = 64
"""How deeply lists and objects may nest. A bare scalar has depth 0."""


class ValueRefused(ValueError):
    """A value that does not fit the data model.

    ``code`` is one of ``not-finite``, ``integer-range``, ``bad-unicode``, ``bad-key``, ``duplicate-key``,
    ``unsupported-type``, ``too-deep``; ``path`` leads to the offending place.
    """

    def __init__(self, code: str, message: str, path: tuple[str | int, ...] = ()) -> None:
        self.code = code
        self.message = message
        self.path = path
        super().__init__(f"{message} at {format_path(path)}")


def format_path(path: tuple[str | int, ...]) -> str:
    """Spell a path for people: ``$.items[3].name``."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


def normalise(value: object, *, max_depth: int = MAX_DEPTH) -> Value:
    """Return ``value`` as a fresh I-JSON value, or raise :class:`ValueRefused` naming what does not fit.

    Tuples become lists. Nothing else is converted: bytes, sets, dates, decimals and enums are refused, since each
    has more than one plausible JSON form and a silent choice would not survive a round trip.
    """
    return _normalise(value, (), max_depth)


def _normalise(value: Any, path: tuple[str | int, ...], room: int) -> Value:
    kind = type(value)  # exact types only: a subclass (an Enum, say) carries more than JSON can say
    if value is None or kind is bool:
        return value
    if kind is str:
        return _text(value, path)
    if kind is int:
        if not -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
            raise ValueRefused("integer-range", "integer outside +-(2^53 - 1); send it as a string", path)
        return value
    if kind is float:
        return _number(value, path)
    if kind is dict:
        if room <= 0:
            raise ValueRefused("too-deep", "nested too deeply", path)
        out: dict[str, Value] = {}
        for key, item in value.items():
            if type(key) is not str:
                raise ValueRefused("bad-key", f"object key of type {type(key).__name__}; keys are strings", path)
            out[_text(key, (*path, key))] = _normalise(item, (*path, key), room - 1)
        return out
    if kind is list or kind is tuple:
        if room <= 0:
            raise ValueRefused("too-deep", "nested too deeply", path)
        return [_normalise(item, (*path, index), room - 1) for index, item in enumerate(value)]
    raise ValueRefused("unsupported-type", f"{kind.__name__} has no JSON form; convert it first", path)


def _number(value: float, path: tuple[str | int, ...]) -> int | float:
    if not math.isfinite(value):
        raise ValueRefused("not-finite", f"{value} is not a JSON number", path)
    if value.is_integer() and -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        return int(value)
    return value


def _text(value: str, path: tuple[str | int, ...]) -> str:
    if value.isascii():
        return value
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        # The path may hold the broken key itself; it must stay printable.
        safe = tuple(p.encode("utf-8", "replace").decode() if isinstance(p, str) else p for p in path)
        raise ValueRefused("bad-unicode", "text with a lone surrogate", safe) from None
    return value


def same(left: Value, right: Value) -> bool:
    """Tell whether two values are equal as JSON: ``True`` is not ``1``, and member order does not matter."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict):
        return (
            isinstance(right, dict) and left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
        )
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(same, left, right))
    return bool(left == right) and not isinstance(right, (dict, list))
