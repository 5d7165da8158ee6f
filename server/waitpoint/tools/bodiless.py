"""Tools whose work is done elsewhere: by a handler in a page, or by an outside system that answers.

Knows that such a call is one visit to one wait point: what is asked is the call's input, the answer is its output.
Who answers, and over which door, is not known here.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from typing_extensions import Unpack

from waitpoint_protocol.values import Value

from ..errors import DefinitionError
from .context import ToolContext, ToolInput
from .contract import Contract
from .entry import Resume
from .tool import Tool
from .waitpoint import WaitOptions, WaitPoint

__all__ = ["CALL", "CLIENT_TOOL", "EXTERNAL", "BodilessTool", "client_tool", "external_tool"]

CALL = "call"
"""The name of the one wait point of a tool without a body."""

CLIENT_TOOL: Literal["client-tool"] = "client-tool"
EXTERNAL: Literal["external"] = "external"


@dataclasses.dataclass(frozen=True)
class _NoInput:
    """A call that takes nothing."""


class _WholeInput(ToolInput):
    """The input in one piece, since there is no function whose parameters it could be."""

    __slots__ = ("value",)
    __dataclass_fields__: dict[str, Any] = {}  # noqa: RUF012 - what marks it as an input without parameters

    def __init__(self, value: Any) -> None:
        self.value = value


class _WholeContract(Contract[ToolInput]):
    """Holds a call to the author's own input type."""

    def parse(self, value: Value) -> ToolInput:
        return _WholeInput(super().parse(value))


class BodilessTool(Tool):
    """A tool that waits at once, and ends with the answer. Made by :func:`client_tool` and :func:`external_tool`."""

    def __init__(
        self,
        name: str,
        input: Any,
        output: Any,
        description: str,
        kind: Literal["client-tool", "external"],
        **options: Unpack[WaitOptions],
    ) -> None:
        asked = _NoInput if input is None else input
        self._call: WaitPoint[Any, Any] = WaitPoint(CALL, suspend=asked, resume=output, **options)
        self._call.kind = kind
        super().__init__(self._enter, name=name, description=description, waits=[self._call])
        self.input = _WholeContract(asked, f"input of tool {name}")
        self.output = Contract(output, f"output of tool {name}", "serialization")
        if self.input.schema.get("type") != "object":
            raise DefinitionError(f"tool {name}: its input is a type with fields (a model, a dataclass), or None")

    async def _enter(self, ctx: ToolContext) -> Any:
        if isinstance(ctx.entry, Resume):
            return ctx.entry.data
        assert isinstance(ctx.input, _WholeInput)
        return ctx.suspend(self._call, ctx.input.value)


def client_tool(
    name: str, *, input: Any = None, output: Any = Any, description: str = "", **options: Unpack[WaitOptions]
) -> Tool:
    """A tool that runs in the page: ``client_tool("getLocation", input=Accuracy, output=Position, description=...)``.

    The page registers a handler: ``client.tools({ getLocation: async (input) => ... })``. One tab of those that follow
    the thread claims the call and runs it; what the handler returns is checked against ``output`` and is the call's
    output, what it throws is its error. A tab that goes away before it answered leaves the call to the next one.

    ``input`` is a type with fields, or ``None``; ``output`` any type. Options are those of a ``WaitPoint``:
    ``expires_in``, ``audience``, ``redact``, ``on_message``.
    """
    return BodilessTool(name, input, output, description, CLIENT_TOOL, **options)


def external_tool(
    name: str, *, input: Any = None, output: Any = Any, description: str = "", **options: Unpack[WaitOptions]
) -> Tool:
    """A tool that an outside system does: it finds the pending action and submits the output (over HTTP, say).

    Everything else is as in :func:`client_tool`, but nobody has to claim the call.
    """
    return BodilessTool(name, input, output, description, EXTERNAL, **options)
