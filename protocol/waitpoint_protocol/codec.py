"""Bytes to frames and back, for ``waitpoint.v1.json`` and ``waitpoint.v1.msgpack``.

Knows bytes, values and frames; no sockets. What a peer sent is either a frame or a :class:`BadFrame` with a refusal
code, and never an exception of a library below.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Literal, NoReturn

import msgpack
from pydantic import ValidationError

from .codes import SUBPROTOCOL_JSON, SUBPROTOCOL_MSGPACK, RefusalCode
from .frames import CLIENT_FRAME, ClientFrame, FieldError, ServerFrame, dump_frame
from .values import MAX_DEPTH, Value, ValueRefused, format_path, normalise

__all__ = ["BadFrame", "Codec", "JsonCodec", "MsgpackCodec", "codec_for", "dump_json", "parse_json", "parse_msgpack"]

# A frame adds at most this much nesting around a value: array of frames, frame, parts, part.
FRAME_DEPTH = 4

MAX_FRAMES = 256
"""Frames in one WebSocket message."""


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


def parse_json(text: str | bytes, *, max_depth: int = MAX_DEPTH) -> Value:
    """Parse strict I-JSON: no NaN, no duplicate member names, no unsafe integers. Raises :class:`ValueRefused`."""
    try:
        parsed = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_object)
    except RecursionError:
        raise ValueRefused("too-deep", "nested too deeply") from None
    except (ValueError, UnicodeDecodeError) as error:
        if isinstance(error, ValueRefused):
            raise
        raise ValueRefused("not-json", f"not JSON: {error}") from None
    return normalise(parsed, max_depth=max_depth)


def dump_json(value: Value) -> str:
    """Spell a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def parse_msgpack(data: bytes, *, max_depth: int = MAX_DEPTH) -> Value:
    """Unpack one msgpack value of the JSON data model. Raises :class:`ValueRefused` for anything else."""
    try:
        parsed = msgpack.unpackb(
            data, raw=False, strict_map_key=False, object_pairs_hook=_object, ext_hook=_no_extension, use_list=True
        )
    except ValueRefused:
        raise
    except RecursionError:
        raise ValueRefused("too-deep", "nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueRefused("bad-unicode", "text that is not UTF-8") from None
    except Exception as error:
        # msgpack raises a family of exceptions of its own besides ValueError; all mean the same here.
        name = type(error).__name__
        if name == "StackError":
            raise ValueRefused("too-deep", "nested too deeply") from None
        raise ValueRefused("not-msgpack", f"not msgpack: {error or name}") from None
    return normalise(parsed, max_depth=max_depth)


def _no_constant(name: str) -> NoReturn:
    raise ValueRefused("not-finite", f"{name} is not JSON")


def _no_extension(code: int, data: bytes) -> NoReturn:
    raise ValueRefused("unsupported-type", f"msgpack extension type {code} is not part of the data model")


def _object(pairs: list[tuple[Any, Value]]) -> dict[Any, Value]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueRefused("duplicate-key", "the same member name twice in one object (RFC 7493, section 2.3)")
    return out


def to_frames(value: Value) -> list[ClientFrame | BadFrame]:
    """Read a decoded message as frames. A bad frame among good ones is reported in its place."""
    items = value if isinstance(value, list) else [value]
    if len(items) > MAX_FRAMES:
        return [BadFrame("bad-frame", f"more than {MAX_FRAMES} frames in one message")]
    if not items:
        return [BadFrame("bad-frame", "no frame in the message")]
    return [_to_frame(item) for item in items]


def _to_frame(item: Value) -> ClientFrame | BadFrame:
    if not isinstance(item, dict):
        return BadFrame("bad-frame", f"a frame is an object, not {_kind(item)}")
    try:
        return CLIENT_FRAME.validate_python(item)
    except ValidationError as error:
        errors = tuple(
            FieldError(path=[step for step in _frame_path(detail["loc"])], message=detail["msg"], code=detail["type"])
            for detail in error.errors(include_url=False, include_context=False, include_input=False)[:20]
        )
        where = errors[0]
        return BadFrame(
            "bad-frame",
            f"{where.message} at {format_path(tuple(where.path))}",
            id=_name(item.get("id")),
            thread=_thread(item.get("thread")),
            errors=errors,
        )


def _frame_path(loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    # The first step names the union member that was tried; a client knows which frame it sent.
    return loc[1:]


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
            value = self._parse(message)
        except ValueRefused as refused:
            # A message that is well-formed but holds a value outside the data model can still be answered.
            fatal = refused.code in ("not-json", "not-msgpack")
            return [
                BadFrame(
                    "bad-frame",
                    str(refused),
                    id=None if fatal else self._peek_id(message),
                    errors=(FieldError(path=list(refused.path), message=refused.message, code=refused.code),),
                    fatal=fatal,
                )
            ]
        return to_frames(value)

    def encode(self, frame: ClientFrame | ServerFrame) -> bytes:
        """Spell one frame as the bytes of this subprotocol."""
        raise NotImplementedError

    def join(self, frames: Iterable[bytes]) -> bytes:
        """Put encoded frames into one WebSocket message."""
        raise NotImplementedError

    def _parse(self, message: str | bytes) -> Value:
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

    def _parse(self, message: str | bytes) -> Value:
        return parse_json(message, max_depth=MAX_DEPTH + FRAME_DEPTH)

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
        packed: bytes = msgpack.packb(dump_frame(frame))
        return packed

    def join(self, frames: Iterable[bytes]) -> bytes:
        parts = list(frames)
        if len(parts) == 1:
            return parts[0]
        header: bytes = msgpack.Packer().pack_array_header(len(parts))
        return header + b"".join(parts)

    def _parse(self, message: str | bytes) -> Value:
        return parse_msgpack(
            message if isinstance(message, bytes) else message.encode(), max_depth=MAX_DEPTH + FRAME_DEPTH
        )

    def _peek_id(self, message: str | bytes) -> str | None:
        if isinstance(message, str):
            return None
        unpacker = msgpack.Unpacker(raw=False, max_buffer_size=1024)
        unpacker.feed(message[:512])
        try:
            unpacker.read_map_header()
            if unpacker.unpack() != "type":
                return None
            unpacker.unpack()
            return _name(unpacker.unpack()) if unpacker.unpack() == "id" else None
        except Exception:
            return None


JSON = JsonCodec()
MSGPACK = MsgpackCodec()


def codec_for(subprotocol: Literal["waitpoint.v1.json", "waitpoint.v1.msgpack"] | str | None) -> Codec | None:
    """The codec of a subprotocol; JSON when the client named none; ``None`` for one we do not speak."""
    if subprotocol is None or subprotocol == SUBPROTOCOL_JSON:
        return JSON
    return MSGPACK if subprotocol == SUBPROTOCOL_MSGPACK else None
