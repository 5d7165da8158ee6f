"""Tools: an author's function with what a model, a client and the runner must know of it.

Knows the definition. How a tool is entered is in ``execute.py``. A definition that cannot work is refused at import.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Literal, get_args, overload

from waitpoint_protocol.frames import FieldError
from waitpoint_protocol.values import Value

from ..errors import DefinitionError
from ..models import ToolDefinition
from .context import ToolInput
from .contract import Contract
from .gate import GATE, Gate, Policy, Words
from .signature import read_signature
from .waitpoint import LONGEST, WaitOptions, WaitPoint

__all__ = ["OnCrash", "Tool", "tool"]

OnCrash = Literal["retry", "fail"]
"""What becomes of an execution that was cut off: entered again (at least once), or ended (at most once)."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


class Tool:
    """A defined tool. Made by :func:`tool`; ``function`` is the author's own, for direct tests."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        waits: Sequence[WaitPoint[Any, Any]] = (),
        name: str | None = None,
        description: str | None = None,
        max_attempts: int = 3,
        on_crash: OnCrash = "retry",
        timeout: timedelta | float | None = None,
        approval: Policy = False,
        approval_prompt: Words | None = None,
        approval_description: Words | None = None,
        approval_options: WaitOptions | None = None,
    ) -> None:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise DefinitionError(
                f"tool {function.__name__} yields; return the output, and use ctx.progress() on the way"
            )
        self.function = function
        self.name = _checked_name(name if name is not None else getattr(function, "__name__", ""))
        self.description = description if description is not None else inspect.getdoc(function) or ""
        self.waits = _by_name(self.name, waits)
        signature = read_signature(function, self.name)
        if self.waits and not signature.takes_context:
            raise DefinitionError(f"tool {self.name} has wait points, so its first parameter is ctx: ToolContext")
        self.takes_context = signature.takes_context
        self.is_async = inspect.iscoroutinefunction(function)
        self.input: Contract[ToolInput] = Contract(signature.input_type, f"input of tool {self.name}")
        self.output: Contract[Any] = Contract(signature.output, f"output of tool {self.name}", "serialization")
        self.max_attempts = max_attempts
        self.on_crash: OnCrash = on_crash
        self.timeout = _seconds(self.name, timeout)
        if not isinstance(max_attempts, int) or max_attempts < 1:
            raise DefinitionError(f"tool {self.name}: max_attempts is a whole number from 1 up")
        if on_crash not in get_args(OnCrash):
            raise DefinitionError(f'tool {self.name}: on_crash is "retry" or "fail"')
        gated = (approval_prompt, approval_description, approval_options)
        self.gate = None if approval is False else Gate(self.name, self.input, signature.input_type, approval, *gated)
        if self.gate is None and any(given is not None for given in gated):
            raise DefinitionError(f"tool {self.name} has options for approval but no gate; add approval=True")
        if self.gate is not None and GATE in self.waits:
            raise DefinitionError(f"tool {self.name} has a gate and a wait point named {GATE}; rename the wait point")

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    @property
    def input_schema(self) -> dict[str, Any]:
        """JSON Schema of the tool's input."""
        return self.input.schema

    @property
    def output_schema(self) -> dict[str, Any]:
        """JSON Schema of the tool's output."""
        return self.output.schema

    @property
    def definition(self) -> ToolDefinition:
        """What the model is told: the same before, during and after a wait."""
        return ToolDefinition(self.name, self.description, self.input.schema)

    def point(self, name: str) -> WaitPoint[Any, Any] | None:
        """The declared wait point of that name, or the gate's."""
        if self.gate is not None and name == GATE:
            return self.gate.point
        return self.waits.get(name)

    def check_input(self, value: Value) -> list[FieldError]:
        """What is wrong with a call's input; nothing if the tool takes it."""
        return self.input.check(value)

    def check_output(self, value: object) -> Value:
        """Output as a JSON value. Raises ``Misfit`` when it breaks the tool's output type."""
        return self.output.spell(value)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *,
    waits: Sequence[WaitPoint[Any, Any]] = (),
    name: str | None = None,
    description: str | None = None,
    max_attempts: int = 3,
    on_crash: OnCrash = "retry",
    timeout: timedelta | float | None = None,
    approval: Policy = False,
    approval_prompt: Words | None = None,
    approval_description: Words | None = None,
    approval_options: WaitOptions | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a function a tool: ``@tool``, or ``@tool(waits=[...], name=..., timeout=...)``.

    The name defaults to the function's, the description to its docstring, the input schema to its parameters after
    ``ctx: ToolContext``, the output schema to its return annotation. A function that is not async runs in a thread.

    ``waits``: the wait points where it may suspend. ``max_attempts``: entries at one place before a tool that keeps
    being cut off ends in ``output-error``. ``on_crash="fail"``: never enter again after a crash. ``timeout``: seconds,
    or a ``timedelta``, for one execution; waiting for people does not count.

    ``approval``: the tool is not entered before somebody has approved the call; ``True`` for every call, or a function
    of the input that says for which (only ``False`` means that none is needed, and one that raises asks). An approval
    may change the input; a denial ends the call with an error the model sees. ``approval_prompt`` and
    ``approval_description``: what is shown with the input, as a text or a function of the input. ``approval_options``:
    how the gate waits, as for a ``WaitPoint``, e.g. ``{"audience": ["ann"], "expires_in": 3600}``.
    """
    if function is not None:
        return Tool(function, **options)
    return lambda decorated: Tool(decorated, **options)


def _checked_name(name: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DefinitionError(
            f"tool name {name!r} is not usable; start with a letter, then up to 63 letters, digits, _ and -"
        )
    return name


def _by_name(tool: str, waits: Sequence[WaitPoint[Any, Any]]) -> dict[str, WaitPoint[Any, Any]]:
    named: dict[str, WaitPoint[Any, Any]] = {}
    for point in waits:
        if not isinstance(point, WaitPoint):
            raise DefinitionError(f"tool {tool}: waits lists WaitPoint objects, not {point!r}")
        if point.name in named:
            raise DefinitionError(f"tool {tool} has two wait points named {point.name}; rename one")
        named[point.name] = point
    return named


def _seconds(tool: str, timeout: timedelta | float | None) -> float | None:
    if timeout is None:
        return None
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not math.isfinite(seconds) or seconds <= 0:
        raise DefinitionError(f"tool {tool}: timeout is a timedelta or seconds above 0, not {timeout!r}")
    if seconds > LONGEST:
        raise DefinitionError(f"tool {tool}: timeout is a hundred years at most; leave it out for none")
    return float(seconds)
