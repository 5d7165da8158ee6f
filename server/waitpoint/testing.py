"""Test a chat: say, look at what is pending, answer, restart, assert. Without sockets, on a real store.

Knows the server without its sockets: commands go through the same gate, desk, runner and store as those of a page, and
what is seen is the same fold of the same log. Works under ``asyncio.run`` and any async test runner.
"""

from __future__ import annotations

import copy
import secrets
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from waitpoint_protocol.frames import Ack, Reject
from waitpoint_protocol.state import Action, Message, ThreadState, ToolPart

from .app import Chat, Server
from .auth import Identity
from .errors import Refusal
from .models import Model
from .testing_house import SAME, House, NotInTime

__all__ = ["ChatTester", "NotInTime", "Person", "Refusal"]

LEASE = 3_000
"""Milliseconds after which a run that a crash cut off is taken over; production has more patience."""


class Person:
    """One identity in one thread. Commands raise :class:`Refusal` when they are refused.

    Every command waits until the thread is settled: nothing runs, and what is open waits for somebody. With
    ``settle=False`` it returns as soon as the command is accepted.
    """

    def __init__(self, house: House, thread: str, identity: Identity) -> None:
        self._house = house
        self._thread = thread
        self.identity = identity

    # --- commands

    async def say(self, content: str | list[dict[str, Any]], *, settle: bool = True) -> str:
        """Send a message, a text or its parts; returns what the chat has said to it so far."""
        await self._house.follow(self._thread)
        await self._house.server.say(self._thread, content, identity=self.identity)
        await self._after(settle)
        return self.text

    async def answer(
        self, data: Any, *, action: str | Action | None = None, id: str | None = None, settle: bool = True
    ) -> Ack:
        """Submit an answer: a JSON value or a pydantic model.

        ``action`` is one of :attr:`pending`, also one of a while ago, or its name or id. It may be left out when only
        one is pending. ``id`` is the command's id; a repeat under it is acknowledged again and changes nothing.
        """
        server, chosen = self._house.server, self._choose(action)
        ack = await server.submit(self._thread, chosen, data, identity=self.identity, id=id)
        await self._after(settle)
        return ack

    async def cancel(
        self, reason: str | None = None, *, action: str | Action | None = None, settle: bool = True
    ) -> Ack:
        """Abandon an action without an answer."""
        server, chosen = self._house.server, self._choose(action)
        ack = await server.cancel(self._thread, chosen, reason=reason, identity=self.identity)
        await self._after(settle)
        return ack

    async def fail(self, message: str, *, action: str | Action | None = None, settle: bool = True) -> Ack:
        """Say that an action could not be done."""
        ack = await self._house.server.fail(self._thread, self._choose(action), message, identity=self.identity)
        await self._after(settle)
        return ack

    async def stop(self) -> Ack:
        """End the open turn: what runs and what waits in it is cancelled."""
        ack = await self._house.server.end_turn(self._thread, identity=self.identity)
        await self.settled()
        return ack

    # --- what is seen

    @property
    def state(self) -> ThreadState:
        """A copy of the view of the thread that a page has now. Whoever looks; :meth:`read` asks whether they may."""
        return copy.deepcopy(self._house.seen(self._thread))

    @property
    def messages(self) -> list[Message]:
        """The messages, oldest first; the last one may be open."""
        return self.state["messages"]

    @property
    def pending(self) -> list[Action]:
        """The actions that wait for an answer, in order of suspension."""
        return self.state["pending"]

    @property
    def text(self) -> str:
        """What the chat said in its last message."""
        last = self._last()
        return "".join(part["text"] for part in last["parts"] if part["type"] == "text") if last else ""

    @property
    def error(self) -> str | None:
        """Why the chat's last message ended in an error, if it did."""
        last = self._last()
        return last.get("errorText") if last else None

    def tool(self, name: str) -> ToolPart:
        """The last call of this tool. Raises ``LookupError`` if there was none."""
        calls = self.tools(name)
        if not calls:
            called = ", ".join(dict.fromkeys(part["toolName"] for part in self.tools())) or "none"
            raise LookupError(f"{name} was not called; tools that were: {called}")
        return calls[-1]

    def tools(self, name: str | None = None) -> list[ToolPart]:
        """All calls (of this tool), oldest first."""
        parts = [part for message in self.messages for part in message["parts"]]
        return [part for part in parts if part["type"] == "tool" and name in (None, part["toolName"])]

    async def read(self) -> ThreadState:
        """The view, if this person may follow the thread; else :class:`Refusal` with ``not-found``, as for a page."""
        if not await self._house.server.hub.gate.may_subscribe(self.identity, self._thread):
            raise Refusal(Reject(thread=self._thread, code="not-found", message="no such thread, or none you may see"))
        await self._house.follow(self._thread)
        return self.state

    # --- waiting

    async def settled(self) -> None:
        """Wait until nothing runs: the thread is idle, or everything open waits for somebody."""
        await self._house.follow(self._thread)
        await self._house.until(self._thread, lambda: self._house.settled(self._thread), "the thread to settle")

    async def until(self, condition: Callable[[], object], what: str = "a condition") -> None:
        """Wait until ``condition()`` is true, looking after every event."""

        async def true() -> bool:
            return bool(condition())

        await self._house.follow(self._thread)
        await self._house.until(self._thread, true, what)

    # --- others

    def as_(self, identity: str | Identity) -> Person:
        """Somebody else in the same thread."""
        return Person(self._house, self._thread, _identity(identity))

    def in_(self, thread: str) -> Person:
        """The same person in another thread."""
        return Person(self._house, thread, self.identity)

    async def _after(self, settle: bool) -> None:
        if settle:
            await self.settled()

    def _last(self) -> Message | None:
        return next((message for message in reversed(self.messages) if message["role"] == "assistant"), None)

    def _choose(self, action: str | Action | None) -> str:
        pending = self.pending
        named = ", ".join(one["name"] for one in pending) or "nothing"
        if isinstance(action, dict):
            return action["id"]
        if action is None:
            if len(pending) != 1:
                raise LookupError(f"{named} is pending; say which action you mean")
            return pending[0]["id"]
        found = [one["id"] for one in pending if one["name"] == action]
        if len(found) > 1:
            raise LookupError(f"{len(found)} actions {action} are pending; give the one of `pending` that you mean")
        return found[0] if found else action


