"""A definition that cannot work is refused where it is written, with a message that says what to do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from waitpoint.errors import DefinitionError
from waitpoint.tools import Tool, Toolbox, ToolContext, WaitPoint, tool


class Ask(BaseModel):
    prompt: str


class Decision(BaseModel):
    approved: bool
    comment: str | None = None


class Opaque:
    """Has no JSON form."""


approval = WaitPoint("approval", suspend=Ask, resume=Decision)


def test_a_wait_point_has_its_options_with_documented_defaults() -> None:
    assert (approval.expires_in_ms, approval.audience, approval.redact, approval.on_message) == (
        None,
        None,
        False,
        "cancel",
    )
    point = WaitPoint(
        "p",
        suspend=Ask,
        resume=bool,
        expires_in=timedelta(minutes=2),
        audience=["ann"],
        redact=True,
        on_message="refuse",
    )
    assert (point.expires_in_ms, point.audience, point.redact, point.on_message) == (
        120_000,
        ("ann",),
        True,
        "refuse",
    )
    assert WaitPoint("p", suspend=Ask, resume=bool, expires_in=0.5).expires_in_ms == 500


@pytest.mark.parametrize("name", ["", "1st", "a.b", "a-b", "ä", "x" * 65, "ok\n", "with space"])
def test_an_unusable_wait_point_name_is_refused(name: str) -> None:
    with pytest.raises(DefinitionError, match="wait point name"):
        WaitPoint(name, suspend=Ask, resume=Decision)


@pytest.mark.parametrize("name", ["a", "collectDetails", "A_1", "x" * 64])
def test_usable_wait_point_names(name: str) -> None:
    assert WaitPoint(name, suspend=Ask, resume=Decision).name == name


@pytest.mark.parametrize("resume", [Opaque, Callable[[], int], "NoSuchType"])
def test_a_resume_type_without_json_schema_is_refused_by_name(resume: Any) -> None:
    with pytest.raises(DefinitionError, match="resume type of wait point collect"):
        WaitPoint("collect", suspend=Ask, resume=resume)


def test_a_resume_schema_that_is_no_json_schema_is_refused() -> None:
    broken = Annotated[str, Field(json_schema_extra={"type": "no-such-type"})]
    with pytest.raises(DefinitionError, match="resume type of wait point collect has no JSON Schema"):
        WaitPoint("collect", suspend=Ask, resume=broken)


@pytest.mark.parametrize(
    "options",
    [
        {"expires_in": 0},
        {"expires_in": -1},
        {"expires_in": float("inf")},
        {"expires_in": 1e300},
        {"expires_in": timedelta.max},
        {"audience": ["a\ud800"]},
        {"expires_in": True},
        {"expires_in": "1h"},
        {"audience": []},
        {"audience": "ann"},
        {"audience": [1]},
        {"on_message": "ignore"},
        {"expire_in": 3},
    ],
)
def test_an_option_that_cannot_work_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match="wait point collect"):
        WaitPoint("collect", suspend=Ask, resume=Decision, **options)


@tool(waits=[approval], name="requestApproval", timeout=timedelta(seconds=3), max_attempts=2, on_crash="fail")
async def request_approval(
    ctx: ToolContext,
    summary: Annotated[str, Field(description="What is to be sent")],
    copies: int = 1,
    tags: list[str] = [],  # noqa: B006 (each call gets its own)
) -> Decision:
    """Request approval before sending a report."""
    return ctx.suspend(approval, Ask(prompt=summary))


def test_the_definition_is_name_docstring_and_parameters_without_the_context() -> None:
    definition = request_approval.definition
    assert definition.name == "requestApproval"
    assert definition.description == "Request approval before sending a report."
    assert definition.input_schema == {
        "type": "object",
        "title": "requestApprovalInput",
        "properties": {
            "summary": {"type": "string", "title": "Summary", "description": "What is to be sent"},
            "copies": {"type": "integer", "title": "Copies", "default": 1},
            "tags": {"type": "array", "title": "Tags", "items": {"type": "string"}},
        },
        "required": ["summary"],
        "additionalProperties": False,
    }
    assert (request_approval.timeout, request_approval.max_attempts, request_approval.on_crash) == (3.0, 2, "fail")


def test_a_bare_decorator_takes_everything_from_the_function() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    assert (add.name, add.description, add.waits) == ("add", "Add two numbers.", {})
    assert add.output_schema == {"type": "integer"}
    assert add.function(2, 3) == 5


def test_parameter_names_that_models_of_pydantic_would_shadow_are_fine() -> None:
    @tool
    def store(json: str, schema: str, copy: int, model_config: str, _hidden: bool = False) -> None: ...

    assert list(store.input_schema["properties"]) == ["json", "schema", "copy", "model_config", "_hidden"]


def test_input_fields_that_a_schema_does_not_name_are_refused_at_every_level() -> None:
    schema = WaitPoint("p", suspend=Ask, resume=list[Decision]).resume_schema
    assert schema["$defs"]["Decision"]["additionalProperties"] is False


def test_closing_a_schema_leaves_values_alone_that_look_like_schemas() -> None:
    class Odd(BaseModel):
        properties: dict[str, Any] = {"properties": {}}

    schema = WaitPoint("p", suspend=Ask, resume=Odd).resume_schema
    assert schema["properties"]["properties"]["default"] == {"properties": {}}
    assert schema["properties"]["properties"]["additionalProperties"] is True


def _bare(ctx, a: int) -> int: ...  # type: ignore[no-untyped-def,empty-body]


def _unannotated(ctx: ToolContext, a) -> int: ...  # type: ignore[no-untyped-def,empty-body]


def _starred(ctx: ToolContext, *a: int) -> int: ...  # type: ignore[empty-body]


def _late_context(a: int, ctx: ToolContext) -> int: ...  # type: ignore[empty-body]


def _unknown_type(ctx: ToolContext, a: NoSuchType) -> int: ...  # type: ignore[name-defined,empty-body]  # noqa: F821


def _opaque(ctx: ToolContext, a: Opaque) -> int: ...  # type: ignore[empty-body]


def _opaque_output(ctx: ToolContext) -> Opaque: ...  # type: ignore[empty-body]


async def _stream(ctx: ToolContext) -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (_unannotated, "parameter a: annotate it"),
        (_starred, "parameter a: name every parameter"),
        (_late_context, "parameter ctx: the context is the first parameter"),
        (_unknown_type, "NoSuchType"),
        (_opaque, "input of tool _opaque|input of tool opaque"),
        (_opaque_output, "output of tool"),
        (_stream, "yields"),
        (lambda: None, "tool name '<lambda>'"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused(function: Callable[..., Any], says: str) -> None:
    options = {} if function.__name__ == "<lambda>" else {"name": function.__name__.lstrip("_")}
    with pytest.raises(DefinitionError, match=says):
        Tool(function, **options)  # type: ignore[arg-type]


def test_a_first_parameter_named_ctx_needs_no_annotation() -> None:
    assert list(Tool(_bare, name="bare").input_schema["properties"]) == ["a"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"waits": [approval, WaitPoint("approval", suspend=Ask, resume=bool)]}, "two wait points named approval"),
        ({"waits": ["approval"]}, "waits lists WaitPoint objects"),
        ({"name": "no spaces"}, "tool name 'no spaces'"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"on_crash": "again"}, "on_crash"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
    ],
)
def test_a_tool_option_that_cannot_work_is_refused(options: dict[str, Any], says: str) -> None:
    async def f(ctx: ToolContext) -> None: ...

    with pytest.raises(DefinitionError, match=says):
        tool(**options)(f)


def test_a_tool_with_wait_points_takes_the_context() -> None:
    async def f(a: int) -> int:
        return a

    with pytest.raises(DefinitionError, match="first parameter is ctx: ToolContext"):
        tool(waits=[approval])(f)


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(DefinitionError, match="two tools are named requestApproval"):
        Toolbox([request_approval, request_approval])


def test_a_function_that_was_not_decorated_is_refused() -> None:
    with pytest.raises(DefinitionError, match="decorate the function with @tool"):
        Toolbox([lambda: None])  # type: ignore[list-item]
