"""One connection's conversation, pure: frames and ticks in, effects out.

Knows who may speak when: hello first and once, limits, heartbeats, one reply to each command. No sockets, no asyncio,
no clock: time is an argument, randomness comes as a number. Whoever runs a session executes its effects in order.
"""

from __future__ import annotations

from enum import Enum
from typing import assert_never

from waitpoint_protocol import frames
from waitpoint_protocol.codec import BadFrame
from waitpoint_protocol.codes import Close, RefusalCode

from ..auth import Identity
from .effects import Authenticate, CloseSocket, Effect, Handle, Join, Leave, LoadHistory, Reauthenticate, Send
from .limits import Limits, TokenBucket

__all__ = ["Session"]

Item = frames.ClientFrame | BadFrame


class _Phase(Enum):
    NEW = "waiting for hello"
    CHECKING = "hello is being checked"
    OPEN = "greeted"
    CLOSED = "closed"


class Session:
    """The conversation on one connection. ``jitter`` (0.8 to 1.2, say) spreads the pings of many sessions."""

    __slots__ = (
        "_bucket",
        "_held",
        "_histories",
        "_in_flight",
        "_jitter",
        "_leaving",
        "_limits",
        "_patience",
        "_phase",
        "_ping_at",
        "_silent_at",
        "connection",
        "identity",
        "subscribed",
    )

    def __init__(self, connection: str, limits: Limits, *, now: float, jitter: float = 1.0) -> None:
        self.connection = connection
        self.identity: Identity | None = None
        self.subscribed: set[str] = set()
        self._limits = limits
        self._jitter = jitter
        self._phase = _Phase.NEW
        self._held: list[Item] = []
        self._in_flight = 0
        self._leaving = False
        self._histories = 0
        self._bucket = TokenBucket(limits.rate, limits.burst, now)
        self._patience = TokenBucket(limits.patience / 10, limits.patience, now)
        self._ping_at = now + limits.heartbeat * jitter
        self._silent_at: float | None = now + limits.hello_timeout  # until the greeting: when hello is too late

    @property
    def closed(self) -> bool:
        return self._phase is _Phase.CLOSED

    @property
    def in_flight(self) -> int:
        """Commands whose reply is still to come."""
        return self._in_flight

    # --- what the peer sends

    def receive(self, item: Item, now: float) -> list[Effect]:
        """Take a frame, or what should have been one."""
        match self._phase:
            case _Phase.CLOSED:
                return []
            case _Phase.NEW:
                return self._greet(item)
            case _Phase.CHECKING:
                return self._hold(item)
            case _Phase.OPEN:
                self._silent_at = None  # any frame is a sign of life
                return self._open(item, now)
            case _:
                assert_never(self._phase)

    def _greet(self, item: Item) -> list[Effect]:
        if isinstance(item, frames.Hello):
            self._phase = _Phase.CHECKING
            self._silent_at = None
            return [Authenticate(item)]
        if isinstance(item, BadFrame):
            if item.fatal:
                return self._bad(item)
            # A hello that is not one: nothing else can follow, and a second try would be the same.
            return [*self._bad(item), *self.close(Close.HELLO_EXPECTED, "the first frame must be a valid hello")]
        return self.close(Close.HELLO_EXPECTED, f"the first frame must be hello, not {item.type}")

    def _hold(self, item: Item) -> list[Effect]:
        if len(self._held) < self._limits.in_flight:
            self._held.append(item)
            return []
        return _refuse(item, "busy", "too many frames before welcome", retry=1.0)

    def _open(self, item: Item, now: float) -> list[Effect]:
        if not self._bucket.take(now):
            if not self._patience.take(now):
                return self.close(Close.FLOODING, "far more frames than the rate limit allows")
            message = f"more than {self._limits.rate:g} frames per second"
            return _refuse(item, "rate-limited", message, retry=self._bucket.wait())
        if isinstance(item, BadFrame):
            return self._bad(item)
        return self._frame(item)

    def _bad(self, bad: BadFrame) -> list[Effect]:
        reject = frames.Reject(
            id=bad.id, thread=bad.thread, code=bad.code, message=_short(str(bad)), errors=list(bad.errors) or None
        )
        if not bad.fatal:
            return [Send(reject)]
        return [Send(reject), *self.close(Close.BAD_FRAME, str(bad))]

    def _frame(self, frame: frames.ClientFrame) -> list[Effect]:
        match frame:
            case frames.Pong():
                return []
            case frames.Hello():
                return _refuse(frame, "bad-frame", "hello is sent once, as the first frame")
            case frames.Auth():
                return self._start(frame, Reauthenticate(frame))
            case frames.Subscribe():
                return self._subscribe(frame.thread, frame.from_, frame.id)
            case frames.Unsubscribe():
                return self._unsubscribe(frame)
            case frames.History():
                if self._histories >= self._limits.histories:
                    return _refuse(frame, "busy", "too many pages asked for at once", retry=0.2)
                self._histories += 1
                return [LoadHistory(frame)]
            case (
                frames.SendMessage()
                | frames.Submit()
                | frames.Cancel()
                | frames.Fail()
                | frames.Claim()
                | frames.Release()
                | frames.Stop()
            ):
                return self._start(frame, Handle(frame))
            case _:
                assert_never(frame)

    def _start(self, frame: frames.ClientFrame, effect: Effect) -> list[Effect]:
        if self._leaving:
            message = "this instance is stopping; reconnect and send the command again under the same id"
            return _refuse(frame, "unavailable", message, retry=0.1)
        if self._in_flight >= self._limits.in_flight:
            message = f"{self._in_flight} commands are waiting for their reply on this connection"
            return _refuse(frame, "busy", message, retry=0.2)
        self._in_flight += 1
        return [effect]

    def _subscribe(self, thread: str, cursor: frames.Cursor | None, id: str | None) -> list[Effect]:
        if thread not in self.subscribed and len(self.subscribed) >= self._limits.subscriptions:
            message = f"more than {self._limits.subscriptions} threads on one connection; unsubscribe from one first"
            return [Send(frames.Reject(id=id, thread=thread, code="forbidden", message=message))]
        self.subscribed.add(thread)
        return [Join(thread, cursor, id)]

    def _unsubscribe(self, frame: frames.Unsubscribe) -> list[Effect]:
        # Unsubscribing twice is no error: the client's wish holds already.
        effects: list[Effect] = []
        if frame.thread in self.subscribed:
            self.subscribed.discard(frame.thread)
            effects.append(Leave(frame.thread))
        if frame.id is not None:
            effects.append(Send(frames.Ack(id=frame.id, thread=frame.thread)))
        return effects

    # --- what the house answers

    def authenticated(self, identity: Identity, hello: frames.Hello, now: float) -> list[Effect]:
        """The hello was good: welcome, the threads it named, and what came while it was checked."""
        if self._phase is not _Phase.CHECKING:
            return []
        self._phase = _Phase.OPEN
        self.identity = identity
        self._ping_at = now + self._limits.heartbeat * self._jitter
        effects: list[Effect] = [Send(self._welcome(identity))]
        for subscription in hello.subscribe or ():
            effects.extend(self._subscribe(subscription.thread, subscription.from_, None))
        held, self._held = self._held, []
        for item in held:
            effects.extend(self.receive(item, now))
        return effects

    def _welcome(self, identity: Identity) -> frames.Welcome:
        limits = self._limits
        return frames.Welcome(
            connection=self.connection,
            identity=frames.Identity(id=identity.id, name=identity.name),
            limits=frames.Limits(
                frame_bytes=limits.frame_bytes, subscriptions=limits.subscriptions, depth=limits.depth
            ),
            heartbeat=round(limits.heartbeat * 1000),
            drain_window=round(limits.drain_window * 1000),
        )

    def unauthenticated(self, *, for_now: bool = False) -> list[Effect]:
        """The hello or the fresh token was refused; ``for_now`` if it could not be checked."""
        if for_now:
            return self.close(Close.INTERNAL_ERROR, "who you are could not be checked; try again later")
        return self.close(Close.UNAUTHENTICATED, "not authenticated")

    def reauthenticated(self, identity: Identity) -> list[Effect]:
        """A fresh token was good. A connection stays with the identity it was opened for."""
        self._in_flight -= 1
        if self.identity is not None and identity.id != self.identity.id:
            return self.close(Close.FORBIDDEN, "another identity needs another connection")
        self.identity = identity
        return []

    def replied(self, reply: frames.Ack | frames.Reject) -> list[Effect]:
        """A command was answered."""
        self._in_flight -= 1
        return [] if self.closed else [Send(reply)]

    def history_loaded(self, reply: frames.Ack | frames.Reject) -> list[Effect]:
        """A page of finished messages was read (or refused)."""
        self._histories -= 1
        return [] if self.closed else [Send(reply)]

    def join_refused(self, reject: frames.Reject) -> list[Effect]:
        """A thread cannot be followed."""
        if reject.thread is not None:
            self.subscribed.discard(reject.thread)
        return [] if self.closed else [Send(reject)]

    # --- time, and the end

    def tick(self, now: float) -> list[Effect]:
        """Let time pass: a ping, or the end of patience."""
        if self._silent_at is not None and now >= self._silent_at:
            if self._phase is _Phase.NEW:
                return self.close(Close.HELLO_TIMEOUT, "no hello in time")
            if self._phase is _Phase.OPEN:
                return self.close(Close.NO_PONG, "no sign of life after a ping")
        if self._phase is _Phase.OPEN and now >= self._ping_at:
            self._ping_at = now + self._limits.heartbeat * self._jitter
            if self._silent_at is None:
                self._silent_at = now + self._limits.grace
            return [Send(frames.Ping())]
        return []

    def goodbye(self, reason: str, within: float) -> list[Effect]:
        """Ask the client to leave by itself; everything goes on until it does."""
        if self.closed:
            return []
        return [Send(frames.Goodbye(reason=reason, reconnect_within=round(within * 1000)))]

    def leaving(self) -> None:
        """Take no further command: the connection will be closed once those in flight are answered."""
        self._leaving = True

    def close(self, code: Close, reason: str) -> list[Effect]:
        """End the conversation."""
        if self.closed:
            return []
        self._phase = _Phase.CLOSED
        self._held.clear()
        self.subscribed.clear()
        return [CloseSocket(code, _reason(reason))]


def _refuse(item: Item, code: RefusalCode, message: str, *, retry: float | None = None) -> list[Effect]:
    if isinstance(item, frames.Pong):
        return []  # nothing waits for an answer
    reject = frames.Reject(
        id=getattr(item, "id", None),
        thread=getattr(item, "thread", None),
        code=code,
        message=message,
        retry_ms=None if retry is None else max(1, round(retry * 1000)),
    )
    return [Send(reject)]


def _short(text: str) -> str:
    """Bound what is quoted of a peer's input."""
    return text if len(text) <= 400 else text[:399] + "…"


def _reason(text: str) -> str:
    # A close reason has room for 123 bytes (RFC 6455, section 5.5).
    return text.encode("utf-8", "replace")[:123].decode("utf-8", "ignore")
