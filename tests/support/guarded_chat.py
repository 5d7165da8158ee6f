"""A chat with people in it: tokens are names, and each thread belongs to those its name lists.

``ann.bob~x`` is Ann's and Bob's thread. Bob only reads in threads that end in ``~ro``; actions named ``*.private`` are
answered by the first owner only. Every question the hook is asked is noted in the file ``WAITPOINT_TEST_ASKED``.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

from pydantic import BaseModel

from waitpoint import Chat, Connection, Identity, ToolContext, WaitPoint, tool
from waitpoint.thread import Action
from waitpoint_protocol.frames import Hello

from .odd_chat import OddModel


class Ask(BaseModel):
    prompt: str


open_point = WaitPoint("open", suspend=Ask, resume=bool)
private = WaitPoint("private", suspend=Ask, resume=bool)
for_bob = WaitPoint("forBob", suspend=Ask, resume=bool, audience=["bob"])
secret: WaitPoint[Ask, str] = WaitPoint("secret", suspend=Ask, resume=str, redact=True)
POINTS: dict[str, WaitPoint[Any, Any]] = {
    "open": open_point,
    "private": private,
    "forBob": for_bob,
    "secret": secret,
}


@tool(waits=list(POINTS.values()))
async def ask(ctx: ToolContext, point: str) -> str:
    """Wait at the named point."""
    for known in POINTS.values():
        if known.answered(ctx.entry):
            return f"answered by {ctx.entry.action.by['id'] if ctx.entry.action.by else '?'}"
    return ctx.suspend(POINTS[point], Ask(prompt=point))


def authenticate(connection: Connection, hello: Hello) -> Identity | None:
    """A token is a name; ``odd:`` tokens make identities that no hook should return."""
    match hello.token:
        case None | "":
            return None
        case "odd:surrogate-id":
            return Identity("a\ud800")
        case "odd:surrogate-name":
            return Identity("ann", name="\ud800")
        case "odd:dict":
            return {"id": "ann"}  # type: ignore[return-value]
        case "odd:raises":
            raise RuntimeError("the directory is down")
        case name:
            return Identity(name, name=name.title())


async def may(identity: Identity, verb: str, thread: str, action: Action | None) -> bool:
    """Owners may do everything, with the exceptions above."""
    if path := os.environ.get("WAITPOINT_TEST_ASKED"):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, (json.dumps([identity.id, verb, thread]) + "\n").encode())
        os.close(descriptor)
    if thread.endswith("~slow") and verb == "answer":
        await asyncio.sleep(0.3)
    owners = thread.split("~")[0].split(".")
    if identity.id not in owners:
        return False
    if thread.endswith("~ro") and identity.id == "bob":
        return verb in ("subscribe", "read")
    if action is not None and action.name.endswith(".private"):
        return identity.id == owners[0]
    return True


chat = Chat(OddModel(), [ask], authenticate=authenticate, may=may)
