"""Bring your own agent: an async generator over the thread, as the model.

Knows how to turn what the generator yields into model events. Does not know which framework or provider is behind it.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from ..errors import DefinitionError
from .port import (
    Finish,
    ModelError,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolInputDelta,
    ToolInputStart,
)
from .scripted import Call, Line, call_id

__all__ = ["Agent", "AgentModel", "agent"]

Agent = Callable[[ModelRequest], AsyncIterator[Line]]
"""``async def my_agent(request): yield ...``: called once per model step."""


class AgentModel:
    """A model made of an async generator function. ``agent`` is the same as a decorator.

    The function is called for each model step with the :class:`ModelRequest` and yields text (sent on as it comes),
    ``Call(tool_name, input)`` for each tool to call, or model events. When it has made calls it is called again with
    their results: ``to_turns(request.messages)[-1].results``. A step that is asked again (after a crash) starts the
    function anew, so it keeps nothing that matters between yields.

    A :class:`ModelError` that it raises is the provider's; anything else it raises ends the turn with the exception's
    type and text. Raises :class:`DefinitionError` for what is no async generator function.
    """

    def __init__(self, function: Agent) -> None:
        spelled: Any = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
        if not (inspect.isasyncgenfunction(function) or inspect.isasyncgenfunction(spelled)):
            name = getattr(function, "__name__", type(function).__name__)
            raise DefinitionError(f"agent {name} is no async generator; write `async def {name}(request): yield ...`")
        self.function = function

    def __repr__(self) -> str:
        return f"AgentModel({getattr(self.function, '__name__', self.function)!r})"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream one model step of the agent."""
        calls = 0
        finish: Finish | None = None
        lines: Any = self.function(request)
        # Whatever the agent holds open (a connection, a child process) is let go of when the step is cancelled.
        async with aclosing(lines):
            try:
                async for line in lines:
                    match line:
                        case "":
                            pass
                        case str():
                            yield TextDelta(line)
                        case Call():
                            for event in _call(line, line.id or call_id(request, calls)):
                                yield event
                            calls += 1
                        case ToolCall():
                            calls += 1
                            yield line
                        case Finish():
                            finish = line
                        case TextDelta() | ReasoningDelta() | ToolInputStart() | ToolInputDelta():
                            yield line
                        case _:
                            raise ModelError(
                                f"the agent yielded {type(line).__name__}; it may yield text, Call(...) or model events"
                            )
            except ModelError:
                raise
            except Exception as error:
                raise ModelError(f"the agent raised {type(error).__name__}: {error}") from error
        yield finish or Finish("tool-calls" if calls else "stop")


def agent(function: Agent) -> AgentModel:
    """Make an async generator function a model: ``@agent``, then ``Chat(my_agent, tools)``."""
    return AgentModel(function)


def _call(call: Call, tool_call_id: str) -> list[ModelEvent]:
    try:
        written = json.dumps(call.input, ensure_ascii=False)
    except (TypeError, ValueError):
        written = ""  # no JSON value: the call ends in an error that says so, and has nothing to show before
    return [
        ToolInputStart(tool_call_id, call.tool_name),
        ToolInputDelta(tool_call_id, written),
        ToolCall(tool_call_id, call.tool_name, call.input),
    ]
