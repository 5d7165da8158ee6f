"""Models: the port every model is reached through, what a thread looks like to one, and a scripted one.

Knows requests, model events and turns. Knows nothing of Redis, sockets, tools' code or who drives a thread.
"""

from __future__ import annotations

from .port import (
    Finish,
    Model,
    ModelError,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolDefinition,
    ToolInputDelta,
    ToolInputStart,
)
from .scripted import Call, ScriptedModel
from .transcript import (
    AssistantTurn,
    IncompleteTranscript,
    SystemTurn,
    ToolResult,
    ToolTurn,
    Turn,
    UserTurn,
    to_turns,
)

__all__ = [
    "AssistantTurn",
    "Call",
    "Finish",
    "IncompleteTranscript",
    "Model",
    "ModelError",
    "ModelEvent",
    "ModelRequest",
    "ReasoningDelta",
    "ScriptedModel",
    "SystemTurn",
    "TextDelta",
    "ToolCall",
    "ToolDefinition",
    "ToolInputDelta",
    "ToolInputStart",
    "ToolResult",
    "ToolTurn",
    "Turn",
    "UserTurn",
    "to_turns",
]
