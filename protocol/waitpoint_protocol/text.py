"""Values as text: strict I-JSON in, compact JSON out.

Knows JSON only. Text that is JSON but holds something outside the data model is read with an ``Unfit`` in its place,
so that whoever knows the structure of the message can say exactly what is refused and answer the rest.
"""

from __future__ import annotations

import json
from typing import Any

from .values import MAX_DEPTH, Unfit, Value, ValueRefused, normalise

__all__ = ["dump_json", "parse_json", "read_json"]

# Longer than any integer of the data model; ``int`` itself takes quadratic time and refuses at 4300 digits.
_INTEGER_CHARS = 32


def parse_json(text: str | bytes, *, max_depth: int = MAX_DEPTH) -> Value:
    """Parse strict I-JSON: no NaN, no duplicate member names, no unsafe integers. Raises :class:`ValueRefused`."""
    return normalise(read_json(text), max_depth=max_depth)


def read_json(text: str | bytes) -> Any:
    """Parse JSON; what is outside the data model is left as :class:`Unfit`. Raises :class:`ValueRefused`.

    Bytes are UTF-8 (RFC 8259, section 8.1): nothing is guessed from their pattern, and a byte order mark is refused.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode()
        return json.loads(text, parse_constant=_constant, parse_int=_integer, object_pairs_hook=_object)
    except RecursionError:
        raise ValueRefused("too-deep", "nested too deeply") from None
    except ValueError as error:
        # The library's message may quote the text at fault, which may be all of it.
        said = error.msg if isinstance(error, json.JSONDecodeError) else "text that is not UTF-8"
        raise ValueRefused("not-json", f"not JSON: {said}") from None


def dump_json(value: Value) -> str:
    """Spell a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _constant(name: str) -> Unfit:
    return Unfit("not-finite", f"{name} is not JSON")


def _integer(digits: str) -> int | Unfit:
    if len(digits) > _INTEGER_CHARS:
        return Unfit("integer-range", "integer outside +-(2^53 - 1); send it as a string")
    return int(digits)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | Unfit:
    out = dict(pairs)
    return out if len(out) == len(pairs) else duplicate_keys(pairs)


def duplicate_keys(pairs: list[tuple[str, Any]]) -> Unfit:
    """The same member name twice: which of the two counts is anybody's guess, so neither does."""
    names = [name for name, _ in pairs]
    known = {name: item for name, item in pairs if names.count(name) == 1} if len(names) <= 64 else {}
    return Unfit("duplicate-key", "the same member name twice in one object (RFC 7493, section 2.3)", known)
