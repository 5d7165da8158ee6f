"""The transcript format itself: what fits a pattern and what does not. One that fits everything would prove nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.script import differences, fill, load


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        (1, 1),
        ("_", None),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": "$absent"}, {"b": 2}),
        ([1, "_"], [1, 2]),
        ([1, "..."], [1]),
        ([1, "...", 3], [1, 2, 2, 3]),
        (["..."], []),
        ({}, {}),
        (["$x", "$x"], [5, 5]),
        ({"a": [{"b": "$b"}], "c": "$b"}, {"a": [{"b": [1]}], "c": [1]}),
    ],
)
def test_what_fits(pattern: Any, value: Any) -> None:
    assert differences(pattern, value, {}) == []


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        (1, 2),
        (1, True),
        (0, False),
        ("a", "b"),
        (None, 0),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, [1]),
        ({"a": "$absent"}, {"a": None}),
        ([1], [1, 2]),
        ([1, 2], [1]),
        ([], [1]),
        ([1, "...", 3], [1]),
        ([1, "..."], [2, 1]),
        ({}, {"a": 1}),
        ([1], {"0": 1}),
        (["$x", "$x"], [5, 6]),
        (["$x", "$x"], [1, True]),
    ],
)
def test_what_does_not_fit(pattern: Any, value: Any) -> None:
    assert differences(pattern, value, {}) != []


def test_a_name_is_kept_only_if_the_whole_pattern_fits() -> None:
    known: dict[str, Any] = {}
    assert differences({"a": "$a", "b": 1}, {"a": 5, "b": 2}, known) != []
    assert known == {}
    assert differences({"a": "$a", "b": 2}, {"a": 5, "b": 2}, known) == []
    assert known == {"$a": 5}
    assert fill({"x": ["$a"], "y": {"repeat": ["ab", 3]}}, known) == {"x": [5], "y": "ababab"}
    with pytest.raises(KeyError):
        fill("$unknown", known)


@pytest.mark.parametrize("line", ["x>: {}", "c<: {}", "s>: {}", "thn: {}", "closed>: 1", "[1]", "{'c>': 1, 's<': 2}"])
def test_a_line_that_is_no_step_is_refused_when_it_is_read(line: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(f"title: t\ngiven: desk\nsteps:\n  - {line}\n")
    with pytest.raises(ValueError, match=r"bad\.yaml"):
        load(file)


def test_an_unknown_setting_is_refused_when_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("title: t\ngiven: desk\nsubprotocol: json\nsteps: []\n")
    with pytest.raises(ValueError, match="unknown subprotocol"):
        load(file)
