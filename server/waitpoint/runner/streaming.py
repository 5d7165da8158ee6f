"""One model step: the model's stream becomes events of the open message and, at its end, the list of calls.

Knows the model port and events, and what a provider may get wrong: whatever comes out of here fits the protocol. Does
not decide what a call means or whether it can be run.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from waitpoint_protocol import events as e
from waitpoint_protocol.state import ThreadState
from waitpoint_protocol.values import MAX_SAFE_INTEGER, Value, ValueRefused, normalise
from waitpoint_protocol.view import open_message

from .. import models

__all__ = ["ModelCall", "StepOutput", "sound", "stream_step", "unfinished_calls"]

MAX_NAME = 128
"""Characters of a tool name, or of a finish reason, that are carried on."""

MAX_SAID = 2_000
"""Characters of a text about an error; the model reads it at every later step."""

MAX_CALLS = 128
"""Tool calls in one model step; a model that makes more is stuck, and every one would stay in the message."""

MAX_STEP_TEXT = 16_777_216
"""Characters that one model step may bring in all: text, reasoning and the inputs of calls."""

_ID = re.compile(r"[!-~]{1,100}")
"""Ids that are kept as the model made them; there is room left to tell two apart."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A tool call as the model made it, under an id that is unique in its message.

    ``error`` tells why the input is no value; then ``input`` is an empty object.
    """

    id: str
    tool: str
    input: Value
    error: str | None = None


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
    playing = _Step(emit, step, attempt, taken_ids)
    try:
        return await playing.run(stream)
    finally:
        # A stream that is left in the middle holds a connection to its provider until somebody closes it.
        if (close := getattr(stream, "aclose", None)) is not None:
            await close()


def unfinished_calls(view: ThreadState, reason: str) -> list[e.Event]:
    """What ends the calls that were still being written when the turn ended for ``reason``."""
    message = open_message(view)
    said = "Stopped before the call was complete." if reason == "stopped" else "The model did not finish this call."
    return [
        e.ToolOutputError(tool_call_id=part["toolCallId"], error_text=said)
        for part in (message["parts"] if message else ())
        if part["type"] == "tool" and part["state"] == "input-streaming"
    ]


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
        self._held_kind = "text"
        self._output = StepOutput()
        self._text = 0
        self._calls = 0

    def _bound(self, text: str = "", *, call: bool = False) -> None:
        """Count what the step brings, and end it when it is too much to keep (promise 9)."""
        self._text += len(text)
        self._calls += call
        if self._calls > MAX_CALLS:
            raise models.ModelError(f"it made more than {MAX_CALLS} tool calls in one step")
        if self._text > MAX_STEP_TEXT:
            raise models.ModelError(f"it said more than {MAX_STEP_TEXT:,} characters in one step")

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
                    await self._emit(e.ToolInputStart(tool_call_id=own, tool_name=_name(tool), step=self._step))
                case models.ToolInputDelta(call_id, text):
                    own = self._own_id(call_id)
                    if own in self._started and text:
                        self._bound(text)
                        await self._emit(e.ToolInputDelta(tool_call_id=own, input_text_delta=_whole(text)))
                case models.ToolCall(call_id, tool, call_input):
                    await self._end_part()
                    own = self._own_id(call_id)
                    self._started.discard(own)
                    self._output.calls.append(_call(own, tool, call_input))
                    # Whatever comes under this id from here on is another call.
                    del self._ids[call_id]
                case models.Finish(reason, usage):
                    self._output.reason = _name(reason)
                    self._output.usage = _usage(usage)
                case _:
                    raise TypeError(f"a stream of model events holds a {type(event).__name__}")
        await self._end_part()
        for own in sorted(self._started):
            await self._emit(e.ToolOutputError(tool_call_id=own, error_text="The model did not finish this call."))
        return self._output

    def _own_id(self, call_id: str) -> str:
        # Some providers number calls from 1 in every request; within a message an id must name one call.
        if call_id not in self._ids:
            self._bound(call=True)
            first = _usable(call_id)
            own, n = first, 2
            while own in self._taken:
                own, n = f"{first}-{n}", n + 1
            self._taken.add(own)
            self._ids[call_id] = own
        return self._ids[call_id]

    async def _say(self, kind: str, text: str) -> None:
        self._bound(text)
        if self._held and kind != self._held_kind:
            await self._end_part()  # half a character of a text is no half of the reasoning that follows
        text = self._held + text
        self._held, self._held_kind = "", kind
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
            await self._delta(self._held_kind, _whole(held))
        if self._open is not None:
            kind, part = self._open
            self._open = None
            await self._emit(e.TextEnd(id=part) if kind == "text" else e.ReasoningEnd(id=part))


def _call(own: str, tool: str, call_input: Value) -> ModelCall:
    try:
        return ModelCall(own, _name(tool), normalise(call_input))
    except ValueRefused as refused:
        return ModelCall(own, _name(tool), {}, sound(f"The input is not a JSON value: {refused.code}: {refused}"))


def _usable(call_id: str) -> str:
    """The model's own id, or one made from it where it cannot go over the wire."""
    if _ID.fullmatch(call_id):
        return call_id
    return f"call_{hashlib.sha256(call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:20]}"


def _name(text: str) -> str:
    whole = _whole(text)
    return whole if len(whole) <= MAX_NAME else whole[:MAX_NAME] + "…"


def _usage(usage: Mapping[Any, Any] | None) -> dict[str, int] | None:
    """The counts among what a provider reports; it is information, and never worth losing the answer for."""
    counts = {
        _name(name): count
        for name, count in (usage or {}).items()
        if isinstance(name, str) and type(count) is int and abs(count) <= MAX_SAFE_INTEGER
    }
    return counts or None


def sound(text: str) -> str:
    """A text about an error: bounded, and well-formed whatever it quotes."""
    whole = _whole(text[: MAX_SAID + 1])
    return whole if len(whole) <= MAX_SAID else whole[:MAX_SAID] + "…"


def _whole(text: str) -> str:
    """Join surrogate halves; a half without its other becomes U+FFFD, since it has no UTF-8 form."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
