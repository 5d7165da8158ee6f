"""A tool's input type, made from the signature of its function.

Knows parameters and annotations. The input is a frozen dataclass: any parameter name is a field name.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, get_origin, get_type_hints

from ..errors import DefinitionError
from .context import ToolContext, ToolInput

__all__ = ["Signature", "read_signature"]


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """What a tool function takes and gives."""

    input_type: type[ToolInput]
    output: Any
    takes_context: bool


def read_signature(function: Callable[..., Any], tool: str) -> Signature:
    """Read a tool function's signature. Raises :class:`DefinitionError` where it cannot become an input schema."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise DefinitionError(f"tool {tool}: {error}; annotate with types that exist at module level") from error
    parameters = list(inspect.signature(function).parameters.values())
    takes_context = bool(parameters) and _is_context(parameters[0], hints)
    fields = [_field(parameter, hints, tool) for parameter in parameters[takes_context:]]
    made = dataclasses.make_dataclass(
        f"{tool}Input",
        fields,
        bases=(ToolInput,),
        frozen=True,
        kw_only=True,
        namespace={"__doc__": None, "__module__": function.__module__},
    )
    made.__doc__ = None  # dataclasses writes the signature there, and pydantic would tell it to the model
    return Signature(made, hints.get("return", Any), takes_context)


def _is_context(parameter: inspect.Parameter, hints: dict[str, Any]) -> bool:
    annotation = hints.get(parameter.name)
    if annotation is None:
        return parameter.name == "ctx"
    return annotation is ToolContext or get_origin(annotation) is ToolContext


def _field(parameter: inspect.Parameter, hints: dict[str, Any], tool: str) -> tuple[str, Any, Any]:
    where = f"tool {tool}, parameter {parameter.name}"
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
        raise DefinitionError(f"{where}: name every parameter; *args, **kwargs and positional-only have no schema")
    if parameter.name not in hints:
        raise DefinitionError(f"{where}: annotate it, so that the model can be told what to pass")
    if _is_context(parameter, hints):
        raise DefinitionError(f"{where}: the context is the first parameter")
    if parameter.default is parameter.empty:
        return parameter.name, hints[parameter.name], dataclasses.field()
    if parameter.default.__class__.__hash__ is None:  # as dataclasses: a mutable default would be shared by all calls
        default = parameter.default
        return parameter.name, hints[parameter.name], dataclasses.field(default_factory=lambda: copy.deepcopy(default))
    return parameter.name, hints[parameter.name], dataclasses.field(default=parameter.default)
