"""Frames: what one WebSocket message carries, in both directions, as two closed, tagged unions.

Knows shapes only. The unions are the only parsers: what they do not accept is not a frame. Clients ignore fields they
do not know; the server refuses them, so that a misspelled option is never silently dropped.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from .codes import RefusalCode, ResetWhy
from .events import Event
from .shapes import Body, Id, Shape, Text, ThreadId, absent
from .state import Message, Resolution, ThreadState

__all__ = [
    "CLIENT_FRAME",
    "SERVER_FRAME",
    "WIRE",
    "Ack",
    "Auth",
    "Cancel",
    "Claim",
    "ClientFrame",
    "Command",
    "Cursor",
    "Events",
    "Fail",
    "Failure",
    "FieldError",
    "Goodbye",
    "Hello",
    "History",
    "Identity",
    "Limits",
    "Live",
    "Page",
    "Ping",
    "Pong",
    "Reject",
    "Release",
    "Reset",
    "SendMessage",
    "ServerFrame",
    "Snapshot",
    "SnapshotPart",
    "Stop",
    "Submit",
    "Subscribe",
    "Subscription",
    "Unsubscribe",
    "UserData",
    "UserFile",
    "UserPart",
    "UserText",
    "Welcome",
    "dump_frame",
]


WIRE = object()
"""Validation context of what a peer sent; see :class:`_ClientShape`."""


class _ClientShape(Shape):
    """What clients send. On the wire an optional field is there with a value or not at all: null is no value of it."""

    @model_validator(mode="before")
    @classmethod
    def _absent_is_not_null(cls, sent: Any, info: ValidationInfo) -> Any:
        if info.context is not WIRE or not isinstance(sent, dict) or None not in sent.values():
            return sent
        for field in cls.model_fields.values():
            if field.exclude_if is not None and field.alias in sent and sent[field.alias] is None:
                context = {"code": "null_forbidden", "path": [field.alias]}
                raise PydanticCustomError("unfit-value", "null is no value of this field; leave it out", context)
        return sent


class Cursor(Shape):
    """A place in a thread's log: one indivisible value. A thread without a log has ``log == "" and seq == 0``."""

    log: Annotated[str, Field(max_length=64)]
    seq: Annotated[int, Field(ge=0)]
    tag: Annotated[str, Field(max_length=64)]


class UserText(Shape):
    """Text that a person typed."""

    type: Literal["text"] = "text"
    text: Annotated[str, Field(min_length=1)]


class UserFile(_ClientShape):
    """A reference to a file kept elsewhere."""

    type: Literal["file"] = "file"
    url: Annotated[str, Field(min_length=1)]
    media_type: Text
    name: Text | None = absent()


class UserData(Shape):
    """Application data that goes with a message."""

    type: Literal["data"] = "data"
    id: Id
    name: Text
    data: Body


UserPart = Annotated[UserText | UserFile | UserData, Field(discriminator="type")]

# --- client -> server


class Subscription(_ClientShape):
    """A thread to follow, from a cursor if the client has one."""

    thread: ThreadId
    from_: Cursor | None = absent(alias="from")


class Hello(_ClientShape):
    """The first frame, once, within the hello timeout; names threads to rejoin in the same round trip."""

    type: Literal["hello"] = "hello"
    token: Text | None = absent()
    subscribe: list[Subscription] | None = absent()


class Auth(Shape):
    """A fresh token for the running connection."""

    type: Literal["auth"] = "auth"
    token: Text


class Pong(Shape):
    """The answer to a ping."""

    type: Literal["pong"] = "pong"


class Subscribe(Subscription):
    """Follow a thread. Success is a snapshot or the missed events, then ``live``."""

    type: Literal["subscribe"] = "subscribe"
    id: Id | None = absent()


class Unsubscribe(_ClientShape):
    """Follow a thread no longer."""

    type: Literal["unsubscribe"] = "unsubscribe"
    id: Id | None = absent()
    thread: ThreadId


class SendMessage(Shape):
    """Say something in a thread; the first message creates it."""

    type: Literal["message"] = "message"
    id: Id
    thread: ThreadId
    parts: Annotated[list[UserPart], Field(min_length=1, max_length=64)]


class Submit(Shape):
    """Answer an action. ``data`` is checked against its resume schema; ``null`` is an answer, leaving it out is not."""

    type: Literal["submit"] = "submit"
    id: Id
    thread: ThreadId
    action: Id
    data: Body


class Cancel(_ClientShape):
    """Abandon an action without an answer."""

    type: Literal["cancel"] = "cancel"
    id: Id
    thread: ThreadId
    action: Id
    reason: Annotated[str, Field(max_length=2000)] | None = absent()


class Failure(Shape):
    """Why the client could not do what was asked."""

    message: Annotated[str, Field(min_length=1, max_length=2000)]


