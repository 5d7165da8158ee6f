"""What a client sees of a thread: messages, parts, pending actions, resolutions.

Knows shapes only; how events change them is in ``view.py`` and its twin ``client_js/reduce.js``. State is plain
JSON-shaped dictionaries (``TypedDict``), so a snapshot, a checkpoint and a test compare as values in any language.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from .shapes import Body, JsonObject, Text

__all__ = [
    "Action",
    "ActionRecord",
    "Actor",
    "Claim",
    "DataPart",
    "FilePart",
    "Message",
    "Origin",
    "Part",
    "Progress",
    "ReasoningPart",
    "Resolution",
    "TextPart",
    "ThreadState",
    "ToolPart",
    "ToolState",
    "empty",
]

_closed = with_config(ConfigDict(extra="forbid", strict=True, allow_inf_nan=False))

ToolState = Literal["input-streaming", "input-available", "running", "waiting", "output-available", "output-error"]
"""States of a tool part. They only move forward, except ``running`` and ``waiting``, which alternate."""


@_closed
class Actor(TypedDict):
    """Who did something: a person (or program) with an identity, or the system itself."""

    id: Text
    kind: Literal["person", "system"]
    name: NotRequired[Text]


@_closed
class Origin(TypedDict):
    """Where an action comes from."""

    toolName: Text
    suspendName: Text
    messageId: Text
    toolCallId: Text


@_closed
class Claim(TypedDict):
    """Which connection is working on an action that only one tab may do."""

    by: Actor
    connection: Text


@_closed
class Action(TypedDict):
    """One pending visit to a wait point. ``name`` is ``toolName.waitPoint``; ``schema`` the answer's JSON Schema."""

    id: Text
    name: Text
    kind: NotRequired[Text]
    input: Body
    schema: JsonObject
    origin: Origin
    at: Text
    expiresAt: NotRequired[Text]
    claim: NotRequired[Claim]


@_closed
class Resolution(TypedDict):
    """How an action ended. ``data`` is there when submitted, ``reason`` when cancelled, ``message`` when failed."""

    how: Literal["submitted", "cancelled", "failed", "expired"]
    by: Actor
    at: Text
    data: NotRequired[Body]
    redacted: NotRequired[bool]
    reason: NotRequired[Text]
    message: NotRequired[Text]


@_closed
class ActionRecord(TypedDict):
    """A visit to a wait point as the tool part remembers it: what was asked, and how it ended."""

    id: Text
    suspendName: Text
    input: Any
    at: Text
    resolution: NotRequired[Resolution]


@_closed
class TextPart(TypedDict):
    """Text; ``state`` is ``streaming`` until it is complete."""

    type: Literal["text"]
    id: NotRequired[Text]
    step: NotRequired[int]
    text: Text
    state: Literal["streaming", "done"]


@_closed
class ReasoningPart(TypedDict):
    """The model's reasoning, when it shares it."""

    type: Literal["reasoning"]
    id: NotRequired[Text]
    step: NotRequired[int]
    text: Text
    state: Literal["streaming", "done"]


@_closed
class DataPart(TypedDict):
    """Application data; a later event with the same ``id`` replaces it."""

    type: Literal["data"]
    id: Text
    name: Text
    data: Any
    step: NotRequired[int]


@_closed
class FilePart(TypedDict):
    """A reference to a file kept elsewhere."""

    type: Literal["file"]
    url: Text
    mediaType: Text
    name: NotRequired[Text]


@_closed
class Progress(TypedDict):
    """How far a tool is: a fraction from 0 to 1, a sentence, or both."""

    fraction: NotRequired[float]
    message: NotRequired[Text]


@_closed
class ToolPart(TypedDict):
    """One tool call. ``inputText`` exists only while the input streams."""

    type: Literal["tool"]
    toolCallId: Text
    toolName: Text
    step: int
    state: ToolState
    inputText: NotRequired[Text]
    input: NotRequired[Any]
    attempt: NotRequired[int]
    progress: NotRequired[Progress]
    actions: list[ActionRecord]
    output: NotRequired[Any]
    errorText: NotRequired[Text]


Part = Annotated[TextPart | ReasoningPart | DataPart | FilePart | ToolPart, Field(discriminator="type")]


@_closed
class Message(TypedDict):
    """A message. ``reason`` says why an assistant message ended; ``errorText`` is there when it ended in an error."""

    id: Text
    role: Literal["user", "assistant", "system"]
    parts: list[Part]
    status: Literal["open", "final"]
    at: Text
    by: NotRequired[Actor]
    reason: NotRequired[Text]
    errorText: NotRequired[Text]


@_closed
class ThreadState(TypedDict):
    """A client's view of a thread.

    ``messages`` ends with the open assistant message, if any; ``before`` counts the finished messages older than the
    first one shown (ask for them with ``history``); ``pending`` is in order of suspension.
    """

    thread: Text
    status: Literal["idle", "running", "waiting"]
    messages: list[Message]
    before: int
    pending: list[Action]
    queued: list[Message]
    title: NotRequired[Text]


def empty(thread: str) -> ThreadState:
    """The view of a thread in which nothing has happened yet."""
    return {"thread": thread, "status": "idle", "messages": [], "before": 0, "pending": [], "queued": []}
