"""Validation is strict and JSON's, and says where it hurts (promise 3, promise 11, cases 28, 30, 31, 33)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired

import pytest
from pydantic import BaseModel, ConfigDict, Field, computed_field, field_serializer, field_validator
from typing_extensions import TypedDict

from waitpoint.tools import Misfit, WaitPoint
from waitpoint.tools.contract import Contract


def check(annotation: Any, value: Any) -> list[tuple[str, str]]:
    errors = WaitPoint("p", suspend=str, resume=annotation).check_resume(value)
    return [(".".join(map(str, error.path)), error.code) for error in errors]


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


class Line(BaseModel):
    name: str = Field(min_length=1)
    count: int = Field(ge=0)


class Order(BaseModel):
    approved: bool
    size: Size = Size.SMALL
    lines: list[Line] = []
    note: str | None = None
    due: datetime | None = None


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


class Pets(BaseModel):
    tagged: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None
    union: Cat | Dog | None = None
    mixed: list[str | int] = []
    keyed: dict[int, Line] = {}


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (bool, False),
        (int, 0),
        (str, ""),
        (list[int], []),
        (dict[str, int], {}),
        (int | None, None),
        (float, 3),
        (Order, {"approved": False, "size": "l", "lines": [{"name": "a", "count": 0}], "due": "2026-12-01T00:00:00Z"}),
        (Any, {"anything": [1, None, "x"]}),
        (str, "naïve 😀"),
    ],
)
def test_every_json_value_of_the_type_is_an_answer(annotation: Any, value: Any) -> None:
    assert check(annotation, value) == []


@pytest.mark.parametrize("value", ["true", "yes", 1, 0, None, [], {}])
def test_only_a_boolean_is_a_boolean(value: Any) -> None:
    assert check(Order, {"approved": value}) == [("approved", "bool_type")]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, [("approved", "missing")]),
        (None, [("", "model_type")]),
        ("yes", [("", "model_type")]),
        ({"approved": True, "approvd": False}, [("approvd", "extra_forbidden")]),
        ({"approved": True, "size": "medium"}, [("size", "enum")]),
        ({"approved": True, "lines": [{"name": "", "count": -1}]}, [
            ("lines.0.name", "string_too_short"),
            ("lines.0.count", "greater_than_equal"),
        ]),
        ({"approved": True, "lines": [{"count": 1, "extra": 1}]}, [
            ("lines.0.name", "missing"),
            ("lines.0.extra", "extra_forbidden"),
        ]),
        ({"approved": True, "note": 5}, [("note", "string_type")]),
        ({"approved": True, "due": 5}, [("due", "datetime_type")]),
        ({"approved": True, "lines": [{"name": "a", "count": "1"}]}, [("lines.0.count", "int_type")]),
        ({"approved": True, "lines": [{"name": "a", "count": True}]}, [("lines.0.count", "int_type")]),
    ],
)  # fmt: skip
def test_a_bad_answer_is_told_where_and_what(value: Any, expected: list[tuple[str, str]]) -> None:
    assert check(Order, value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"tagged": {"kind": "cat"}}, [("tagged.lives", "missing")]),
        ({"tagged": {"kind": "cow"}}, [("tagged", "union_tag_invalid")]),
        # Members that are called like a tag must not mislead the path.
        ({"tagged": {"kind": "cat", "lives": 9, "cat": 1}}, [("tagged.cat", "extra_forbidden")]),
        ({"tagged": {"kind": "cat", "cat": {}}}, [("tagged.lives", "missing"), ("tagged.cat", "extra_forbidden")]),
        ({"mixed": ["a", 1.5]}, [("mixed.1", "string_type"), ("mixed.1", "int_type")]),
        ({"keyed": {"one": {"name": "a", "count": 1}}}, [("keyed.one", "int_parsing")]),
        ({"keyed": {"1": {"name": "a"}}}, [("keyed.1.count", "missing")]),
    ],
)
def test_paths_lead_through_the_payload_without_the_names_of_union_members(value: Any, expected: Any) -> None:
    assert check(Pets, value) == expected


def test_members_of_a_union_are_not_in_any_path() -> None:
    paths = {path for path, _ in check(Pets, {"union": {"kind": "dog", "tricks": 1}})}
    assert paths <= {"union.kind", "union.lives", "union.tricks"}
    assert "union.tricks" in paths


def test_typed_dicts_and_dataclasses_are_as_closed_as_models() -> None:
    class Asked(TypedDict):
        a: int
        b: NotRequired[str]

    @dataclass
    class Answered:
        a: int
        b: list[str] = field(default_factory=list)

    assert check(Asked, {"a": 1, "c": 1}) == [("c", "extra_forbidden")]
    assert check(Answered, {"a": 1, "c": 1}) == [("c", "extra_forbidden")]
    assert check(Answered, {}) == [("a", "missing")]


def test_a_type_that_welcomes_further_fields_gets_them_and_its_neighbours_stay_closed() -> None:
    class Free(BaseModel):
        model_config = ConfigDict(extra="allow")
        a: int

    class Outer(BaseModel):
        free: Free
        b: int

    assert check(Outer, {"free": {"a": 1, "more": 2}, "b": 1}) == []
    assert check(Outer, {"free": {"a": 1}, "b": 1, "more": 2}) == [("more", "extra_forbidden")]


def test_aliases_are_the_names_of_the_wire() -> None:
    class Camel(BaseModel):
        model_config = ConfigDict(validate_by_name=True)
        report_id: str = Field(alias="reportId")

    assert check(Camel, {"reportId": "r"}) == []
    assert ("reportId", "missing") in check(Camel, {"report_id": "r"})


def test_a_validator_of_the_authors_own_can_refuse_an_answer() -> None:
    class Even(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def even(cls, n: int) -> int:
            if n % 2:
                raise ValueError("must be even")
            return n

    [error] = WaitPoint("p", suspend=str, resume=Even).check_resume({"n": 3})
    assert (error.path, error.code, error.message) == (["n"], "value_error", "Value error, must be even")


def test_a_validator_that_breaks_refuses_the_answer_and_raises_nothing() -> None:
    class Broken(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def look_up(cls, n: int) -> int:
            raise LookupError(n)

    assert check(Broken, {"n": 3}) == [("", "check_failed")]


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (math.nan, "not-finite"),
        (-math.inf, "not-finite"),
        (2**53, "integer-range"),
        (-(2**63), "integer-range"),
        ("\ud800", "bad-unicode"),
        (b"x", "unsupported-type"),
        ({1: 2}, "bad-key"),
        ({1, 2}, "unsupported-type"),
        (Decimal(1), "unsupported-type"),
        (Size.SMALL, "unsupported-type"),
    ],
)
def test_a_value_outside_the_data_model_is_refused_by_name(value: Any, code: str) -> None:
    assert check(Any, {"at": [value]}) == [("at.0", code)]


def test_a_hostile_answer_is_answered_briefly() -> None:
    errors = WaitPoint("p", suspend=str, resume=Order).check_resume(
        {"approved": True, "lines": ["x"] * 10_000, "k" * 100_000: 1}
    )
    assert len(errors) == 32
    assert sum(len(error.message) + len(str(error.path)) for error in errors) < 20_000


class Ask(BaseModel):
    prompt: str = Field(min_length=1)
    at: datetime | None = None
    size: Size = Size.SMALL
    ratio: float | None = None


ask = WaitPoint("ask", suspend=Ask, resume=bool)


def test_suspend_data_is_written_as_its_type_says() -> None:
    asked = Ask(prompt="?", at=datetime(2026, 12, 1, tzinfo=UTC), size=Size.LARGE, ratio=-0.0)
    assert ask.check_suspend(asked) == {"prompt": "?", "at": "2026-12-01T00:00:00Z", "size": "l", "ratio": 0}


def test_plain_values_of_the_same_shape_are_suspend_data_too() -> None:
    assert ask.check_suspend({"prompt": "?"}) == {"prompt": "?", "at": None, "size": "s", "ratio": None}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data",
    [
        {"prompt": ""},
        {"prompt": "?", "extra": 1},
        {"prompt": 5},
        "?",
        None,
        Ask.model_construct(prompt=""),
        Ask.model_construct(prompt=5),  # type: ignore[arg-type]
        Ask(prompt="?", ratio=math.nan),
        Ask.model_construct(prompt="\ud800"),
    ],
)
def test_suspend_data_that_breaks_its_type_is_refused(data: Any) -> None:
    with pytest.raises(Misfit):
        ask.check_suspend(data)


def spell(annotation: Any, value: Any) -> Any:
    return Contract(annotation, "output of tool t", "serialization").spell(value)


def test_types_with_their_own_json_form_are_written_in_it() -> None:
    class Report(BaseModel):
        due: datetime
        total: Decimal

        @field_serializer("due")
        def day(self, due: datetime) -> str:
            return due.strftime("%A")

        @computed_field  # type: ignore[prop-decorator]
        @property
        def label(self) -> str:
            return f"{self.total} total"

    report = Report(due=datetime(2026, 12, 4, tzinfo=UTC), total=Decimal("1.50"))
    assert spell(Report, report) == {"due": "Friday", "total": "1.50", "label": "1.50 total"}


def test_an_output_that_only_says_any_takes_json_and_models() -> None:
    assert spell(Any, {"order": Order(approved=True), "pair": (1, 2.0)}) == {
        "order": {"approved": True, "size": "s", "lines": [], "note": None, "due": None},
        "pair": [1, 2],
    }


@pytest.mark.parametrize(
    "value",
    [math.nan, b"x", {1}, {1: 2}, Decimal(1), Size.SMALL, datetime(2026, 1, 1), "\ud800", 2**53, object()],
)
@pytest.mark.parametrize("annotation", [Any, dict[str, Any]])
def test_an_output_that_only_says_any_refuses_what_json_cannot_say(annotation: Any, value: Any) -> None:
    with pytest.raises(Misfit):
        spell(annotation, {"v": value})


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(int, True), (int, "1"), (bool, 1), (str, 1), (list[int], [1, "2"]), (Order, {"approved": 1}), (int, None)],
)
def test_an_output_of_another_type_is_refused(annotation: Any, value: Any) -> None:
    with pytest.raises(Misfit):
        spell(annotation, value)


def test_declared_types_are_written_whatever_any_would_take() -> None:
    assert spell(set[int], {3}) == [3]
    assert spell(list[datetime], [datetime(2026, 1, 1, tzinfo=UTC)]) == ["2026-01-01T00:00:00Z"]
    assert spell(Size, Size.LARGE) == "l"