class Fail(Shape):
    """Say that an action could not be done."""

    type: Literal["fail"] = "fail"
    id: Id
    thread: ThreadId
    action: Id
    error: Failure


class Claim(Shape):
    """Take an action that only one tab may do."""

    type: Literal["claim"] = "claim"
    id: Id
    thread: ThreadId
    action: Id


class Release(Shape):
    """Give a claimed action back."""

    type: Literal["release"] = "release"
    id: Id
    thread: ThreadId
    action: Id


class Stop(Shape):
    """End the open turn: running tools are cancelled, pending actions too."""

    type: Literal["stop"] = "stop"
    id: Id
    thread: ThreadId


class History(Shape):
    """Ask for ``limit`` finished messages that come before position ``before``."""

    type: Literal["history"] = "history"
    id: Id
    thread: ThreadId
    before: Annotated[int, Field(ge=0)]
    limit: Annotated[int, Field(ge=1, le=200)] = 50


Command = SendMessage | Submit | Cancel | Fail | Claim | Release | Stop
"""Frames that ask for a change of a thread; ``id`` is the idempotency key."""

ClientFrame = Hello | Auth | Pong | Subscribe | Unsubscribe | History | Command

CLIENT_FRAME: TypeAdapter[ClientFrame] = TypeAdapter(Annotated[ClientFrame, Field(discriminator="type")])

# --- server -> client


class Identity(Shape):
    """Who the server takes this connection for."""

    id: Text
    name: Text | None = absent()


class Limits(Shape):
    """What the server accepts on this connection: byte counts are of UTF-8."""

    frame_bytes: int
    subscriptions: int
    depth: int


class Welcome(Shape):
    """The answer to ``hello``. ``heartbeat``: ms between pings; ``drainWindow``: ms to spread reconnects over."""

    type: Literal["welcome"] = "welcome"
    connection: Id
    identity: Identity
    limits: Limits
    heartbeat: int
    drain_window: int


class SnapshotPart(Shape):
    """Which piece of a large snapshot this is, from 1; messages of all pieces are joined in order."""

    index: int
    of: int


class Snapshot(Shape):
    """The whole view of a thread at a cursor."""

    type: Literal["snapshot"] = "snapshot"
    thread: ThreadId
    cursor: Cursor
    state: ThreadState
    part: SnapshotPart | None = absent()


class Events(Shape):
    """A batch of the log: ``seq`` is the first event's, ``prev`` the tag of the batch before, ``tag`` this batch's."""

    type: Literal["events"] = "events"
    thread: ThreadId
    log: Text
    seq: int
    prev: Text
    tag: Text
    events: list[Annotated[Event, Field(discriminator="type")]]


class Live(Shape):
    """The subscriber has everything up to this cursor; what follows is sent as it happens."""

    type: Literal["live"] = "live"
    thread: ThreadId
    cursor: Cursor


class Reset(Shape):
    """The client's view is void; a snapshot follows."""

    type: Literal["reset"] = "reset"
    thread: ThreadId
    why: ResetWhy


class FieldError(Shape):
    """One thing wrong with a payload: where (keys and indexes from the root), what, and a stable code."""

    path: list[Text | int]
    message: Text
    code: Text


class Page(Shape):
    """Finished messages; ``before`` is the position of the first of them."""

    messages: list[Message]
    before: int


class Ack(Shape):
    """The command was accepted (or had been: ``dup``, with the first reply again)."""

    type: Literal["ack"] = "ack"
    id: Id
    thread: ThreadId | None = absent()
    dup: bool | None = absent()
    message: Id | None = absent()
    queued: bool | None = absent()
    action: Id | None = absent()
    page: Page | None = absent()


class Reject(Shape):
    """The command was refused and nothing was written. ``winner`` says how an action ended when somebody was first."""

    type: Literal["reject"] = "reject"
    id: Id | None = absent()
    thread: ThreadId | None = absent()
    code: RefusalCode
    message: Text
    errors: list[FieldError] | None = absent()
    winner: Resolution | None = absent()
    retry_ms: int | None = absent()


class Ping(Shape):
    """Are you there? Answered with ``pong``."""

    type: Literal["ping"] = "ping"


class Goodbye(Shape):
    """The server will close this socket; reconnect at a random moment within ``reconnectWithin`` ms."""

    type: Literal["goodbye"] = "goodbye"
    reason: Text
    reconnect_within: int


ServerFrame = Welcome | Snapshot | Events | Live | Reset | Ack | Reject | Ping | Goodbye

SERVER_FRAME: TypeAdapter[ServerFrame] = TypeAdapter(Annotated[ServerFrame, Field(discriminator="type")])


def dump_frame(frame: ClientFrame | ServerFrame) -> dict[str, Any]:
    """Spell a frame as plain values, as a codec puts them on the wire."""
    return frame.model_dump()
