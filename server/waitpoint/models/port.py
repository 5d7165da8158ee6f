"""The port to a model: one request per model step in, a stream of model events out.

Knows what is asked of a model and what may come back. Knows no provider, and nothing of how tools run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from waitpoint_protocol.state import Message
from waitpoint_protocol.values import Value

__all__ = [
    "Finish",
    "Model",
    "ModelError",
    "ModelEvent",
    "ModelRequest",
    "ReasoningDelta",
    "TextDelta",
    "ToolCall",
    "ToolDefinition",
    "ToolInputDelta",
    "ToolInputStart",
]


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """What a model is told of a tool: the same before, during and after a wait, and input fields only."""

    name: str
    description: str
    input_schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model step.

    ``messages`` is the thread so far, oldest first; from the second step of a turn on it ends with the open assistant
    message, whose tool parts all have their results. ``transcript.to_turns`` spells it for a provider.
    """

    thread_id: str
    step: int
    messages: Sequence[Message]
    tools: Sequence[ToolDefinition] = ()
    instructions: str | None = None

    @property
    def said(self) -> str:
        """The text of the message that opened this turn: what the person said last."""
        said = next((message for message in reversed(self.messages) if message["role"] == "user"), None)
        if said is None:
            return ""
        return "\n\n".join(part["text"] for part in said["parts"] if part["type"] == "text")


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text for the person."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolInputStart:
    """The model began to write a tool call; a ``ToolCall`` with the same id follows."""

    tool_call_id: str
    tool_name: str


@dataclass(frozen=True, slots=True)
class ToolInputDelta:
    """More of a tool call's input, as raw JSON text."""

    tool_call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A complete tool call. ``tool_call_id`` must be new to the thread."""

    tool_call_id: str
    tool_name: str
    input: Value


@dataclass(frozen=True, slots=True)
class Finish:
    """The model step is complete; the last event of a stream. ``usage`` holds token counts by name."""

    reason: str = "stop"
    usage: dict[str, int] | None = field(default=None)


ModelEvent = TextDelta | ReasoningDelta | ToolInputStart | ToolInputDelta | ToolCall | Finish


class ModelError(Exception):
    """The provider could not answer.

    ``message`` is shown to people in the chat: no secrets, and words they can act on. ``retryable`` tells whether
    asking again may help, ``retry_after`` how many seconds the provider wants to be left alone before that.
    """

    def __init__(self, message: str, *, retryable: bool = False, retry_after: float | None = None) -> None:
        self.message = message
        self.retryable = retryable
        self.retry_after = retry_after
        super().__init__(message)


@runtime_checkable
class Model(Protocol):
    """Anything that can answer a model request as a stream."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream one model step. Ends with ``Finish``, or raises :class:`ModelError`."""
        ...
