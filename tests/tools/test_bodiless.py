"""Tools without a body: one visit to one wait point, whose answer is the output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from waitpoint import DefinitionError, client_tool, external_tool
from waitpoint.tools import (
    ActionRef,
    Execution,
    Failure,
    Outcome,
    Output,
    ResumeEntry,
    Suspended,
    Tool,
    Toolbox,
    VisitData,
    execute,
)

AT = "2026-12-01T08:00:00.000Z"


class Wish(BaseModel):
    accuracy: Literal["coarse", "fine"] = "coarse"
    note: str | None = Field(default=None, alias="note-text")


class Position(BaseModel):
    latitude: float = Field(ge=-90, le=90)
    longitude: float


def enter(tool: Tool, given: Any, *answers: Any) -> Any:
    history = [
        VisitData("call", AT, given, "submitted", AT, answer, action=f"a{n}") for n, answer in enumerate(answers)
    ]
    execution = Execution("t", "m", "c", given, history=history)
    if answers:
        ref = ActionRef("a0", f"{tool.name}.call", given, AT, AT)
        execution = Execution("t", "m", "c", given, ResumeEntry("call", answers[-1], ref), history)
    return execute(tool, execution)


@pytest.mark.parametrize(("make", "kind"), [(client_tool, "client-tool"), (external_tool, "external")])
async def test_a_call_waits_at_once_and_the_answer_is_its_output(make: Any, kind: str) -> None:
    tool = make("getLocation", input=Wish, output=Position, description="Where the user is.", expires_in=60)
    asked: Outcome = await enter(tool, {"note-text": "for the map"})
    assert isinstance(asked, Suspended)
    assert (asked.wait_point, asked.kind, asked.expires_in_ms) == ("call", kind, 60_000)
    assert asked.input == {"accuracy": "coarse", "note-text": "for the map"}
    box = Toolbox([tool])
    [error] = box.check_answer("getLocation.call", asked.schema, {"latitude": 91, "longitude": 0})
    assert error.path == ["latitude"]
    answer = {"latitude": 47.5, "longitude": 8.25}
    assert box.check_answer("getLocation.call", asked.schema, answer) == []
    assert await enter(tool, {}, answer) == Output(answer)


def test_the_model_is_told_the_authors_own_input_type() -> None:
    tool = client_tool("getLocation", input=Wish, output=Position, description="Where the user is.")
    definition = tool.definition
    assert definition.description == "Where the user is."
    assert set(definition.input_schema["properties"]) == {"accuracy", "note-text"}
    assert tool.check_input({"accuracy": "perfect"})[0].path == ["accuracy"]
    assert tool.output_schema["properties"].keys() == {"latitude", "longitude"}


async def test_a_bad_input_ends_the_call_before_anybody_is_asked() -> None:
    tool = client_tool("getLocation", input=Wish, output=Position)
    assert isinstance(await enter(tool, {"accuracy": "perfect"}), Failure)


async def test_an_answer_that_no_longer_fits_ends_the_call() -> None:
    tool = client_tool("getLocation", input=Wish, output=Position)
    assert isinstance(await enter(tool, {}, {"lat": 1}), Failure)


@dataclass
class Pair:
    left: int
    right: int = 2


class Keyed(TypedDict):
    key: str


@pytest.mark.parametrize(
    ("kind", "given", "shown"),
    [(None, {}, {}), (Pair, {"left": 1}, {"left": 1, "right": 2}), (Keyed, {"key": "k"}, {"key": "k"})],
)
async def test_inputs_of_other_kinds(kind: Any, given: Any, shown: Any) -> None:
    tool = client_tool("ask", input=kind, output=str)
    asked = await enter(tool, given)
    assert isinstance(asked, Suspended)
    assert asked.input == shown
    assert await enter(tool, given, "yes") == Output("yes")


async def test_without_an_output_type_any_value_is_one() -> None:
    tool = external_tool("anything")
    assert await enter(tool, {}, None) == Output(None)
    assert await enter(tool, {}, [1, {"a": 2}]) == Output([1, {"a": 2}])


@pytest.mark.parametrize(
    "options",
    [
        {"name": "no space"},
        {"input": int},
        {"input": list[int]},
        {"expires_in": -1},
        {"output": type("Odd", (), {})},
        {"wrong": 1},
    ],
    ids=str,
)
def test_a_definition_that_cannot_work_is_refused_at_import(options: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        client_tool(**{"name": "fine", **options})
