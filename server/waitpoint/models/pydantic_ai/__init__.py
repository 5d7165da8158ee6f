"""Every provider that pydantic-ai knows, through its model layer: no agent, no tool loop, one request per model step.

Needs the extra ``waitpoint[pydantic-ai]``; importing this package does not.
"""

from __future__ import annotations

from .model import PydanticAIModel

__all__ = ["PydanticAIModel"]
