"""Whether somebody may speak to a thread, and then the desk. Knows the policy, the desk and the store's pages.

Who may not read a thread gets the same ``not-found`` whether it exists or not; who may read it but not do this gets
``forbidden``. Whether an *action* may be answered is for the desk to ask: only it knows the action.
"""

from __future__ import annotations

import json
import logging
from typing import Protocol

from waitpoint_protocol import frames
from waitpoint_protocol.events import decode_events
from waitpoint_protocol.state import Message
from waitpoint_protocol.view import fold

from ..auth import Guard, Identity, Verb
from ..store.types import Store, StoreUnavailable
from ..thread.snapshot import build, trim
from ..turns import Turns
from .limits import Sizes

__all__ = ["CommandDesk", "Gate"]

logger = logging.getLogger(__name__)

PAGE_BYTES = 524_288
"""Largest page of old messages; a page that would be larger has fewer messages."""

PAGE = Sizes().page
"""Finished messages in a view that is read once."""

RETRY_MS = 1000


class CommandDesk(Protocol):
    """Decides commands. Never raises for what a peer or the store did."""

    async def handle(
        self, thread: str, frame: frames.Command, identity: Identity, connection: str
    ) -> frames.Ack | frames.Reject: ...


class Gate:
    """The way to a thread."""

    def __init__(self, guard: Guard, desk: CommandDesk, store: Store) -> None:
        self._guard = guard
        self._desk = desk
        self._store = store
        self._turns = Turns()

    async def command(self, command: frames.Command, identity: Identity, connection: str) -> frames.Ack | frames.Reject:
        """Take a command to the desk. Always answers."""
        try:
            # Two messages sent one after the other must not change places because a hook took longer for the first.
            async with self._turns.of((connection, command.thread)):
                refused = await self._refusal(command, identity)
            if refused is not None:
                return refused
            return await self._desk.handle(command.thread, command, identity, connection)
        except Exception:
            logger.exception("thread %s: a command (%s) could not be handled", command.thread, command.type)
            return unavailable(command.id, command.thread)

    async def history(self, history: frames.History, identity: Identity) -> frames.Ack | frames.Reject:
        """Read a page of finished messages. Always answers."""
        thread = history.thread
        try:
            if not await self._guard.may(identity, "read", thread):
                return not_found(history.id, thread)
            first, messages = await self._store.messages(thread, before=history.before, limit=history.limit)
        except StoreUnavailable:
            return unavailable(history.id, thread)
        except Exception:
            logger.exception("thread %s: its messages could not be read", thread)
            return unavailable(history.id, thread)
        size, skip = 0, len(messages)
        while skip and (size == 0 or size + len(messages[skip - 1]) <= PAGE_BYTES):
            skip -= 1
            size += len(messages[skip])
        shown: list[Message] = [json.loads(message) for message in messages[skip:]]
        # Stored messages were checked when they were made; checking each again would be most of the work of a page.
        page = frames.Page.model_construct(messages=shown, before=first + skip)
        return frames.Ack.model_construct(id=history.id, thread=thread, page=page)

    async def view(self, thread: str, identity: Identity) -> frames.Snapshot | frames.Reject:
        """Read the view of a thread, as a subscriber would get it. Always answers."""
        try:
            if not await self._guard.may(identity, "read", thread):
                return not_found(None, thread)
            return await self.read_view(thread)
        except StoreUnavailable:
            return unavailable(None, thread)
        except Exception:
            logger.exception("thread %s: its view could not be read", thread)
            return unavailable(None, thread)

    async def read_view(self, thread: str) -> frames.Snapshot:
        """The view of a thread, whoever asks. Raises ``StoreUnavailable``."""
        joined = await self._store.join(thread, page=PAGE)
        state = build(thread, joined.checkpoint, joined.messages, joined.messages_before)
        for batch in joined.batches:
            fold(state, decode_events(batch.body))
        trim(state, PAGE)
        # As with pages: what is stored was checked when it was made.
        return frames.Snapshot.model_construct(thread=thread, cursor=joined.head.cursor, state=state)

    async def may_subscribe(self, identity: Identity, thread: str) -> bool:
        """Whether somebody may follow a thread."""
        return await self._guard.may(identity, "subscribe", thread)

    async def _refusal(self, command: frames.Command, identity: Identity) -> frames.Reject | None:
        verb: Verb
        match command:
            case frames.SendMessage():
                verb = "send"
            case frames.Stop():
                verb = "stop"
            case _:
                verb = "read"  # then the desk asks about the action itself
        if await self._guard.may(identity, verb, command.thread):
            return None
        if verb == "read" or not await self._guard.may(identity, "read", command.thread):
            return not_found(command.id, command.thread)
        return frames.Reject(
            id=command.id, thread=command.thread, code="forbidden", message=f"you may not {verb} in this thread"
        )


def not_found(id: str | None, thread: str) -> frames.Reject:
    """The answer of a thread that is not there, and of one that somebody may not see."""
    return frames.Reject(id=id, thread=thread, code="not-found", message="no such thread, or none that you may see")


def unavailable(id: str | None, thread: str) -> frames.Reject:
    """The store cannot be reached (or something here broke); a repeat under the same id is safe."""
    return frames.Reject(
        id=id,
        thread=thread,
        code="unavailable",
        message="the store cannot be reached; send it again under the same id",
        retry_ms=RETRY_MS,
    )
