"""Waitpoint: a WebSocket chat backend whose tools can stop and wait for people."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _version

try:
    __version__ = _version("waitpoint")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

from .app import Chat, Server
from .auth import AuthRefused, Connection, Identity
from .errors import ConfigurationError, DefinitionError, Refusal, StoreError, WaitpointError
from .models import (
    AgentModel,
    Call,
    Finish,
    Model,
    ModelError,
    ModelRequest,
    PydanticAIModel,
    ScriptedModel,
    TextDelta,
    ToolCall,
    agent,
)
from .settings import Settings
from .tools import (
    ContinuationContext,
    Initial,
    Resume,
    Tool,
    ToolContext,
    UnsupportedEntry,
    WaitPoint,
    client_tool,
    external_tool,
    step,
    step_sync,
    suspend,
    tool,
)

__all__ = [
    "AgentModel",
    "AuthRefused",
    "Call",
    "Chat",
    "ConfigurationError",
    "Connection",
    "ContinuationContext",
    "DefinitionError",
    "Finish",
    "Identity",
    "Initial",
    "Model",
    "ModelError",
    "ModelRequest",
    "PydanticAIModel",
    "Refusal",
    "Resume",
    "ScriptedModel",
    "Server",
    "Settings",
    "StoreError",
    "TextDelta",
    "Tool",
    "ToolCall",
    "ToolContext",
    "UnsupportedEntry",
    "WaitPoint",
    "WaitpointError",
    "__version__",
    "agent",
    "client_tool",
    "external_tool",
    "step",
    "step_sync",
    "suspend",
    "tool",
]
