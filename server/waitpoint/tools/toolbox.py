"""The tools of a chat, by name, and the check of an answer against whatever is left of the tool that asked.

Knows definitions. Does not know threads: an action's name and stored schema are arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from waitpoint_protocol.frames import FieldError
from waitpoint_protocol.values import Value

from ..errors import DefinitionError
from ..models import ToolDefinition
from .schema import fingerprint
from .stored import check_against
from .tool import Tool

__all__ = ["Toolbox"]


class Toolbox:
    """Tools by name. Raises :class:`DefinitionError` when two have the same."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if not isinstance(tool, Tool):
                raise DefinitionError(f"{tool!r} is not a tool; decorate the function with @tool")
            if tool.name in self._tools:
                raise DefinitionError(f"two tools are named {tool.name}; give one another name, @tool(name=...)")
            self._tools[tool.name] = tool

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def get(self, name: str) -> Tool | None:
        """The tool of that name, if this build has it."""
        return self._tools.get(name)

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """What the model is told, in the order the tools were given."""
        return tuple(tool.definition for tool in self)

    def check_answer(self, action_name: str, schema: dict[str, Any], value: Value) -> list[FieldError]:
        """What is wrong with an answer to the action ``toolName.waitPoint``, whose stored schema is ``schema``.

        While the wait point is what it was when it asked, its type decides, which may know more than a schema can say.
        Otherwise the stored schema does: that is what the person was shown.
        """
        tool_name, _, wait_point = action_name.rpartition(".")
        tool = self._tools.get(tool_name)
        point = tool.point(wait_point) if tool is not None else None
        if point is not None and point.fingerprint == fingerprint(schema):
            return point.check_resume(value)
        return check_against(schema, value)
