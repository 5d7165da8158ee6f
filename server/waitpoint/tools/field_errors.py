"""What is wrong with a payload, said by field: from pydantic's errors to (path, message, code).

Knows how pydantic names places. A path leads through the payload as its sender sees it, so the names of union members
and tags, which pydantic puts in between, are taken out again. What is said is bounded, however bad the payload.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from waitpoint_protocol.frames import FieldError
from waitpoint_protocol.values import Value, same

__all__ = ["MAX_ERRORS", "bounded", "from_pydantic", "summary"]

MAX_ERRORS = 32
"""A form has fewer fields; a hostile answer of 100,000 wrong items need not be told of each."""

MAX_TEXT = 300

Path = tuple[str | int, ...]

# Names that depend on how the author spelled the type (dataclass or model) and mean one thing to a sender.
_SAME = {
    "unexpected_keyword_argument": "extra_forbidden",
    "missing_argument": "missing",
    "missing_keyword_only_argument": "missing",
}
_WORDS = {"extra_forbidden": "This field is not known here", "missing": "Field required"}


def from_pydantic(error: ValidationError, value: Value) -> list[FieldError]:
    """Field errors of ``value``, each place and code once, at most ``MAX_ERRORS``."""
    found: list[FieldError] = []
    for detail in error.errors(include_url=False, include_context=False):
        code = _SAME.get(detail["type"], detail["type"])
        message = _WORDS.get(code, detail["msg"])
        found.append(FieldError(path=list(_path(detail, value)), message=message, code=code))
    return bounded(found)


def bounded(errors: Sequence[FieldError]) -> list[FieldError]:
    """Drop repeats, keep the first ``MAX_ERRORS``, and clip texts that quote the payload."""
    kept: dict[tuple[tuple[str | int, ...], str, str], FieldError] = {}
    for error in errors:
        path: list[str | int] = [_clip(step) if isinstance(step, str) else step for step in error.path]
        clipped = FieldError(path=path, message=_clip(error.message), code=error.code)
        kept.setdefault((tuple(path), clipped.message, clipped.code), clipped)
        if len(kept) == MAX_ERRORS:
            break
    return list(kept.values())


def summary(errors: Sequence[FieldError]) -> str:
    """The errors in one line, for people and models."""
    shown = [f"{_spell(error.path)}: {error.message}" if error.path else error.message for error in errors[:5]]
    more = [f"and {len(errors) - 5} more"] if len(errors) > 5 else []
    return "; ".join(shown + more)


def _path(detail: ErrorDetails, value: Value) -> Path:
    location = detail["loc"]
    if location and location[-1] == "[key]":
        location = location[:-1]  # a key that does not fit: lead to the member it names
        return _follow(location, value, None, False) or location
    if detail["type"].startswith("missing") and location:
        *way, name = location
        parent = _follow(tuple(way), value, detail["input"], True)
        return (*(way if parent is None else parent), name)
    found = _follow(location, value, detail["input"], True)
    return location if found is None else found


def _follow(location: Path, value: Value, target: Value, exact: bool) -> Path | None:
    """The steps of ``location`` that really lead through ``value``, to ``target`` if ``exact``; ``None`` if none do."""
    if not location:
        return () if not exact or same(value, target) else None
    step, rest = location[0], location[1:]
    if _leads(step, value):
        found = _follow(rest, value[step], target, exact)
        if found is not None:
            return (step, *found)
    if isinstance(step, str):  # a union member's name or tag
        return _follow(rest, value, target, exact)
    return None


def _leads(step: str | int, value: Value) -> bool:
    if isinstance(step, str):
        return isinstance(value, dict) and step in value
    return isinstance(value, list) and step < len(value)


def _clip(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"


def _spell(path: Sequence[str | int]) -> str:
    return ".".join(map(str, path))
