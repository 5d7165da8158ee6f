"""A type that values are held to: what a tool takes, returns, asks and is answered.

Knows validation. It is strict, and JSON's: ``"yes"`` is not ``true``, ``1`` is not ``true``, a field that is not named
is refused, ``null`` fits only where the type says so, and a date is a string.
"""

from __future__ import annotations

import json
import logging
import types
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from typing import Annotated, Any, Generic, Literal, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError
from typing_extensions import TypeVar

from waitpoint_protocol.frames import FieldError
from waitpoint_protocol.values import Value, ValueRefused, normalise

from .field_errors import from_pydantic, summary
from .schema import adapter, is_open, schema_of
from .stored import check_against, unknown_fields

__all__ = ["Contract", "Misfit", "encode"]

logger = logging.getLogger(__name__)

T = TypeVar("T", default=Any)


class Misfit(Exception):
    """A value breaks its contract; ``errors`` says where, ``str()`` says it in one line."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        self.errors = list(errors)
        super().__init__(summary(self.errors))


class Contract(Generic[T]):
    """An annotation with its schema. ``what`` names it in messages, e.g. ``resume type of collectDetails``."""

    def __init__(self, annotation: Any, what: str, mode: Literal["validation", "serialization"] = "validation") -> None:
        self.what = what
        self._adapter: TypeAdapter[T] = adapter(annotation, what)
        self.schema = schema_of(self._adapter, what, mode)
        # pydantic's switch for unknown fields is all or nothing; where a type welcomes some, the schema decides.
        self._open = is_open(self.schema)
        self._plain = is_plain(annotation)

    def check(self, value: Value) -> list[FieldError]:
        """What is wrong with a JSON value; nothing if it fits. Never raises."""
        try:
            self.parse(value)
        except Misfit as misfit:
            return misfit.errors
        return []

    def parse(self, value: Value) -> T:
        """Read a JSON value as the type. Raises :class:`Misfit`."""
        try:
            text = encode(normalise(value))
            # By alias only: what is taken is what the schema tells clients, whatever else a model allows itself.
            parsed = self._adapter.validate_json(
                text, strict=True, extra=None if self._open else "forbid", by_alias=True, by_name=False
            )
        except ValidationError as error:
            raise Misfit(from_pydantic(error, value)) from error
        except ValueRefused as refused:
            raise Misfit([_refusal(refused)]) from refused
        except Exception as error:  # a validator of the author's that raises what it should not
            logger.exception("the %s cannot be checked", self.what)
            raise Misfit(
                [FieldError(path=[], message="This value could not be checked", code="check_failed")]
            ) from error
        if self._open and (unknown := unknown_fields(self.schema, value)):
            raise Misfit(unknown)
        return parsed

    def spell(self, value: object) -> Value:
        """Write a Python value of the type as JSON, checked as strictly as one that came in. Raises :class:`Misfit`.

        Where the type says only ``Any``, ``dict`` or the like, nothing but I-JSON (and models) is taken: a set or a
        date has more than one JSON form, and the type does not say which.
        """
        try:
            if self._plain:
                spelled = normalise(_dump_models(value))
                self.parse(spelled)
                return spelled
            return self._spell_typed(value)
        except ValueRefused as refused:
            raise Misfit([_refusal(refused)]) from refused
        except PydanticSerializationError as error:
            raise Misfit([FieldError(path=[], message=str(error), code="unsupported-type")]) from error

    def _spell_typed(self, value: Any) -> Value:
        try:
            spelled = normalise(self._adapter.dump_python(value, mode="json", by_alias=True, warnings="error"))
        except PydanticSerializationError:
            # Not an instance of the type, but perhaps the same thing in plain values.
            parsed = self.parse(normalise(_dump_models(value, "none")))
            return normalise(self._adapter.dump_python(parsed, mode="json", by_alias=True))
        self._reread(value, spelled)
        return spelled

    def _reread(self, value: Any, spelled: Value) -> None:
        """Hold an instance to its type: it may have been built or changed without validation."""
        # By field name and without computed fields: a form that reads back whatever aliases the type has.
        plain = normalise(self._adapter.dump_python(value, mode="json", by_alias=False, round_trip=True))
        try:
            self._adapter.validate_json(encode(plain), strict=True, by_alias=False, by_name=True)
        except ValidationError as error:
            # A type with serializers of its own need not read back; then its schema is what it promised.
            if check_against(self.schema, spelled):
                raise Misfit(from_pydantic(error, plain)) from error


def encode(value: Value) -> bytes:
    """The JSON text of a value, as its size is counted."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def is_plain(annotation: Any) -> bool:
    """Whether an annotation names nothing but JSON's own types, so that pydantic has no say in how they are spelled."""
    if annotation in (Any, object, None, type(None), bool, int, float, str, list, dict, tuple):
        return True
    origin = get_origin(annotation)
    if origin is Literal:
        return all(type(value) in (bool, int, str, type(None)) for value in get_args(annotation))
    if origin is Annotated:
        return is_plain(get_args(annotation)[0])
    if origin in (list, dict, tuple, Union, types.UnionType, Mapping, Sequence):
        return all(argument is Ellipsis or is_plain(argument) for argument in get_args(annotation))
    return False


def _dump_models(value: Any, warnings: Literal["error", "none"] = "error") -> Any:
    """Models and dataclasses know their JSON form; everything else is left for ``normalise`` to judge."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, warnings=warnings)
    if is_dataclass(value) and not isinstance(value, type):
        return TypeAdapter(type(value)).dump_python(value, mode="json", by_alias=True, warnings=warnings)
    if type(value) is dict:
        return {key: _dump_models(item, warnings) for key, item in value.items()}
    if type(value) in (list, tuple):
        return [_dump_models(item, warnings) for item in value]
    return value


def _refusal(refused: ValueRefused) -> FieldError:
    return FieldError(path=list(refused.path), message=refused.message, code=refused.code)
