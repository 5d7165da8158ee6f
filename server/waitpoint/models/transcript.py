"""A thread as a model reads it: turns in order, and for every tool call exactly one result, in call order.

Knows messages and parts. Knows no provider: an adapter maps turns to whatever its API calls them. App data parts are
for the page and are left out; so is reasoning, which providers do not take back from a stranger.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from waitpoint_protocol.state import ActionRecord, FilePart, Message, Part, ToolPart
from waitpoint_protocol.values import Value

from .port import ToolCall

__all__ = [
    "AssistantTurn",
    "IncompleteTranscript",
    "SystemTurn",
    "ToolResult",
    "ToolTurn",
    "Turn",
    "UserTurn",
    "to_turns",
]

MAX_QUESTION = 2_000
"""Characters of a suspend payload that an unanswered wait quotes to the model."""


class IncompleteTranscript(Exception):
    """A tool call has no result yet, so no model may be asked; ``tool_call_id`` says which."""

    def __init__(self, tool_call_id: str, tool_name: str, state: str) -> None:
        self.tool_call_id = tool_call_id
        super().__init__(
            f"tool call {tool_call_id} of {tool_name} is {state} and has no result; "
            "ask the model only when every call is output-available or output-error"
        )


@dataclass(frozen=True, slots=True)
class SystemTurn:
    """Words of the application."""

    text: str


@dataclass(frozen=True, slots=True)
class UserTurn:
    """What a person said and attached."""

    text: str
    files: tuple[FilePart, ...] = ()


@dataclass(frozen=True, slots=True)
class AssistantTurn:
    """One model step: what the model said, and the calls it made."""

    text: str
    calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolResult:
    """How one call ended: its ``output``, or ``error_text`` in words a model can act on."""

    tool_call_id: str
    tool_name: str
    output: Value = None
    error_text: str | None = None

    @property
    def failed(self) -> bool:
        """Whether the call ended in an error."""
        return self.error_text is not None


@dataclass(frozen=True, slots=True)
class ToolTurn:
    """The results of one step's calls, in call order."""

    results: tuple[ToolResult, ...]


Turn = SystemTurn | UserTurn | AssistantTurn | ToolTurn


def to_turns(messages: Sequence[Message]) -> list[Turn]:
    """Spell a thread's messages as turns. Raises :class:`IncompleteTranscript` if a call has no result."""
    turns: list[Turn] = []
    for message in messages:
        match message["role"]:
            case "system":
                turns.append(SystemTurn(_text(message["parts"])))
            case "user":
                files = tuple(part for part in message["parts"] if part["type"] == "file")
                turns.append(UserTurn(_text(message["parts"]), files))
            case "assistant":
                for parts in _steps(message["parts"]):
                    turns.extend(_step(parts))
            case role:
                assert_never(role)
    return turns


def _steps(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Group an assistant message's parts by model step; a part without one belongs to the step before it."""
    group: list[Part] = []
    current: int | None = None
    for part in parts:
        step = part.get("step")
        if isinstance(step, int) and step != current:
            if group and current is not None:
                yield group
                group = []
            current = step
        group.append(part)
    if group:
        yield group


def _step(parts: Sequence[Part]) -> Iterator[Turn]:
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for part in parts:
        # A call that ended before its input was complete was never made; providers take no call without input.
        if part["type"] == "tool" and ("input" in part or part["state"] != "output-error"):
            calls.append(ToolCall(part["toolCallId"], part["toolName"], part.get("input")))
            results.append(_result(part))
    text = _text(parts)
    if text or calls:
        yield AssistantTurn(text, tuple(calls))
    if results:
        yield ToolTurn(tuple(results))


def _result(part: ToolPart) -> ToolResult:
    match part["state"]:
        case "output-available":
            return ToolResult(part["toolCallId"], part["toolName"], output=part.get("output"))
        case "output-error":
            lines = [part.get("errorText") or "The tool call ended in an error.", *map(_asked, _unanswered(part))]
            return ToolResult(part["toolCallId"], part["toolName"], error_text="\n".join(lines))
        case state:
            raise IncompleteTranscript(part["toolCallId"], part["toolName"], state)


def _unanswered(part: ToolPart) -> Iterable[ActionRecord]:
    return (
        record
        for record in part["actions"]
        if "resolution" in record and record["resolution"]["how"] in ("cancelled", "failed", "expired")
    )


def _asked(record: ActionRecord) -> str:
    """Say what an unanswered wait wanted to know: without it the model cannot ask again, better."""
    question = json.dumps(record["input"], ensure_ascii=False)
    if len(question) > MAX_QUESTION:
        question = question[:MAX_QUESTION] + "…"
    return f"Asked at {record['suspendName']}: {question}"


def _text(parts: Sequence[Part]) -> str:
    return "\n\n".join(part["text"] for part in parts if part["type"] == "text" and part["text"])
