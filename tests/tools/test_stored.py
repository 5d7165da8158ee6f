"""Answers to actions whose tool has gone or changed are held to the schema the person was shown (case 14)."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator

from waitpoint.tools import Toolbox, ToolContext, WaitPoint, check_against, tool
from waitpoint.tools.schema import fingerprint, json_schema


class Ask(BaseModel):
    prompt: str


class Person(BaseModel):
    name: str = Field(min_length=2)
    age: int | None = None


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str]


class Answer(BaseModel):
    approved: bool
    size: Literal["s", "l"] = "s"
    people: list[Person] = []
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None


class Stricter(Answer):
    reason: str


def check(value: Any, schema: dict[str, Any] | None = None) -> list[tuple[str, str]]:
    errors = check_against(schema or json_schema(Answer), value)
    return [(".".join(map(str, error.path)), error.code) for error in errors]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"approved": False}, []),
        ({"approved": True, "people": [{"name": "Ann", "age": None}], "pet": {"kind": "cat", "lives": 9}}, []),
        ({}, [("approved", "missing")]),
        ("yes", [("", "dict_type")]),
        ({"approved": 1}, [("approved", "bool_type")]),
        ({"approved": "true"}, [("approved", "bool_type")]),
        ({"approved": None}, [("approved", "bool_type")]),
        ({"approved": True, "x": 1}, [("x", "extra_forbidden")]),
        ({"approved": True, "size": "m"}, [("size", "literal_error")]),
        ({"approved": True, "people": [{"name": "A"}, {}]}, [
            ("people.0.name", "string_too_short"),
            ("people.1.name", "missing"),
        ]),
        ({"approved": True, "people": [{"name": "Ann", "age": "7"}]}, [("people.0.age", "int_type")]),
        ({"approved": True, "pet": {"kind": "dog"}}, [("pet.tricks", "missing")]),
        ({"approved": True, "pet": {"kind": "dog", "tricks": [1]}}, [("pet.tricks.0", "string_type")]),
    ],
)  # fmt: skip
def test_a_schema_alone_says_where_and_what_in_the_same_words(value: Any, expected: list[tuple[str, str]]) -> None:
    assert check(value) == expected


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/Gone"},
        {"type": "no-such-type"},
        {"type": "string", "pattern": "("},
    ],
)
def test_a_schema_that_cannot_be_followed_refuses_every_answer(schema: dict[str, Any]) -> None:
    assert check("x", schema) == [("", "check_failed")]


class AnythingGoes(BaseHTTPRequestHandler):
    """Serves a schema that every answer fits."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


def test_a_schema_that_points_elsewhere_refuses_every_answer_and_fetches_nothing() -> None:
    with HTTPServer(("127.0.0.1", 0), AnythingGoes) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            elsewhere = {"$ref": f"http://127.0.0.1:{server.server_port}/schema.json"}
            assert check("x", elsewhere) == [("", "check_failed")]
        finally:
            server.shutdown()


def test_a_hostile_answer_is_answered_briefly() -> None:
    errors = check_against(json_schema(Answer), {"approved": True, "people": [1] * 5_000, "k" * 100_000: 1})
    assert len(errors) == 32
    assert sum(len(error.message) + len(str(error.path)) for error in errors) < 20_000


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 12) | st.sampled_from(["", "s", "m", "cat", "dog", "Ann"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["approved", "size", "people", "pet", "kind", "lives", "tricks", "name", "age", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(
    json_values
    | st.fixed_dictionaries({"approved": st.booleans()}, optional={"people": json_values, "pet": json_values})
)
def test_type_and_schema_agree_on_what_an_answer_is(value: Any) -> None:
    by_type = WaitPoint("p", suspend=str, resume=Answer).check_resume(value)
    assert bool(by_type) == bool(check_against(json_schema(Answer), value))


def test_equal_schemas_have_equal_fingerprints_and_others_do_not() -> None:
    schema = json_schema(Answer)
    assert fingerprint(schema) == fingerprint(dict(reversed(schema.items())))
    assert fingerprint(schema) != fingerprint(json_schema(Stricter))


def boxed(resume: Any, wait_point: str = "approval", name: str = "requestApproval") -> Toolbox:
    point: WaitPoint[Ask, Any] = WaitPoint(wait_point, suspend=Ask, resume=resume)

    @tool(waits=[point], name=name)
    async def request(ctx: ToolContext) -> None: ...

    return Toolbox([request])


def test_an_unchanged_wait_point_checks_by_its_type() -> None:
    class Even(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def even(cls, n: int) -> int:
            if n % 2:
                raise ValueError("must be even")
            return n

    # The schema cannot say "even"; only the type can.
    assert check_against(json_schema(Even), {"n": 3}) == []
    [error] = boxed(Even).check_answer("requestApproval.approval", json_schema(Even), {"n": 3})
    assert (error.path, error.code) == (["n"], "value_error")


@pytest.mark.parametrize(
    "box",
    [
        Toolbox(),
        boxed(Answer, name="renamed"),
        boxed(Answer, wait_point="renamed"),
        boxed(Stricter),
    ],
    ids=["tool gone", "tool renamed", "wait point gone", "field added"],
)
def test_after_a_deploy_an_answer_is_held_to_the_stored_schema(box: Toolbox) -> None:
    stored = json_schema(Answer)
    assert box.check_answer("requestApproval.approval", stored, {"approved": True}) == []
    [error] = box.check_answer("requestApproval.approval", stored, {"approved": "yes"})
    assert (error.path, error.code) == (["approved"], "bool_type")
