"""The inside door: application code in this process says, answers, stops and reads.

Knows the gate and the desk. The commands are those of the wire, so a race against a page has one winner like any other.
"""

from __future__ import annotations

import secrets
from typing import Any, Protocol

from pydantic import BaseModel

from waitpoint_protocol import frames
from waitpoint_protocol.codec import BadFrame, to_frames
from waitpoint_protocol.state import ThreadState
from waitpoint_protocol.values import Value

from .auth import Identity
from .desk import Desk
from .errors import Refusal
from .thread import Actor, OpenRequest
from .tools import Continuation, WaitPoint
from .tools.contract import encode

__all__ = ["APPLICATION", "Inside"]

MAX_REQUEST = 16 * 1024
"""Bytes of what a request asks; it lies in the control state of its thread, which every commit writes."""

APPLICATION = Actor("application", "system")
"""Who acts when application code does not say on whose behalf."""


class Gate(Protocol):
    """The way to a thread for those who have an identity."""

    async def command(
        self, command: frames.Command, identity: Identity, connection: str
    ) -> frames.Ack | frames.Reject: ...
    async def read_view(self, thread: str) -> frames.Snapshot: ...


class Hub(Protocol):
    """What is needed of the instance's hub."""

    @property
    def gate(self) -> Gate: ...


class Inside:
    """Commands from application code. Each returns the ack or raises :class:`~waitpoint.errors.Refusal`.

    With ``identity`` the command is somebody's: the ``may`` hook and the action's audience are asked, as if it had come
    over a connection of theirs. Without it the application itself acts, which may do everything.

    ``id`` is the command's id: give one of your own to be able to repeat the command safely. A repeat of an accepted
    command changes nothing and returns the first ack again.
    """

    desk: Desk
    hub: Hub

    async def say(
        self,
        thread: str,
        content: str | list[dict[str, Value]],
        *,
        identity: Identity | None = None,
        id: str | None = None,
    ) -> frames.Ack:
        """Send a message: a text, or its parts."""
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        return await self._command("message", thread, identity, id, parts=parts)

    async def submit(
        self, thread: str, action: str, data: Any, *, identity: Identity | None = None, id: str | None = None
    ) -> frames.Ack:
        """Answer an action with a JSON value or a pydantic model."""
        spelled = data.model_dump(mode="json", by_alias=True) if isinstance(data, BaseModel) else data
        return await self._command("submit", thread, identity, id, action=action, data=spelled)

    async def cancel(
        self,
        thread: str,
        action: str,
        *,
        reason: str | None = None,
        identity: Identity | None = None,
        id: str | None = None,
    ) -> frames.Ack:
        """Abandon an action without an answer."""
        said = {} if reason is None else {"reason": reason}
        return await self._command("cancel", thread, identity, id, action=action, **said)

    async def fail(
        self, thread: str, action: str, message: str, *, identity: Identity | None = None, id: str | None = None
    ) -> frames.Ack:
        """Say that an action could not be done."""
        return await self._command("fail", thread, identity, id, action=action, error={"message": message})

    async def end_turn(self, thread: str, *, identity: Identity | None = None, id: str | None = None) -> frames.Ack:
        """End the open turn, as ``stop`` on the wire: what runs and what waits in it is cancelled."""
        return await self._command("stop", thread, identity, id)

    async def request(
        self, thread: str, point: WaitPoint[Any, Any], data: Any, continuation: Continuation, *, id: str | None = None
    ) -> str:
        """Open a request; see :meth:`~waitpoint.app.Chat.request`."""
        asked = point.check_suspend(data)
        command = OpenRequest(
            id or secrets.token_hex(16),
            APPLICATION,
            continuation.name,
            point.name,
            asked,
            point.resume_schema,
            expires_in=point.expires_in_ms,
            audience=point.audience,
            redact=point.redact,
            unanswered=continuation.unanswered,
        )
        size = len(encode(asked))
        _check_name(thread, command.id)
        if size > MAX_REQUEST:
            message = f"the request has {size} bytes; the limit is {MAX_REQUEST}"
            raise Refusal(frames.Reject(id=command.id, thread=thread, code="too-large", message=message))
        reply = await self.desk.open_request(thread, command)
        if isinstance(reply, frames.Reject):
            raise Refusal(reply)
        assert reply.action is not None
        return reply.action

    async def state(self, thread: str) -> ThreadState:
        """The view of a thread, as clients see it. Raises ``StoreUnavailable``."""
        return (await self.hub.gate.read_view(thread)).state

    async def _command(
        self, type: str, thread: str, identity: Identity | None, id: str | None, **fields: Value
    ) -> frames.Ack:
        made = {"type": type, "id": id or secrets.token_hex(16), "thread": thread, **fields}
        frame = _frame(made)
        assert isinstance(frame, frames.Command)
        if identity is None:
            reply = await self.desk.apply(thread, frame, APPLICATION)
        else:
            reply = await self.hub.gate.command(frame, identity, f"inside_{frame.id}")
        if isinstance(reply, frames.Reject):
            raise Refusal(reply)
        return reply


def _frame(spelled: dict[str, Value]) -> frames.ClientFrame:
    """The frame that this would be on the wire, held to the same rules."""
    [frame] = to_frames(spelled)
    if isinstance(frame, BadFrame):
        errors = list(frame.errors) or None
        raise Refusal(
            frames.Reject(id=frame.id, thread=frame.thread, code=frame.code, message=str(frame), errors=errors)
        )
    return frame


def _check_name(thread: str, id: str) -> None:
    _frame({"type": "stop", "id": id, "thread": thread})
