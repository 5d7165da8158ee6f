"""Values as msgpack, limited to the data model of JSON.

Knows the msgpack format only. Reading is done here and not by the msgpack library: that one reserves room for as many
items as a header announces, so a few hundred nested headers in one small message cost gigabytes; and it cannot say
where in a message something does not fit. Writing is the library's.
"""

from __future__ import annotations

import struct
from typing import Any

import msgpack

from .text import duplicate_keys
from .values import MAX_DEPTH, Unfit, Value, ValueRefused, normalise

__all__ = ["dump_msgpack", "list_header", "parse_msgpack", "peek_second", "read_msgpack"]

# Deeper than any message may be, and well within the interpreter's stack.
_READ_DEPTH = 200

_BINARY = Unfit("unsupported-type", "binary data is not part of the data model; send text")
_EXTENSION = Unfit("unsupported-type", "msgpack extension types are not part of the data model")
_BAD_TEXT = Unfit("bad-unicode", "text that is not UTF-8")

# Scalars of a fixed size, by first byte.
_NUMBERS = {
    first: struct.Struct(form)
    for first, form in {
        0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
        0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
    }.items()
}  # fmt: skip

# How many bytes of length follow the first byte; extension types have one more byte for their type.
_TEXT_LENGTH = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_BINARY_LENGTH = {0xC4: 1, 0xC5: 2, 0xC6: 4}
_EXTENSION_LENGTH = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_EXTENSION_FIXED = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
_LIST_LENGTH = {0xDC: 2, 0xDD: 4}
_OBJECT_LENGTH = {0xDE: 2, 0xDF: 4}


def parse_msgpack(data: bytes, *, max_depth: int = MAX_DEPTH) -> Value:
    """Unpack one msgpack value of the JSON data model. Raises :class:`ValueRefused` for anything else."""
    return normalise(read_msgpack(data), max_depth=max_depth)


def read_msgpack(data: bytes) -> Any:
    """Unpack one msgpack value; what is outside the data model is left as :class:`Unfit`. Raises :class:`ValueRefused`.

    Time and memory are bounded by the length of ``data``, whatever its headers announce.
    """
    reader = _Reader(data)
    value = reader.read(_READ_DEPTH)
    if reader.at != len(data):
        raise _broken("more bytes after the value")
    return value


def dump_msgpack(value: Value) -> bytes:
    """Spell a value as msgpack."""
    packed: bytes = msgpack.packb(value)
    return packed


def list_header(length: int) -> bytes:
    """What goes before the bytes of ``length`` values to make them one list."""
    header: bytes = msgpack.Packer().pack_array_header(length)
    return header


def peek_second(start: bytes, first: str, second: str) -> Any:
    """The second member of an object whose bytes begin with ``start``, if its first two members have these names."""
    reader = _Reader(start)
    try:
        head = reader.take(1)[0]
        if head in _OBJECT_LENGTH:
            reader.length(_OBJECT_LENGTH[head])
        elif not 0x80 <= head <= 0x8F:
            return None
        if reader.read(0) != first:
            return None
        reader.read(0)
        return reader.read(0) if reader.read(0) == second else None
    except ValueRefused:
        return None


def _broken(why: str) -> ValueRefused:
    return ValueRefused("not-msgpack", f"not msgpack: {why}")


class _Reader:
    """A place in the bytes of one message."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def read(self, room: int) -> Any:
        """The value that begins here, of any kind."""
        first = self.take(1)[0]
        if first <= 0x7F:
            return first
        if first <= 0x8F:
            return self.object(first & 0x0F, room)
        if first <= 0x9F:
            return self.list(first & 0x0F, room)
        if first <= 0xBF:
            return self.text(first & 0x1F)
        if first >= 0xE0:
            return first - 0x100
        if first == 0xC0:
            return None
        if first == 0xC2 or first == 0xC3:
            return first == 0xC3
        if first in _NUMBERS:
            form = _NUMBERS[first]
            return form.unpack(self.take(form.size))[0]
        if first in _TEXT_LENGTH:
            return self.text(self.length(_TEXT_LENGTH[first]))
        if first in _LIST_LENGTH:
            return self.list(self.length(_LIST_LENGTH[first]), room)
        if first in _OBJECT_LENGTH:
            return self.object(self.length(_OBJECT_LENGTH[first]), room)
        return self.unfit(first)

    def take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self.data):
            raise _broken("it ends in the middle of a value")
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def length(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def text(self, length: int) -> str | Unfit:
        try:
            return self.take(length).decode()
        except UnicodeDecodeError:
            return _BAD_TEXT

    def list(self, length: int, room: int) -> list[Any]:
        self.expect(length, room)
        return [self.read(room - 1) for _ in range(length)]

    def object(self, length: int, room: int) -> dict[str, Any] | Unfit:
        self.expect(2 * length, room)
        pairs = [(self.read(room - 1), self.read(room - 1)) for _ in range(length)]
        texts = [(key, item) for key, item in pairs if type(key) is str]
        if any(key is _BAD_TEXT for key, _ in pairs):
            return Unfit("bad-unicode", "object key that is not UTF-8", dict(texts))
        if len(texts) != length:
            return Unfit("bad-key", "object key that is not text; keys are strings", dict(texts))
        out = dict(texts)
        return out if len(out) == length else duplicate_keys(texts)

    def expect(self, items: int, room: int) -> None:
        """Refuse at once what cannot be there: every item is at least one byte."""
        if room <= 0:
            raise ValueRefused("too-deep", "nested too deeply")
        if items > len(self.data) - self.at:
            raise _broken("it ends in the middle of a value")

    def unfit(self, first: int) -> Unfit:
        """Skip what msgpack has and the data model has not."""
        if first in _BINARY_LENGTH:
            self.take(self.length(_BINARY_LENGTH[first]))
            return _BINARY
        if first in _EXTENSION_LENGTH:
            self.take(self.length(_EXTENSION_LENGTH[first]) + 1)
            return _EXTENSION
        if first in _EXTENSION_FIXED:
            self.take(_EXTENSION_FIXED[first] + 1)
            return _EXTENSION
        raise _broken("a byte that begins no value")
