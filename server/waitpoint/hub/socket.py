"""One WebSocket connection: the shell around a session. Knows ASGI, codecs and tasks; the rules are the session's.

The reader feeds decoded frames to the session and executes its effects; the sender (``sender.py``) is the way out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Protocol, assert_never

from waitpoint_protocol import frames
from waitpoint_protocol.codec import Codec
from waitpoint_protocol.codes import Close

from ..auth import AuthUnavailable, Connection, Guard, Identity
from ..store.types import StoreUnavailable
from .claims import Claims
from .effects import Authenticate, CloseSocket, Effect, Handle, Join, Leave, LoadHistory, Reauthenticate, Send
from .fanout import Fanout
from .follow import Follow
from .gate import Gate, not_found, unavailable
from .limits import Limits
from .peer import Peer
from .sender import Sender
from .session import Session

__all__ = ["House", "Socket"]

logger = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[dict[str, Any]]]
SendMessage = Callable[[dict[str, Any]], Awaitable[None]]


class House(Protocol):
    """What a connection needs of its instance."""

    @property
    def guard(self) -> Guard: ...
    @property
    def gate(self) -> Gate: ...
    @property
    def fanout(self) -> Fanout: ...
    @property
    def claims(self) -> Claims: ...
    @property
    def limits(self) -> Limits: ...
    def clock(self) -> float: ...
    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run work that outlives the connection: a command that was sent is carried out though its sender left."""
        ...


class Socket:
    """A connection that has been accepted. ``connection`` tells what is known of it; only checking a token needs it."""

    __slots__ = ("_codec", "_connection", "_follows", "_house", "_joins", "_receive", "_sender", "session")

    def __init__(
        self,
        house: House,
        session: Session,
        connection: Callable[[], Connection],
        codec: Codec,
        receive: Receive,
        send: SendMessage,
    ) -> None:
        self.session = session
        self._house = house
        self._connection = connection
        self._codec = codec
        self._receive = receive
        self._sender = Sender(codec, send, Peer(receive), house.clock)
        self._follows: dict[str, Follow] = {}
        self._joins: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Read until the peer is gone. Never raises for what a peer does."""
        limit = self._house.limits.frame_bytes
        try:
            while True:
                message = await self._receive()
                if message["type"] != "websocket.receive":
                    return
                if self.session.closed:
                    continue  # our close is on its way; what still comes is for nobody
                text = message.get("text")
                payload: str | bytes = message["bytes"] if text is None else text
                for item in self._codec.decode(payload, max_bytes=limit):
                    self.execute(self.session.receive(item, self._house.clock()))
                # An idle connection waits in the next line but one for a long time; it must not hold on to these.
                message = payload = text = item = None  # type: ignore[assignment]
                await self._sender.room()
        finally:
            self._end()

    def tick(self, now: float) -> None:
        """Let time pass."""
        if self._sender.blocked(now) > self._house.limits.send_timeout:
            self.session.close(Close.SLOW, "")
            self._forget()
            self._sender.cut(Close.SLOW, "the connection does not take what is sent")
        else:
            self.execute(self.session.tick(now))

    def abort(self) -> None:
        """Cut the connection off."""
        self.session.close(Close.GOING_AWAY, "")
        self._forget()
        self._sender.abort()

    def execute(self, effects: Iterable[Effect]) -> None:
        """Do what the session wants."""
        for effect in effects:
            match effect:
                case Send(frame):
                    self._sender.put(self._encode(frame))
                case Handle(command):
                    self._house.run(self._handle(command))
                case LoadHistory(history):
                    self._house.run(self._load(history))
                case Join(thread, cursor, id):
                    self._leave(thread)
                    self._joins[thread] = asyncio.create_task(self._join(thread, cursor, id), name=f"join {thread}")
                case Leave(thread):
                    self._leave(thread)
                case Authenticate(hello):
                    self._house.run(self._authenticate(hello))
                case Reauthenticate(auth):
                    self._house.run(self._reauthenticate(auth))
                case CloseSocket(code, reason):
                    self._sender.close(code, reason)
                    self._forget()
                case _:
                    assert_never(effect)

    def _encode(self, frame: frames.ServerFrame) -> bytes:
        try:
            return self._codec.encode(frame)
        except Exception:
            # Only a refusal that quotes what cannot be quoted gets here. The answer is still a definite one.
            logger.exception("a %s frame could not be spelled", frame.type)
            plain = frames.Reject(id=getattr(frame, "id", None), code="bad-frame", message="not a frame")
            return self._codec.encode(plain)

    # --- who

    async def _authenticate(self, hello: frames.Hello) -> None:
        try:
            identity = await self._house.guard.identify(self._connection(), hello)
        except AuthUnavailable:
            self.execute(self.session.unauthenticated(for_now=True))
            return
        if identity is None:
            self.execute(self.session.unauthenticated())
        else:
            self.execute(self.session.authenticated(identity, hello, self._house.clock()))

    async def _reauthenticate(self, auth: frames.Auth) -> None:
        try:
            identity = await self._house.guard.identify(self._connection(), frames.Hello(token=auth.token))
        except AuthUnavailable:
            self.execute(self.session.unauthenticated(for_now=True))
            return
        if identity is None:
            self.execute(self.session.unauthenticated())
        else:
            self.execute(self.session.reauthenticated(identity))

    @property
    def _identity(self) -> Identity:
        identity = self.session.identity
        assert identity is not None, "the session lets nobody in before hello"
        return identity

    # --- commands

    async def _handle(self, command: frames.Command) -> None:
        connection, house = self.session.connection, self._house
        reply = await house.gate.command(command, self._identity, connection)
        if isinstance(reply, frames.Ack):
            match command:
                case frames.Claim(thread=thread, action=action):
                    house.claims.took(connection, self._identity, thread, action, house.clock())
                case frames.Release(thread=thread, action=action) | frames.Submit(thread=thread, action=action):
                    house.claims.gave_back(connection, thread, action)
        self.execute(self.session.replied(reply))
        if self.session.closed:
            house.claims.gone(connection)  # it left before its claim was granted

    async def _load(self, history: frames.History) -> None:
        reply = await self._house.gate.history(history, self._identity)
        self.execute(self.session.history_loaded(reply))

    # --- threads

    async def _join(self, thread: str, cursor: frames.Cursor | None, id: str | None) -> None:
        if not await self._house.gate.may_subscribe(self._identity, thread):
            self._refuse_join(not_found(id, thread))
            return
        follow = self._follows[thread] = self._house.fanout.follow(thread, self._sender)
        try:
            await follow.begin(cursor)
        except Exception as error:
            if not isinstance(error, StoreUnavailable):
                logger.exception("thread %s could not be joined", thread)
            self._refuse_join(unavailable(id, thread))
        else:
            self._joins.pop(thread, None)

    def _refuse_join(self, reject: frames.Reject) -> None:
        assert reject.thread is not None
        self._joins.pop(reject.thread, None)  # this very task: it must not cancel itself below
        self._leave(reject.thread)
        self.execute(self.session.join_refused(reject))

    def _leave(self, thread: str) -> None:
        task = self._joins.pop(thread, None)
        if task is not None:
            task.cancel()
        follow = self._follows.pop(thread, None)
        if follow is not None:
            self._house.fanout.leave(follow)

    def _forget(self) -> None:
        for thread in {*self._joins, *self._follows}:
            self._leave(thread)
        self._house.claims.gone(self.session.connection)

    def _end(self) -> None:
        self.session.close(Close.NORMAL, "")
        self._forget()
        self._sender.stop()
