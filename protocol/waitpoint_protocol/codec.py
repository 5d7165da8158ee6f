"""Bytes to frames and back, for ``waitpoint.v1.json`` and ``waitpoint.v1.msgpack``.

Knows bytes, values and frames; no sockets. What a peer sent is either a frame or a :class:`BadFrame` with a refusal
code, and never an exception of a library below.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import ValidationError

from .codes import SUBPROTOCOL_JSON, SUBPROTOCOL_MSGPACK, RefusalCode
from .frames import CLIENT_FRAME, WIRE, ClientFrame, FieldError, ServerFrame, dump_frame
from .packed import dump_msgpack, list_header, parse_msgpack, peek_second, read_msgpack
from .text import dump_json, parse_json, read_json
from .values import MAX_DEPTH, Unfit, Value, ValueRefused, format_path, normalise, shorten

__all__ = [
    "MAX_FRAMES",
    "BadFrame",
    "Codec",
    "JsonCodec",
    "MsgpackCodec",
    "codec_for",
    "dump_json",
    "parse_json",
    "parse_msgpack",
]

# A frame puts at most this much nesting around a value: frame, parts, part.
FRAME_DEPTH = 3

MAX_FRAMES = 256
"""Frames in one WebSocket message."""

# What is said about a refused frame stays small, whatever was in it.
_MAX_ERRORS = 20
_ERROR_CHARS = 300
_STEP_CHARS = 128


class BadFrame(ValueError):
    """A message that is not (only) frames.

    ``code`` is the refusal to send; ``id`` the command id when it could be read; ``fatal`` says that the message could
    not be parsed at all, so that nothing in it can be answered and the connection is closed.
    """

    def __init__(
        self,
        code: RefusalCode,
        message: str,
        *,
        id: str | None = None,
        thread: str | None = None,
        errors: tuple[FieldError, ...] = (),
        fatal: bool = False,
    ) -> None:
        self.code: RefusalCode = code
        self.id = id
        self.thread = thread
        self.errors = errors
        self.fatal = fatal
        super().__init__(message)


def to_frames(message: Any) -> list[ClientFrame | BadFrame]:
    """Read a parsed message as frames. A bad frame among good ones is reported in its place."""
    items = message if isinstance(message, list) else [message]
    if len(items) > MAX_FRAMES:
        return [BadFrame("bad-frame", f"{len(items)} frames in one message; the limit is {MAX_FRAMES}")]
    if not items:
        return [BadFrame("bad-frame", "no frame in the message")]
    return [_to_frame(item) for item in items]


def _to_frame(item: Any) -> ClientFrame | BadFrame:
    known: dict[str, Any] = item if isinstance(item, dict) else dict(item.known) if isinstance(item, Unfit) else {}
    try:
        value = normalise(item, max_depth=MAX_DEPTH + FRAME_DEPTH)
        if not isinstance(value, dict):
            return BadFrame("bad-frame", f"a frame is an object, not {_kind(value)}")
        # A frame is spelled one way only: the names of the fields in Python are not names on the wire.
        return CLIENT_FRAME.validate_python(value, by_alias=True, by_name=False, context=WIRE)
    except ValueRefused as refused:
        errors = [_field_error(refused.path, refused.message, refused.code)]
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)[:_MAX_ERRORS]
        errors = [
            _schema_error(detail["type"], detail["loc"], detail["msg"], detail.get("ctx", {})) for detail in details
        ]
    where = errors[0]
    return BadFrame(
        "bad-frame",
        f"{where.message} at {format_path(tuple(where.path))}",
        id=_name(known.get("id")),
        thread=_thread(known.get("thread")),
        errors=tuple(errors),
    )


def _schema_error(kind: str, loc: tuple[str | int, ...], said: str, context: dict[str, Any]) -> FieldError:
    path = _frame_path(loc)
    match kind:
        case "union_tag_invalid":
            return _field_error((*path, "type"), f"unknown type {_quoted(context.get('tag', ''))}", kind)
        case "union_tag_not_found":
            return _field_error((*path, "type"), "a type is missing", "missing")
        case "missing":
            return _field_error(path, "this field is missing", kind)
        case "extra_forbidden":
            return _field_error(path, "no such field", kind)
        case "unfit-value":
            return _field_error((*path, *context["path"]), said, context["code"])
        case _:
            return _field_error(path, said, kind)


def _field_error(path: tuple[str | int, ...], message: str, code: str) -> FieldError:
    steps: list[str | int] = [shorten(step, _STEP_CHARS) if isinstance(step, str) else step for step in path]
    return FieldError(path=steps, message=shorten(message, _ERROR_CHARS), code=code)


def _frame_path(loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    # Steps that name the union member that was tried are not in the frame: the first, and the one inside each part.
    if loc[:2] == ("message", "parts"):
        return (*loc[1:3], *loc[4:])
    return loc[1:]


def _quoted(text: str) -> str:
    return f'"{shorten(text, 40)}"'


def _kind(item: Value) -> str:
    if item is None:
        return "null"
    return {list: "a list", str: "text", bool: "a boolean", int: "a number", float: "a number"}.get(type(item), "that")


_NAME = re.compile(r"[!-~]{1,128}")
_THREAD = re.compile(r"[A-Za-z0-9._~:@-]{1,128}")


def _name(value: Value) -> str | None:
    return value if isinstance(value, str) and _NAME.fullmatch(value) else None


def _thread(value: Value) -> str | None:
    return value if isinstance(value, str) and _THREAD.fullmatch(value) else None


class Codec:
    """One subprotocol: how frames become WebSocket messages and back."""

    name: str
    binary: bool

    def decode(self, message: str | bytes, *, max_bytes: int) -> list[ClientFrame | BadFrame]:
        """Read a client's WebSocket message. Never raises for what a peer sent."""
        size = (
            len(message) if isinstance(message, bytes) or message.isascii() else len(message.encode("utf-8", "replace"))
        )
        if size > max_bytes:
            text = f"message of {size} bytes; the limit is {max_bytes}"
            return [BadFrame("too-large", text, id=self._peek_id(message))]
        if isinstance(message, bytes) is not self.binary:
            kind, other = ("binary", "text") if self.binary else ("text", "binary")
            return [BadFrame("bad-frame", f"{self.name} takes {kind} messages, not {other}", fatal=True)]
        try:
            return to_frames(self._read(message))
        except ValueRefused as refused:
            fatal = refused.code in ("not-json", "not-msgpack")
            error = _field_error(refused.path, refused.message, refused.code)
            return [
                BadFrame(
                    "bad-frame",
                    error.message,
                    id=None if fatal else self._peek_id(message),
                    errors=(error,),
                    fatal=fatal,
                )
            ]

    def parse(self, message: str | bytes) -> Value:
        """Read a message of either side as a value. Raises :class:`ValueRefused`."""
        return normalise(self._read(message), max_depth=MAX_DEPTH + FRAME_DEPTH + 1)

    def encode(self, frame: ClientFrame | ServerFrame) -> bytes:
        """Spell one frame as the bytes of this subprotocol."""
        raise NotImplementedError

    def join(self, frames: Iterable[bytes]) -> bytes:
        """Put encoded frames into one WebSocket message."""
        raise NotImplementedError

    def _read(self, message: str | bytes) -> Any:
        raise NotImplementedError

    def _peek_id(self, message: str | bytes) -> str | None:
        """The command id, if ``type`` and ``id`` come first as PROTOCOL.md asks of large commands."""
        raise NotImplementedError


