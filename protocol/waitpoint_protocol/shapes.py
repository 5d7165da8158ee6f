"""What every wire model shares: frozen, strict, camelCase, closed to unknown fields.

Knows pydantic settings only. Optional fields are left out when unset; ``null`` on the wire always means the value null.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from .values import MAX_SAFE_INTEGER, Value, ValueRefused, normalise

__all__ = ["Body", "Id", "Integer", "JsonObject", "Shape", "Text", "ThreadId", "Timestamp", "absent"]


class Shape(BaseModel):
    """Base of everything that crosses the wire."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        allow_inf_nan=False,
    )


def _is_none(value: object) -> bool:
    return value is None


def absent(**extra: Any) -> Any:
    """A field that is absent on the wire when it is ``None`` here. Never use it for a value that may be null."""
    return Field(default=None, exclude_if=_is_none, **extra)


def _check(value: object) -> Value:
    try:
        return normalise(value)
    except ValueRefused as refused:
        context = {"code": refused.code, "path": list(refused.path)}
        # The message is no template: braces in it are the peer's.
        raise PydanticCustomError("unfit-value", "{said}", {"said": refused.message, **context}) from refused


Body = Annotated[Any, AfterValidator(_check)]
"""A JSON value inside a frame or event; checked and normalised on entry (promise 11)."""

Text = Annotated[str, StringConstraints(min_length=0)]
"""Any well-formed text. A bare ``str`` field would take a lone surrogate and break only when it is written."""

JsonObject = Annotated[dict[str, Any], AfterValidator(_check)]
"""A JSON object inside a frame or event, checked like a :data:`Body`."""

Integer = Annotated[int, Field(ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER)]
"""A whole number that every peer can hold exactly."""

ThreadId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._~:@-]{1,128}$")]
"""Name of a thread: 1 to 128 unreserved ASCII characters, safe in URLs, keys and logs."""

Id = Annotated[str, StringConstraints(pattern=r"^[!-~]{1,128}$")]
"""A client- or server-made identifier: 1 to 128 printable ASCII characters."""

Timestamp = Annotated[
    str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$")
]
"""RFC 3339 in UTC with milliseconds, as made by the store's clock."""
