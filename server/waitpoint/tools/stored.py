"""Checking an answer by its schema alone: for actions whose tool has gone or changed since they were stored.

Knows JSON Schema (Draft 2020-12, formats not checked) and how to say its errors in the words of ``field_errors``.
An answer that cannot be checked is refused, never let through.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from referencing import Registry

from waitpoint_protocol.frames import FieldError
from waitpoint_protocol.values import Value

from .field_errors import bounded

__all__ = ["check_against", "unknown_fields"]

logger = logging.getLogger(__name__)

_NOWHERE: Registry[Any] = Registry()
"""References lead nowhere outside the schema: an answer must not make the server fetch anything."""

_TYPES = {
    "string": "string",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
    "null": "none_required",
}
_CODES = {
    "enum": "literal_error",
    "const": "literal_error",
    "pattern": "string_pattern_mismatch",
    "minLength": "string_too_short",
    "maxLength": "string_too_long",
    "minItems": "too_short",
    "maxItems": "too_long",
    "minimum": "greater_than_equal",
    "maximum": "less_than_equal",
    "exclusiveMinimum": "greater_than",
    "exclusiveMaximum": "less_than",
    "multipleOf": "multiple_of",
}
_WORDS = {
    "minLength": "Should have at least {} characters",
    "maxLength": "Should have at most {} characters",
    "pattern": "Should match the pattern {}",
    "minItems": "Should have at least {} items",
    "maxItems": "Should have at most {} items",
    "minimum": "Should be {} or more",
    "maximum": "Should be {} or less",
    "exclusiveMinimum": "Should be more than {}",
    "exclusiveMaximum": "Should be less than {}",
    "multipleOf": "Should be a multiple of {}",
    "const": "Should be {!r}",
}


def check_against(schema: dict[str, Any], value: Value) -> list[FieldError]:
    """What is wrong with ``value`` by ``schema``; nothing if it fits. Never raises."""
    try:
        validator = Draft202012Validator(schema, registry=_NOWHERE)
        return bounded([said for error in validator.iter_errors(value) for said in _say(error, value)])
    except Exception:  # a stored schema this build cannot follow; the action stays, and can be cancelled
        logger.exception("a stored schema cannot be used")
        return [FieldError(path=[], message="This answer could not be checked; cancel the action", code="check_failed")]


def unknown_fields(schema: dict[str, Any], value: Value) -> list[FieldError]:
    """Only the fields of ``value`` that ``schema`` does not name where it is closed."""
    return [error for error in check_against(schema, value) if error.code in ("extra_forbidden", "check_failed")]


def _say(error: ValidationError, root: Value) -> Iterator[FieldError]:
    path = list(error.absolute_path)
    rule: Any = error.validator_value
    instance: Any = error.instance
    match error.validator:
        case "anyOf" | "oneOf" if error.context:
            for inner in _nearest(error.context):
                yield from _say(inner, root)
        case "required":
            # One error names one missing member, but only in its text.
            for name in rule:
                if name not in instance:
                    yield FieldError(path=[*path, name], message="Field required", code="missing")
        case "additionalProperties":
            known = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
            for name in instance:
                if name not in known:
                    yield FieldError(path=[*path, name], message="This field is not known here", code="extra_forbidden")
        case "type":
            names: list[str] = [rule] if isinstance(rule, str) else list(rule)
            code = f"{_TYPES[names[0]]}_type" if len(names) == 1 and names[0] != "null" else "none_required"
            yield FieldError(path=path, message=f"Should be of type {' or '.join(names)}", code=code)
        case "enum":
            wanted = ", ".join(repr(choice) for choice in rule)
            yield FieldError(path=path, message=f"Should be one of {wanted}", code="literal_error")
        case keyword:
            words = _WORDS.get(str(keyword), "Breaks the rule " + str(keyword)).format(rule)
            yield FieldError(path=path, message=words, code=_CODES.get(str(keyword), str(keyword)))


def _nearest(context: Iterable[ValidationError]) -> list[ValidationError]:
    """Errors of the union member the value comes closest to: right kind of value, right tag, fewest errors."""
    members: dict[Any, list[ValidationError]] = {}
    for error in context:
        members.setdefault(error.schema_path[0], []).append(error)

    def distance(errors: list[ValidationError]) -> tuple[bool, int, int]:
        wrong_kind = any(error.validator == "type" and not error.path for error in errors)
        return wrong_kind, sum(error.validator == "const" for error in errors), len(errors)

    return min(members.values(), key=distance)