_PEEK = re.compile(r'\s*\{\s*"type"\s*:\s*"[a-z]{1,32}"\s*,\s*"id"\s*:\s*"([!#-\[\]-~]{1,128})"')


class JsonCodec(Codec):
    """``waitpoint.v1.json``: text messages of JSON."""

    name = SUBPROTOCOL_JSON
    binary = False

    def encode(self, frame: ClientFrame | ServerFrame) -> bytes:
        return frame.model_dump_json().encode()

    def join(self, frames: Iterable[bytes]) -> bytes:
        parts = list(frames)
        return parts[0] if len(parts) == 1 else b"[" + b",".join(parts) + b"]"

    def _read(self, message: str | bytes) -> Any:
        return read_json(message)

    def _peek_id(self, message: str | bytes) -> str | None:
        if isinstance(message, bytes):
            return None
        found = _PEEK.match(message[:512])
        return found[1] if found else None


class MsgpackCodec(Codec):
    """``waitpoint.v1.msgpack``: binary messages of msgpack, the same values."""

    name = SUBPROTOCOL_MSGPACK
    binary = True

    def encode(self, frame: ClientFrame | ServerFrame) -> bytes:
        return dump_msgpack(dump_frame(frame))

    def join(self, frames: Iterable[bytes]) -> bytes:
        parts = list(frames)
        return parts[0] if len(parts) == 1 else list_header(len(parts)) + b"".join(parts)

    def _read(self, message: str | bytes) -> Any:
        if isinstance(message, str):
            raise ValueRefused("not-msgpack", "not msgpack: it is text")
        return read_msgpack(message)

    def _peek_id(self, message: str | bytes) -> str | None:
        return None if isinstance(message, str) else _name(peek_second(message[:512], "type", "id"))


JSON = JsonCodec()
MSGPACK = MsgpackCodec()


def codec_for(subprotocol: Literal["waitpoint.v1.json", "waitpoint.v1.msgpack"] | str | None) -> Codec | None:
    """The codec of a subprotocol; JSON when the client named none; ``None`` for one we do not speak."""
    if subprotocol is None or subprotocol == SUBPROTOCOL_JSON:
        return JSON
    return MSGPACK if subprotocol == SUBPROTOCOL_MSGPACK else None
