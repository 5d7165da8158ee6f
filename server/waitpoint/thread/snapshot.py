"""A client's view, taken apart for the store and put together again.

A checkpoint is the live part of a view (status, the open message, pending, queued, title). Finished messages lie beside
it in the store, once each, so a checkpoint does not grow with history. Knows the view's shape and JSON; no store.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from waitpoint_protocol import state as wire

__all__ = ["build", "checkpoint", "trim"]

_LIVE = ("status", "messages", "pending", "queued", "title")


def checkpoint(state: wire.ThreadState) -> bytes:
    """Encode the live part of a view: everything but its finished messages, which the store keeps by position."""
    live: dict[str, Any] = {name: value for name, value in state.items() if name in _LIVE}
    live["messages"] = [message for message in state["messages"] if message["status"] == "open"]
    return json.dumps({"state": live}, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def build(thread: str, joined_checkpoint: bytes, messages: Sequence[bytes], before: int) -> wire.ThreadState:
    """Put a view together from a checkpoint, the finished messages up to it, and how many older ones there are.

    An empty checkpoint is a thread without one. The batches that follow the checkpoint are for the caller to fold.
    """
    state = wire.empty(thread)
    if joined_checkpoint:
        live = json.loads(joined_checkpoint)["state"]
        state.update({name: live[name] for name in _LIVE if name in live})  # type: ignore[typeddict-item]
    state["messages"] = [json.loads(message) for message in messages] + state["messages"]
    state["before"] = before
    return state


def trim(state: wire.ThreadState, page: int) -> None:
    """Keep the last ``page`` finished messages (and the open one); older ones are counted in ``before``."""
    messages = state["messages"]
    finished = len(messages) - (1 if messages and messages[-1]["status"] == "open" else 0)
    if finished > page:
        del messages[: finished - page]
        state["before"] += finished - page