class ChatTester(Person):
    """Runs a chat for a test: ``async with ChatTester(chat) as t: await t.say("Hello")``.

    ``model`` and ``deps`` replace the chat's: a scripted model makes a test of tools exact. ``identity`` is who ``t``
    is. ``timeout`` bounds every wait, in seconds. ``redis_url`` names a store of your own; else one is started for the
    test and removed with it (needs ``waitpoint[embedded]``). The chat's ``authenticate`` hook is not asked, its ``may``
    hook is.
    """

    def __init__(
        self,
        chat: Chat,
        *,
        model: Model | None = None,
        deps: Any = SAME,
        identity: str | Identity = "tester",
        thread: str | None = None,
        timeout: float = 10.0,
        redis_url: str = "",
        lease: int = LEASE,
    ) -> None:
        house = House(chat, model, deps, timeout, redis_url, lease)
        super().__init__(house, thread or f"test-{secrets.token_hex(6)}", _identity(identity))

    @property
    def server(self) -> Server:
        """The running server, for what application code does through it."""
        return self._house.server

    async def restart(self, *, chat: Chat | None = None, crash: bool = False, settle: bool = True) -> None:
        """Stop everything, the store too, and start it again on the same data.

        ``chat`` is what starts again, if it is another build. A tool that runs is handed over, and entered again with
        the same attempt; with ``crash`` it is cut off, and entered again, attempt + 1, when its lease has run out.
        """
        await self._house.stop(drain=not crash)
        self._house.chat = chat or self._house.chat
        await self._house.start()
        await self._after(settle)

    async def __aenter__(self) -> Self:
        try:
            await self._house.start()
            await self._house.follow(self._thread)
        except BaseException:
            await self._house.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._house.close()


def _identity(who: str | Identity) -> Identity:
    return who if isinstance(who, Identity) else Identity(who)
