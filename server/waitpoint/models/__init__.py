"""Models: the port every model is reached through, what a thread looks like to one, and the models behind it.

Knows requests, model events and turns. Knows nothing of Redis, sockets, tools' code or who drives a thread.
"""

from __future__ import annotations

from .agent import AgentModel, agent
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
from .pydantic_ai import PydanticAIModel
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
    "AgentModel",
    "AssistantTurn",
    "Call",
    "Finish",
    "IncompleteTranscript",
    "Model",
    "ModelError",
    "ModelEvent",
    "ModelRequest",
    "PydanticAIModel",
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
    "agent",
    "to_turns",
]
