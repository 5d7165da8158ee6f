"""One model step: the model's stream becomes events of the open message and, at its end, the list of calls.

Knows the model port and events. Does not decide what a call means or whether it can be run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import assert_never

from waitpoint_protocol import events as e
from waitpoint_protocol.values import Value

from .. import models

__all__ = ["ModelCall", "StepOutput", "stream_step"]


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A tool call as the model made it, under an id that is unique in its message."""

    id: str
    tool: str
    input: Value


@dataclass(slots=True)
class StepOutput:
    """What a complete model step brought."""

    reason: str = "stop"
    usage: dict[str, int] | None = None
    calls: list[ModelCall] = field(default_factory=list)


async def stream_step(
    stream: AsyncIterator[models.ModelEvent],
    emit: Callable[[e.Event], Awaitable[None]],
    *,
    step: int,
    attempt: str,
    taken_ids: set[str],
) -> StepOutput:
    """Emit what the model says and return its calls. Whatever the model raises passes through."""
    return await _Step(emit, step, attempt, taken_ids).run(stream)


class _Step:
    def __init__(
        self, emit: Callable[[e.Event], Awaitable[None]], step: int, attempt: str, taken_ids: set[str]
    ) -> None:
        self._emit = emit
        self._step = step
        self._attempt = attempt
        self._taken = set(taken_ids)
        self._ids: dict[str, str] = {}
        self._started: set[str] = set()
        self._parts = 0
        self._open: tuple[str, str] | None = None
        self._held = ""
        self._output = StepOutput()

    async def run(self, stream: AsyncIterator[models.ModelEvent]) -> StepOutput:
        async for event in stream:
            match event:
                case models.TextDelta(text):
                    await self._say("text", text)
                case models.ReasoningDelta(text):
                    await self._say("reasoning", text)
                case models.ToolInputStart(call_id, tool):
                    await self._end_part()
                    own = self._own_id(call_id)
                    self._started.add(own)
                    await self._emit(e.ToolInputStart(tool_call_id=own, tool_name=tool, step=self._step))
                case models.ToolInputDelta(call_id, text):
                    own = self._own_id(call_id)
                    if own in self._started and text:
                        await self._emit(e.ToolInputDelta(tool_call_id=own, input_text_delta=_whole(text)))
                case models.ToolCall(call_id, tool, call_input):
                    await self._end_part()
                    self._output.calls.append(ModelCall(self._own_id(call_id), tool, call_input))
                case models.Finish(reason, usage):
                    self._output.reason = reason
                    self._output.usage = dict(usage) if usage else None
                case _:
                    assert_never(event)
        await self._end_part()
        return self._output

    def _own_id(self, call_id: str) -> str:
        # Some providers number calls from 1 in every request; within a message an id must name one call.
        if call_id not in self._ids:
            own, n = call_id, 2
            while own in self._taken:
                own, n = f"{call_id}-{n}", n + 1
            self._taken.add(own)
            self._ids[call_id] = own
        return self._ids[call_id]

    async def _say(self, kind: str, text: str) -> None:
        text = self._held + text
        self._held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            # The first half of a character: its second half comes with the next delta.
            text, self._held = text[:-1], text[-1]
        if text:
            await self._delta(kind, _whole(text))

    async def _delta(self, kind: str, text: str) -> None:
        if self._open is None or self._open[0] != kind:
            await self._end_part(keep_held=True)
            self._parts += 1
            part = f"p{self._step}-{self._attempt}-{self._parts}"
            self._open = (kind, part)
            start = e.TextStart if kind == "text" else e.ReasoningStart
            await self._emit(start(id=part, step=self._step))
        delta = e.TextDelta if kind == "text" else e.ReasoningDelta
        await self._emit(delta(id=self._open[1], delta=text))

    async def _end_part(self, *, keep_held: bool = False) -> None:
        if not keep_held and self._held:
            held, self._held = self._held, ""
            await self._delta(self._open[0] if self._open else "text", _whole(held))
        if self._open is not None:
            kind, part = self._open
            self._open = None
            await self._emit(e.TextEnd(id=part) if kind == "text" else e.ReasoningEnd(id=part))


def _whole(text: str) -> str:
    """Join surrogate halves; a half without its other becomes U+FFFD, since it has no UTF-8 form."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
