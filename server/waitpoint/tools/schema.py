"""JSON Schemas of tool inputs, outputs, suspend data and answers.

Knows how to get one from an annotation, close it and recognise it again. Checks nothing itself: ``contract.py`` checks
by type, ``stored.py`` by schema alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, Literal

import jsonschema
import referencing
import referencing.exceptions
import referencing.jsonschema
from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from waitpoint_protocol.values import ValueRefused, normalise

from ..errors import DefinitionError

__all__ = ["adapter", "check_schema", "close", "fingerprint", "is_open", "json_schema", "subschemas"]

Schema = dict[str, Any]

_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = (
    "items",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
)


def adapter(annotation: Any, what: str) -> TypeAdapter[Any]:
    """The validator of an annotation; ``what`` names it in the :class:`DefinitionError` of one that cannot be had."""
    try:
        return TypeAdapter(annotation)
    except (PydanticUserError, TypeError, NameError) as error:
        raise DefinitionError(f"{what}: {_first_line(error)}. Use types that have a JSON form.") from error


def json_schema(
    annotation: Any, what: str = "type", mode: Literal["validation", "serialization"] = "validation"
) -> Schema:
    """The schema of an annotation as clients and models get it, closed to fields it does not name.

    Raises :class:`DefinitionError` when there is none.
    """
    return schema_of(adapter(annotation, what), what, mode)


def schema_of(
    checker: TypeAdapter[Any], what: str, mode: Literal["validation", "serialization"] = "validation"
) -> Schema:
    """As :func:`json_schema`, for a validator that exists already."""
    try:
        schema: Schema = normalise(checker.json_schema(mode=mode, by_alias=True))
        jsonschema.Draft202012Validator.check_schema(schema)
    except (PydanticUserError, ValueRefused, jsonschema.SchemaError) as error:
        raise DefinitionError(
            f"{what} has no JSON Schema: {_first_line(error)}. Use types that have a JSON form."
        ) from error
    close(schema)
    return schema


def check_schema(given: Schema, what: str) -> Schema:
    """A schema that was written by hand, as it is stored. Raises :class:`DefinitionError` when nobody could follow it.

    Draft 2020-12. References lead to places inside the schema: nothing is fetched to check an answer.
    """
    try:
        schema: Schema = normalise(given)
        jsonschema.Draft202012Validator.check_schema(schema)
        resource = referencing.jsonschema.DRAFT202012.create_resource(schema)
        _follow(resource, referencing.Registry().resolver_with_root(resource), what)
    except jsonschema.SchemaError as error:
        raise DefinitionError(f"{what} is no JSON Schema (2020-12): {error.json_path}: {_first_line(error)}") from error
    except ValueRefused as refused:
        raise DefinitionError(f"{what} has no JSON form: {refused}") from refused
    return schema


def _follow(resource: referencing.Resource[Any], resolver: Any, what: str) -> None:
    resolver = resolver.in_subresource(resource)
    if isinstance(resource.contents, dict):
        for keyword in ("$ref", "$dynamicRef"):
            if isinstance(reference := resource.contents.get(keyword), str):
                try:
                    resolver.lookup(reference)
                except referencing.exceptions.Unresolvable as error:
                    raise DefinitionError(f"{what} refers to {reference}, which is not in it") from error
    for inner in resource.subresources():
        _follow(inner, resolver, what)


def close(schema: Schema) -> None:
    """Say in the schema what validation does anyway: fields that are not named are refused."""
    if "properties" in schema:
        schema.setdefault("additionalProperties", False)
    for inner in subschemas(schema):
        close(inner)


def is_open(schema: Schema) -> bool:
    """Whether an object with named fields somewhere in it welcomes further fields (``extra="allow"``)."""
    here = "properties" in schema and schema.get("additionalProperties", True) is not False
    return here or any(map(is_open, subschemas(schema)))


def subschemas(schema: Schema) -> Iterator[Schema]:
    """The schemas directly inside; values such as ``default`` and ``enum``, which may look like one, are not."""
    for keyword in _NAMED:
        yield from _schemas(schema.get(keyword, {}).values())
    for keyword in _LISTED:
        yield from _schemas(schema.get(keyword, ()))
    yield from _schemas(schema.get(keyword) for keyword in _SINGLE)


def fingerprint(schema: Schema) -> str:
    """The same for equal schemas, however their members are ordered and whoever stored them."""
    canonical = json.dumps(normalise(schema), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]


def _schemas(candidates: Any) -> Iterator[Schema]:
    return (candidate for candidate in candidates if isinstance(candidate, dict))


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__
