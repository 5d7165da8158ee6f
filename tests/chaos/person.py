"""A person on one thread: says things, answers, answers twice, cancels, stops, repeats, and never takes silence for no.

Chooses by a generator seeded with the run's seed and the thread's name. Each command keeps its id through all repeats;
every reply goes into the history.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from contextlib import suppress
from typing import Any

from support.client import Client

from .history import DEFINITE, Command, History, Reply
from .tab import LOST, PATIENCE, Tab

__all__ = ["Person"]

GIVE_UP = 60.0
"""Seconds after which a command that got no definite reply is a broken promise."""


class Person:
    """Lives on ``thread`` until :meth:`rest`."""

    def __init__(self, thread: str, urls: list[str], history: History, seed: str) -> None:
        self.thread = thread
        self.resting = False
        self._urls = urls
        self._history = history
        self._random = random.Random(seed)
        self._tab = Tab(f"{thread} tab", thread, urls, history, f"{seed} tab")
        self._phones: dict[int, Client] = {}
        self._handled: set[str] = set()
        self._count = 0

    @property
    def tab(self) -> Tab:
        return self._tab

    async def live(self) -> None:
        """Act until told to rest; returns when every command has its reply."""
        view = self._tab.view
        while not self.resting:
            actions = [action for action in view.pending if action["id"] not in self._handled]
            if actions and view.live:
                await self._face(self._random.choice(actions))
            elif view.idle or (view.live and self._random.random() < 0.03):
                await self.say(self._script())
            elif self._random.random() < 0.03:
                await self.stop()
            seen = dict(view.cursor)
            await self._tab.changed(lambda seen=seen: view.cursor != seen or self.resting, 0.7)

    def rest(self) -> None:
        """Begin nothing new."""
        self.resting = True
        self._tab.settle()

    async def close(self) -> None:
        """Hang up."""
        for client in self._phones.values():
            await client.cut()
        self._phones.clear()

    # --- what to say

    def _script(self) -> list[Any]:
        choose = self._random
        steps: list[Any] = []
        for _ in range(choose.randint(1, 3)):
            kind = choose.choices(
                ("ask", "patiently", "soon", "twice", "three", "work", "once", "words"), (6, 3, 2, 2, 2, 2, 2, 3)
            )[0]
            seconds = choose.choice((0, 0, 0.1, 0.6))
            match kind:
                case "ask":
                    steps.append([["ask", {"label": "a", "seconds": seconds}]])
                case "patiently":
                    steps.append([["ask_patiently", {"label": "p", "seconds": seconds}]])
                case "soon":
                    steps.append([["ask_soon", {"label": "s", "seconds": seconds}]])
                case "twice":
                    steps.append([["ask_twice", {"label": "t"}]])
                case "three":
                    calls: list[Any] = [["ask", {"label": str(n), "seconds": seconds}] for n in range(2)]
                    steps.append([*calls, ["work", {"seconds": 0.4}]])
                case "work":
                    steps.append([["work", {"seconds": choose.uniform(0.1, 2)}]])
                case "once":
                    steps.append([["once", {"seconds": choose.uniform(0.1, 1)}]])
                case "words":
                    steps.append({"words": choose.randint(5, 60), "delay": 0.01})
        return steps

    async def say(self, steps: list[Any]) -> None:
        """Send a message."""
        nonce = self._nonce()
        text = json.dumps({"nonce": nonce, "steps": steps})
        await self._deliver(self._command("message", None, nonce), parts=[{"type": "text", "text": text}])

    async def stop(self) -> None:
        """Stop the thread."""
        await self._deliver(self._command("stop", None, self._nonce()))

    async def answer(self, action: str) -> None:
        """Answer once."""
        self._handled.add(action)
        await self._submit(action)

    async def _face(self, pending: dict[str, Any]) -> None:
        """Do something about an action."""
        action = pending["id"]
        self._handled.add(action)
        how = self._random.choices(
            ("answer", "double", "resend", "invalid", "cancel", "fail", "race", "stop", "message", "ignore"),
            (36, 20, 10, 5, 6, 4, 6, 3, 4, 6),
        )[0]
        match how:
            case "answer":
                await self._submit(action)
            case "double":
                await asyncio.gather(self._submit(action), self._submit(action))
            case "resend":
                command = self._command("submit", action, self._nonce())
                data = {"nonce": command.nonce}
                await asyncio.gather(*(self._deliver(command, action=action, data=data) for _ in range(3)))
            case "invalid":
                await self._deliver(self._command("invalid", action, ""), action=action, data={"nonce": 7})
                await self._submit(action)
            case "cancel":
                await self._cancel(action)
            case "fail":
                command = self._command("fail", action, self._nonce())
                await self._deliver(command, action=action, error={"message": command.nonce})
            case "race":
                await asyncio.gather(self._submit(action), self._cancel(action))
            case "stop":
                await asyncio.gather(self._submit(action), self.stop())
            case "message":
                await self.say(self._script())
                self._handled.discard(action)
            case _:
                if pending["name"] != "ask_soon.soon" and self._random.random() < 0.7:
                    self._handled.discard(action)

    async def _submit(self, action: str) -> None:
        command = self._command("submit", action, self._nonce())
        await self._deliver(command, action=action, data={"nonce": command.nonce})

    async def _cancel(self, action: str) -> None:
        command = self._command("cancel", action, self._nonce())
        await self._deliver(command, action=action, reason=command.nonce)

    def _nonce(self) -> str:
        self._count += 1
        return f"{self.thread}-n{self._count}"

    def _command(self, kind: str, action: str | None, nonce: str) -> Command:
        self._count += 1
        command = Command(f"{self.thread}-c{self._count}", kind, self.thread, action, nonce)
        self._history.commands[command.id] = command
        return command

    # --- how it gets there

    async def _deliver(self, command: Command, **fields: Any) -> None:
        """Send until the reply is definite, each time to an instance picked at random, always under the same id."""
        kind = "submit" if command.kind == "invalid" else command.kind
        frame = {"type": kind, "id": command.id, "thread": self.thread, **fields}
        deadline = time.monotonic() + GIVE_UP
        while time.monotonic() < deadline:
            instance = self._random.randrange(len(self._urls))
            sent = time.time()
            reply = await self._ask(instance, frame)
            command.replies.append(Reply(reply, instance, sent, time.time()))
            if reply is not None and (reply["type"] == "ack" or reply["code"] in DEFINITE):
                return
            await asyncio.sleep(self._random.uniform(0.05, 0.4))
        self._history.complaints.append(f"{command.id} ({command.kind}) got no definite reply within {GIVE_UP:g} s")

    async def _ask(self, instance: int, frame: dict[str, Any]) -> dict[str, Any] | None:
        """Send one frame over this person's line to an instance; ``None`` when nothing came back."""
        # A line of its own for each id: the same command is under way several times at once, and a client tells
        # replies apart by id only.
        client = self._phones.pop(instance, None)
        try:
            if client is None or client.closed is not None:
                client = await Client.open(self._urls[instance], deadline=PATIENCE)
                self._history.sockets += 1
            before = len(client.frames)
            await client.send(frame)

            def answered() -> dict[str, Any] | None:
                return next((f for f in client.frames[before:] if f.get("id") == frame["id"]), None)

            with suppress(AssertionError):
                await client.until(lambda: answered() or client.closed is not None, "", PATIENCE)
            reply = answered()
        except (*LOST, AssertionError):
            reply = None
        if client is not None:
            if reply is None or instance in self._phones:
                with suppress(AssertionError):
                    await client.cut()
            else:
                client.frames.clear()
                self._phones[instance] = client
        return reply
