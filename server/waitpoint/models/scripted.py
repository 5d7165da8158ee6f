"""A model that plays a script: for demos and tests, without a key and without a network.

Knows how to turn a few strings and calls into the stream a real provider would send. Keeps no state: what it says
follows from the request alone, so a step that was cut off, or is asked of another process, comes out the same.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass

from waitpoint_protocol.values import Value

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

__all__ = ["Call", "Line", "Script", "ScriptedModel", "call_id", "words"]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call in a script. Without ``id`` one is derived from the request, the same at every repeat."""

    tool_name: str
    input: Value
    id: str | None = None


Line = str | Call | ModelEvent
Reply = str | Iterable[Line] | AsyncIterable[Line]
Script = Callable[[ModelRequest], Reply] | Sequence[Reply]
"""A function of the request, or one reply per step of a turn."""


class ScriptedModel:
    """Plays ``script``, text word by word with ``delay`` seconds between words.

    A script is a function that gets the request and returns (or yields) strings, calls and model events; or a list with
    one such reply for each step of a turn, played again at every turn.
    """

    def __init__(self, script: Script, *, delay: float = 0.0) -> None:
        self._script = script
        self._delay = delay

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream one model step of the script."""
        calls = 0
        finished = False
        async for line in _lines(self._reply(request)):
            match line:
                case str():
                    for word in words(line):
                        await asyncio.sleep(self._delay)
                        yield TextDelta(word)
                case Call():
                    async for event in self._call(line, line.id or call_id(request, calls)):
                        yield event
                    calls += 1
                case Finish():
                    finished = True
                    yield line
                case ToolCall():
                    calls += 1
                    yield line
                case TextDelta() | ReasoningDelta() | ToolInputStart() | ToolInputDelta():
                    yield line
        if not finished:
            yield Finish("tool-calls" if calls else "stop")

    def _reply(self, request: ModelRequest) -> Reply:
        if callable(self._script):
            return self._script(request)
        if request.step >= len(self._script):
            raise ModelError(f"the script has {len(self._script)} steps and was asked for step {request.step}")
        return self._script[request.step]

    async def _call(self, call: Call, tool_call_id: str) -> AsyncIterator[ModelEvent]:
        yield ToolInputStart(tool_call_id, call.tool_name)
        for piece in words(json.dumps(call.input, ensure_ascii=False)):
            await asyncio.sleep(self._delay)
            yield ToolInputDelta(tool_call_id, piece)
        yield ToolCall(tool_call_id, call.tool_name, call.input)


def words(text: str) -> list[str]:
    """Cut text into words, each with the white space before it; joined again they are the text."""
    return re.findall(r"\s*\S+|\s+", text)


def call_id(request: ModelRequest, index: int) -> str:
    """The id of a script's call: from thread, turn, step and place, so that a repeated step repeats it."""
    turn = next((message["id"] for message in reversed(request.messages) if message["role"] == "user"), "")
    seed = json.dumps([request.thread_id, turn, request.step, index])
    return f"call_{hashlib.sha256(seed.encode()).hexdigest()[:20]}"


async def _lines(reply: Reply) -> AsyncIterator[Line]:
    if isinstance(reply, str):
        yield reply
    elif isinstance(reply, AsyncIterable):
        async for line in reply:
            yield line
    else:
        for line in reply:
            yield line
