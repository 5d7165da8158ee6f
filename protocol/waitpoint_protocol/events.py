"""The thread's log, entry by entry: a closed, tagged union of events.

Knows shapes only. Names follow the AI SDK's stream parts where it has one. Text and tool events belong to the one open
assistant message of the thread, so they carry no message id.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, TypeAdapter, ValidationError

from .shapes import Body, Id, Integer, Shape, Text, Timestamp, absent
from .state import Action, Claim, Message, Progress, Resolution

__all__ = [
    "EVENTS",
    "ActionClaimed",
    "ActionPending",
    "ActionResolved",
    "DataEvent",
    "Event",
    "MessageAdded",
    "MessageFinish",
    "MessageQueued",
    "MessageStart",
    "ReasoningDelta",
    "ReasoningEnd",
    "ReasoningStart",
    "RunFinish",
    "RunStart",
    "StepFinish",
    "StepReset",
    "TextDelta",
    "TextEnd",
    "TextStart",
    "ThreadUpdated",
    "ToolInputAvailable",
    "ToolInputDelta",
    "ToolInputStart",
    "ToolOutputAvailable",
    "ToolOutputError",
    "ToolProgress",
    "ToolRunning",
    "decode_events",
    "dump_events",
    "encode_events",
]


class MessageAdded(Shape):
    """A finished message joined the thread (a user's, or one that was queued)."""

    type: Literal["message-added"] = "message-added"
    message: Message


class MessageQueued(Shape):
    """A user's message was accepted and waits for the open turn to end; ``message-added`` follows with the same id."""

    type: Literal["message-queued"] = "message-queued"
    message: Message


class MessageStart(Shape):
    """The assistant message of a turn opened."""

    type: Literal["message-start"] = "message-start"
    message_id: Id
    at: Timestamp


class TextStart(Shape):
    """A text part began."""

    type: Literal["text-start"] = "text-start"
    id: Id
    step: int


class TextDelta(Shape):
    """Text was appended to a part. A delta never ends inside a surrogate pair."""

    type: Literal["text-delta"] = "text-delta"
    id: Id
    delta: Text


class TextEnd(Shape):
    """A text part is complete."""

    type: Literal["text-end"] = "text-end"
    id: Id


class ReasoningStart(Shape):
    """A reasoning part began."""

    type: Literal["reasoning-start"] = "reasoning-start"
    id: Id
    step: int


class ReasoningDelta(Shape):
    """Reasoning was appended to a part."""

    type: Literal["reasoning-delta"] = "reasoning-delta"
    id: Id
    delta: Text


class ReasoningEnd(Shape):
    """A reasoning part is complete."""

    type: Literal["reasoning-end"] = "reasoning-end"
    id: Id


class ToolInputStart(Shape):
    """The model began to write a tool call."""

    type: Literal["tool-input-start"] = "tool-input-start"
    tool_call_id: Id
    tool_name: Text
    step: int


class ToolInputDelta(Shape):
    """More of the tool call's input, as raw text."""

    type: Literal["tool-input-delta"] = "tool-input-delta"
    tool_call_id: Id
    input_text_delta: Text


class ToolInputAvailable(Shape):
    """The tool call is complete; this input is what the tool will see at every entry."""

    type: Literal["tool-input-available"] = "tool-input-available"
    tool_call_id: Id
    tool_name: Text
    step: int
    input: Body


class ToolRunning(Shape):
    """The tool body was entered; ``attempt`` counts entries at the same place, from 1."""

    type: Literal["tool-running"] = "tool-running"
    tool_call_id: Id
    attempt: int


class ToolProgress(Shape):
    """The tool said how far it is."""

    type: Literal["tool-progress"] = "tool-progress"
    tool_call_id: Id
    progress: Progress


class ActionPending(Shape):
    """A tool suspended; the action can be submitted, cancelled or failed."""

    type: Literal["action-pending"] = "action-pending"
    action: Action


class ActionClaimed(Shape):
    """A connection took (or, without ``claim``, gave back) an action that only one tab may do."""

    type: Literal["action-claimed"] = "action-claimed"
    action: Id
    claim: Claim | None = absent()


class ActionResolved(Shape):
    """An action ended, once and for all."""

    type: Literal["action-resolved"] = "action-resolved"
    action: Id
    tool_call_id: Id
    resolution: Resolution


class ToolOutputAvailable(Shape):
    """The tool call ended with this output."""

    type: Literal["tool-output-available"] = "tool-output-available"
    tool_call_id: Id
    output: Body


class ToolOutputError(Shape):
    """The tool call ended in an error, in words the model sees too."""

    type: Literal["tool-output-error"] = "tool-output-error"
    tool_call_id: Id
    error_text: Text


class DataEvent(Shape):
    """An application's data part; the same ``id`` replaces an earlier one."""

    type: Literal["data"] = "data"
    id: Id
    name: Text
    data: Body
    step: int | None = absent()


class StepFinish(Shape):
    """A model step ended; ``usage`` holds token counts by name."""

    type: Literal["step-finish"] = "step-finish"
    step: int
    reason: Text
    usage: dict[Text, Integer] | None = absent()


class StepReset(Shape):
    """A cut-off model step is discarded; it will be streamed again."""

    type: Literal["step-reset"] = "step-reset"
    step: int


class MessageFinish(Shape):
    """The open assistant message is complete. ``reason``: stop, stopped, superseded, step-cap, length or error."""

    type: Literal["message-finish"] = "message-finish"
    message_id: Id
    reason: Text
    error_text: Text | None = absent()


class RunStart(Shape):
    """An instance began to drive the thread."""

    type: Literal["run-start"] = "run-start"
    run: Id
    at: Timestamp


class RunFinish(Shape):
    """Nobody drives the thread any more: it is idle, or waits for people."""

    type: Literal["run-finish"] = "run-finish"
    run: Id
    status: Literal["idle", "waiting"]
    at: Timestamp


class ThreadUpdated(Shape):
    """The thread's own attributes changed."""

    type: Literal["thread-updated"] = "thread-updated"
    title: Text | None = absent()


Event = (
    MessageAdded
    | MessageQueued
    | MessageStart
    | TextStart
    | TextDelta
    | TextEnd
    | ReasoningStart
    | ReasoningDelta
    | ReasoningEnd
    | ToolInputStart
    | ToolInputDelta
    | ToolInputAvailable
    | ToolRunning
    | ToolProgress
    | ActionPending
    | ActionClaimed
    | ActionResolved
    | ToolOutputAvailable
    | ToolOutputError
    | DataEvent
    | StepFinish
    | StepReset
    | MessageFinish
    | RunStart
    | RunFinish
    | ThreadUpdated
)

EVENTS: TypeAdapter[list[Event]] = TypeAdapter(list[Annotated[Event, Field(discriminator="type")]])
"""The only parser of event lists."""


TYPES: frozenset[str] = frozenset(member.model_fields["type"].default for member in get_args(Event))
"""Event types of this build."""


def encode_events(events: list[Event]) -> bytes:
    """Encode a batch as the JSON array that is stored, published and sent, once."""
    return EVENTS.dump_json(events)


def decode_events(body: bytes | str) -> list[Event]:
    """Read a stored batch back, to fold it. Raises ``pydantic.ValidationError`` if it is not one.

    During a rolling deploy a newer instance may have written the batch: event types and fields that this build does not
    know are left out, as clients do. So this list may be shorter than the batch; never count positions with it.
    """
    try:
        return EVENTS.validate_json(body, extra="ignore")
    except ValidationError as error:
        if all(
            detail["type"] != "union_tag_invalid" for detail in error.errors(include_url=False, include_input=False)
        ):
            raise
    return EVENTS.validate_json(
        json.dumps([event for event in json.loads(body) if not _is_newer(event)]), extra="ignore"
    )


def _is_newer(event: Any) -> bool:
    kind = event.get("type") if isinstance(event, dict) else None
    return isinstance(kind, str) and kind not in TYPES


def dump_events(events: list[Event]) -> list[dict[str, Any]]:
    """Spell events as plain values, for codecs other than JSON."""
    dumped: list[dict[str, Any]] = EVENTS.dump_python(events)
    return dumped
