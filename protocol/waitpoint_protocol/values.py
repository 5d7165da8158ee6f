"""The data model: I-JSON (RFC 7493), the same for JSON and msgpack.

Knows what a value is and how a bad one is named. Knows nothing of frames, threads or sockets.

A value is ``None``, ``bool``, ``int`` within +-(2**53 - 1), a finite ``float``, well-formed ``str``, or a list or
string-keyed dict of values. A float that equals an integer in that range is the same value as the integer and is
carried as one (so ``1.0`` and ``-0.0`` arrive as ``1`` and ``0`` through every codec and every language).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

__all__ = ["MAX_DEPTH", "MAX_SAFE_INTEGER", "Unfit", "Value", "ValueRefused", "format_path", "normalise", "same"]

# The shape is recursive; checkers lose more than they gain from spelling it out, so readers narrow with ``isinstance``.
Value: TypeAlias = Any

MAX_SAFE_INTEGER = 2**53 - 1
"""Largest integer every peer can hold exactly (RFC 7493, section 2.2)."""

MAX_DEPTH = 64
"""How deeply lists and objects may nest. A bare scalar has depth 0."""

_SURROGATE = re.compile("[\ud800-\udfff]")

# What is said about a value must stay small, however large the member names of that value are.
_STEP_CHARS = 64
_PATH_CHARS = 512


class ValueRefused(ValueError):
    """A value that does not fit the data model.

    ``code`` is one of ``not-finite``, ``integer-range``, ``bad-unicode``, ``bad-key``, ``duplicate-key``,
    ``unsupported-type``, ``too-deep``, and ``not-json`` or ``not-msgpack`` for bytes that are no value at all; ``path``
    leads to the offending place.
    """

    def __init__(self, code: str, message: str, path: tuple[str | int, ...] = ()) -> None:
        self.code = code
        self.message = message
        self.path = path
        super().__init__(message)

    def __str__(self) -> str:
        return f"{self.message} at {format_path(self.path)}"


class Unfit:
    """What a parser leaves where the text holds something that is not a value.

    :func:`normalise` refuses it with its place, so that one bad frame does not void its neighbours in the message.
    ``known`` are the members of an object that can be told for sure.
    """

    __slots__ = ("code", "known", "message")

    def __init__(self, code: str, message: str, known: Mapping[str, Value] | None = None) -> None:
        self.code = code
        self.message = message
        self.known: Mapping[str, Value] = known or {}


def format_path(path: tuple[str | int, ...]) -> str:
    """Spell a path for people: ``$.items[3].name``."""
    text = "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{shorten(step, _STEP_CHARS)}" for step in path)
    return shorten(text, _PATH_CHARS)


def shorten(text: str, limit: int) -> str:
    """Cut a text that a peer chose, so that what is said about it stays small."""
    return text if len(text) <= limit else text[:limit] + "…"


def normalise(value: object, *, max_depth: int = MAX_DEPTH) -> Value:
    """Return ``value`` as a fresh I-JSON value, or raise :class:`ValueRefused` naming what does not fit.

    Tuples become lists. Nothing else is converted: bytes, sets, dates, decimals and enums are refused, since each
    has more than one plausible JSON form and a silent choice would not survive a round trip.
    """
    return _normalise(value, max_depth)


def _normalise(value: Any, room: int) -> Value:
    kind = type(value)  # exact types only: a subclass (an Enum, say) carries more than JSON can say
    if kind is str:
        return value if value.isascii() else _text(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        if not -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
            raise ValueRefused("integer-range", "integer outside +-(2^53 - 1); send it as a string")
        return value
    if kind is float:
        return _number(value)
    if kind is dict:
        return _object(value, room)
    if kind is list or kind is tuple:
        return _list(value, room)
    if kind is Unfit:
        raise ValueRefused(value.code, value.message)
    raise ValueRefused("unsupported-type", f"{kind.__name__} has no JSON form; convert it first")


def _object(value: dict[Any, Any], room: int) -> Value:
    if room <= 0:
        raise ValueRefused("too-deep", "nested too deeply")
    out: dict[str, Value] = {}
    for key, item in value.items():
        if type(key) is not str:
            raise ValueRefused("bad-key", f"object key of type {type(key).__name__}; keys are strings")
        try:
            out[key if key.isascii() else _text(key)] = _normalise(item, room - 1)
        except ValueRefused as refused:
            # The path is put together only on the way out, so that good values do not pay for it. It may hold the
            # broken key itself, and must stay printable.
            refused.path = (_SURROGATE.sub("\ufffd", key), *refused.path)
            raise
    return out


def _list(value: list[Any] | tuple[Any, ...], room: int) -> Value:
    if room <= 0:
        raise ValueRefused("too-deep", "nested too deeply")
    out: list[Value] = []
    try:
        for item in value:
            out.append(_normalise(item, room - 1))
    except ValueRefused as refused:
        refused.path = (len(out), *refused.path)
        raise
    return out


def _number(value: float) -> int | float:
    if not math.isfinite(value):
        raise ValueRefused("not-finite", f"{value} is not a JSON number")
    if value.is_integer() and -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        return int(value)
    return value


def _text(value: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueRefused("bad-unicode", "text with a lone surrogate") from None
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
