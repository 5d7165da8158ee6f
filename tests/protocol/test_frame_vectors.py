"""Frames: every vector of ``frames.json`` through both codecs, and what a refusal may cost."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import msgpack
import pytest
from jsonschema import Draft202012Validator

from protocol.data import names, packed, spelled, vectors
from waitpoint_protocol.codec import JSON, MSGPACK, BadFrame, Codec, codec_for
from waitpoint_protocol.frames import ClientFrame, dump_frame
from waitpoint_protocol.schema import schemas

VECTORS = vectors("frames")
LIMIT = 262_144


def replies(vector: dict[str, Any], message: str | bytes, codec: Codec) -> list[ClientFrame | BadFrame]:
    return codec.decode(message, max_bytes=vector.get("maxBytes", LIMIT))


def check(vector: dict[str, Any], read: list[ClientFrame | BadFrame]) -> None:
    expected = vector["frames"] * vector.get("count", 1)
    assert len(read) == len(expected)
    for got, want in zip(read, expected, strict=True):
        if "frame" in want:
            assert not isinstance(got, BadFrame), got
            assert want["frame"].items() <= dump_frame(got).items()
            if len(want["frame"]) > 1 or want["frame"]["type"] == "pong":
                assert want["frame"] == dump_frame(got)
        else:
            check_refusal(want["refused"], got)


def check_refusal(want: dict[str, Any], got: ClientFrame | BadFrame) -> None:
    assert isinstance(got, BadFrame), got
    assert got.code == want["code"]
    assert got.id == want.get("id")
    assert got.thread == want.get("thread")
    assert got.fatal is want.get("fatal", False)
    if "error" in want:
        assert got.errors[0].code == want["error"]
    if "path" in want:
        assert got.errors[0].path == want["path"]
    assert str(got)


@pytest.mark.parametrize("vector", [v for v in VECTORS if "json" in v], ids=lambda v: str(v["name"]))
def test_json_message_of_a_vector_gives_its_frames_and_refusals(vector: dict[str, Any]) -> None:
    check(vector, replies(vector, spelled(vector["json"]), JSON))


@pytest.mark.parametrize("vector", [v for v in VECTORS if "msgpack" in v], ids=lambda v: str(v["name"]))
def test_msgpack_message_of_a_vector_gives_its_frames_and_refusals(vector: dict[str, Any]) -> None:
    check(vector, replies(vector, packed(vector["msgpack"]), MSGPACK))


@pytest.mark.parametrize("vector", [v for v in VECTORS if "on" in v], ids=lambda v: str(v["name"]))
def test_a_message_of_the_wrong_kind_is_fatal(vector: dict[str, Any]) -> None:
    message = vector["text"] if "text" in vector else packed(vector["binary"])
    check(vector, replies(vector, message, {"json": JSON, "msgpack": MSGPACK}[vector["on"]]))


def test_every_vector_is_used() -> None:
    assert [v["name"] for v in VECTORS if not {"json", "msgpack", "on"} & v.keys()] == []
    assert len(set(names(VECTORS))) == len(VECTORS)


@pytest.mark.parametrize(
    "vector", [v for v in VECTORS if "json" in v and "count" not in v], ids=lambda v: str(v["name"])
)
def test_the_json_schema_accepts_exactly_the_frames_that_the_codec_accepts(vector: dict[str, Any]) -> None:
    validator = Draft202012Validator(schemas()["client-frames"])
    for want in vector["frames"]:
        if "frame" in want and len(want["frame"]) > 1:
            validator.validate(want["frame"])
    refused = [want["refused"] for want in vector["frames"] if "refused" in want]
    values = {"not-finite", "integer-range", "bad-unicode", "bad-key", "duplicate-key", "too-deep", "not-json"}
    if len(vector["frames"]) == 1 and refused and refused[0].get("error", "not-json") not in values:
        value = JSON.parse(spelled(vector["json"]))
        if vector["name"] == "an id with a line end":
            return  # Python's "$" also matches before a final line end; that of JSON Schema (ECMA-262) does not
        assert not validator.is_valid(value)


# Headers that announce more than there is, one inside the other: lists, objects, texts, and as keys.
BOMBS = {
    "lists of 65520": b"\xdc\xff\xf0" * 60_000,
    "lists of 2^32-1": b"\xdd\xff\xff\xff\xff" * 50_000,
    "lists of what could just be there": b"\xdd\x00\x03\xe0\x00" * 50_000,
    "objects of 65520": b"\xde\xff\xf0" * 60_000,
    "objects as keys": b"\x81" * 200_000,
    "lists of one": b"\x91" * 250_000,
    "texts": b"\xdb\x00\x03\xff\x00" * 50_000,
    "items of one byte": b"\xdd\x00\x03\xff\xfa" + b"\xc0" * 262_138,
    "objects of one": b"\xdd\x00\x01\xff\xfd" + b"\x81\xa0" * 131_069,
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_a_hostile_msgpack_message_costs_little_memory_and_time(bomb: bytes) -> None:
    tracemalloc.start()
    started = time.process_time()
    try:
        [refused] = MSGPACK.decode(bomb, max_bytes=300_000)[:1]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(refused, BadFrame)
    assert peak < 64_000_000
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    "text",
    [
        "[" * 262_000,
        '{"a":' * 52_000,
        '[{"a":' * 40_000,
        "9" * 262_000,
        "1" + "0" * 250_000 + "e5",
        '"' + "\\u0000" * 40_000 + '"',
        '{"":0,' * 40_000,
        "[" + "{}," * 80_000 + "{}]",
    ],
    ids=["lists", "objects", "both", "digits", "digits and an exponent", "escapes", "objects of one", "flat objects"],
)
def test_a_hostile_json_message_costs_little_memory_and_time(text: str) -> None:
    tracemalloc.start()
    started = time.process_time()
    try:
        [refused] = JSON.decode(text, max_bytes=LIMIT)[:1]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(refused, BadFrame)
    assert peak < 64_000_000
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    "frame",
    [
        '{"type":"%s"}' % ("x" * 200_000),
        '{"type":"stop","id":"c1","thread":"t1","%s":1}' % ("x" * 200_000),
        '{"type":"submit","id":"c1","thread":"t1","action":"a1","data":{"%s":NaN}}' % ("x" * 200_000),
        '{"type":"stop","id":"' + "x" * 100_000 + '","thread":"' + "y" * 100_000 + '"}',
        '{"type":"message","id":"c1","thread":"t1","parts":[' + ",".join(['{"type":"' + "x" * 3000 + '"}'] * 60) + "]}",
        '{"type":"stop",' + ",".join(f'"k{i}":0' for i in range(20_000)) + "}",
    ],
    ids=["type", "field", "member in data", "id and thread", "parts", "fields"],
)
def test_a_refusal_is_small_however_large_the_frame_was(frame: str) -> None:
    [refused] = JSON.decode(frame, max_bytes=LIMIT)
    assert isinstance(refused, BadFrame)
    said = str(refused) + "".join(error.model_dump_json() for error in refused.errors)
    assert len(said) < 12_000
    assert len(refused.errors) <= 20


def test_a_field_name_with_braces_is_no_template() -> None:
    [refused] = JSON.decode(
        '{"type":"submit","id":"c1","thread":"t1","action":"a1","data":%s}' % ("[" * 65 + '{"{code}":1}' + "]" * 65),
        max_bytes=LIMIT,
    )
    assert isinstance(refused, BadFrame)
    assert refused.errors[0].code == "too-deep"


def test_joined_messages_are_read_as_their_frames_in_order() -> None:
    for codec in (JSON, MSGPACK):
        frames = [codec.encode(frame) for vector in VECTORS[:20] for frame in _accepted(vector)]
        for count in (1, 2, 15, 16, 20):
            joined = codec.join(frames[:count])
            read = codec.decode(joined if codec.binary else joined.decode(), max_bytes=LIMIT)
            assert [codec.encode(frame) for frame in read if not isinstance(frame, BadFrame)] == frames[:count]


def _accepted(vector: dict[str, Any]) -> list[ClientFrame]:
    return [f for f in replies(vector, spelled(vector["json"]), JSON) if not isinstance(f, BadFrame)]


def test_json_and_msgpack_carry_the_same_frame() -> None:
    for vector in VECTORS:
        if "json" not in vector or "count" in vector:
            continue
        for frame in _accepted(vector):
            assert MSGPACK.decode(MSGPACK.encode(frame), max_bytes=LIMIT) == [frame]
            assert msgpack.unpackb(MSGPACK.encode(frame)) == JSON.parse(JSON.encode(frame).decode())


def test_a_client_that_names_no_subprotocol_speaks_json_and_an_unknown_one_nothing() -> None:
    assert codec_for(None) is JSON
    assert codec_for("waitpoint.v1.json") is JSON
    assert codec_for("waitpoint.v1.msgpack") is MSGPACK
    assert codec_for("waitpoint.v2.json") is None
    assert codec_for("graphql-ws") is None
