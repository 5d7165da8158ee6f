"""The execution that the running code belongs to, so that ``suspend()`` and ``step()`` need no ``ctx``.

Knows one context variable. It reaches the tasks a tool starts and the threads of ``asyncio.to_thread``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .context import ToolContext

__all__ = ["current", "entered"]

_current: ContextVar[ToolContext[Any]] = ContextVar("waitpoint tool context")


def current(asking: str) -> ToolContext[Any]:
    """The context of the tool that runs here; ``asking`` is the function named in the error when none does."""
    try:
        return _current.get()
    except LookupError:
        raise RuntimeError(
            f"{asking} is called outside a tool; a thread that the tool started itself needs asyncio.to_thread, or "
            "contextvars.copy_context().run"
        ) from None


@contextmanager
def entered(context: ToolContext[Any]) -> Iterator[None]:
    """What runs inside belongs to this execution."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)
