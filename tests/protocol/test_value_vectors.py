"""Values: every vector of ``values.json``, read and written in both encodings."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum
from typing import Any

import pytest

from protocol.data import names, packed, spelled, vectors
from waitpoint_protocol.packed import dump_msgpack, parse_msgpack
from waitpoint_protocol.text import dump_json, parse_json
from waitpoint_protocol.values import Value, ValueRefused, normalise, same

VECTORS = vectors("values")


def nested(depth: int) -> Value:
    value: Value = []
    for _ in range(depth - 1):
        value = [value]
    return value


def expected(vector: dict[str, Any]) -> Value:
    value = vector["value"]
    return nested(value["nested"]) if isinstance(value, dict) and "nested" in value else value


def exactly(left: Value, right: Value) -> bool:
    """Equal as JSON, and every number of the same kind."""
    return same(left, right) and repr(normalise(left)) == repr(left)


@pytest.mark.parametrize("vector", VECTORS, ids=names(VECTORS))
def test_json_text_of_a_vector_is_its_value_or_its_refusal(vector: dict[str, Any]) -> None:
    if "json" in vector:
        _check(vector, lambda: parse_json(spelled(vector["json"])))


@pytest.mark.parametrize("vector", VECTORS, ids=names(VECTORS))
def test_msgpack_of_a_vector_is_its_value_or_its_refusal(vector: dict[str, Any]) -> None:
    if "msgpack" in vector:
        _check(vector, lambda: parse_msgpack(packed(vector["msgpack"])))


def _check(vector: dict[str, Any], parse: Callable[[], Value]) -> None:
    if "refused" in vector:
        with pytest.raises(ValueRefused) as refused:
            parse()
        assert refused.value.code == vector["refused"]
        if "path" in vector:
            assert list(refused.value.path) == vector["path"]
    else:
        assert exactly(parse(), expected(vector))


@pytest.mark.parametrize("vector", [v for v in VECTORS if "value" in v], ids=lambda v: str(v["name"]))
def test_a_written_value_is_read_as_itself_in_both_encodings(vector: dict[str, Any]) -> None:
    value = expected(vector)
    assert exactly(parse_json(dump_json(value)), normalise(value))
    assert exactly(parse_msgpack(dump_msgpack(value)), normalise(value))


class Colour(IntEnum):
    RED = 1


@pytest.mark.parametrize(
    "value",
    [
        b"bytes",
        bytearray(b"x"),
        {1, 2},
        frozenset({1}),
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1),
        Decimal("1.5"),
        Colour.RED,
        1j,
        object(),
        range(3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_python_object_without_one_json_form_is_refused_by_place(value: object) -> None:
    with pytest.raises(ValueRefused) as refused:
        normalise({"items": [0, {"it": value}]})
    assert refused.value.code == "unsupported-type"
    assert refused.value.path == ("items", 1, "it")


@pytest.mark.parametrize("key", [1, None, True, 1.5, (1, 2), b"a", Colour.RED])
def test_a_python_key_that_is_not_text_is_refused(key: object) -> None:
    with pytest.raises(ValueRefused) as refused:
        normalise({"a": {key: 1}})
    assert (refused.value.code, refused.value.path) == ("bad-key", ("a",))


def test_tuples_become_lists_and_nothing_is_shared_with_the_original() -> None:
    inner = {"a": [1]}
    value = normalise((inner, [inner]))
    inner["a"].append(2)
    assert value == [{"a": [1]}, [{"a": [1]}]]


def test_negative_zero_has_no_sign_after_any_way_in() -> None:
    for value in (
        normalise(-0.0),
        parse_json("-0.0"),
        parse_json("-0"),
        parse_msgpack(bytes.fromhex("cb8000000000000000")),
    ):
        assert math.copysign(1, value) == 1
        assert type(value) is int


def test_a_refusal_stays_small_whatever_the_member_names_are() -> None:
    with pytest.raises(ValueRefused) as refused:
        normalise({"k" * 100_000: {"j" * 100_000: float("nan")}})
    assert len(str(refused.value)) < 700


def test_a_value_that_holds_itself_is_refused_as_too_deep() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueRefused) as refused:
        normalise(loop)
    assert refused.value.code == "too-deep"


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (True, 1, False),
        (False, 0, False),
        ([True], [1], False),
        (1, 1.0, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ([1, 2], [2, 1], False),
        (None, False, False),
        ("1", 1, False),
        ({}, [], False),
        ([], {}, False),
        ({"a": None}, {}, False),
        (0, [], False),
        (None, None, True),
    ],
)
def test_values_are_compared_as_json(left: Value, right: Value, equal: bool) -> None:
    assert same(left, right) is equal
    assert same(right, left) is equal


def test_bytes_of_json_are_utf8_and_nothing_is_guessed() -> None:
    assert parse_json(b"[1]") == [1]
    for encoding in ("utf-16", "utf-32", "utf-8-sig"):
        with pytest.raises(ValueRefused) as refused:
            parse_json("[1]".encode(encoding))
        assert refused.value.code == "not-json"
