"""Waiting inline: ``suspend()`` stops a handler anywhere, and gives the accepted answer when it runs again."""

from __future__ import annotations

import asyncio
import math
import threading
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator

from tools.calls import CallOf, failure, output, probe, suspended
from waitpoint import suspend
from waitpoint.tools import Initial, Misfit, Resume, SubmittedVisit, Tool, ToolContext, WaitPoint, tool


class Address(BaseModel):
    street: str
    number: int = Field(ge=1)


AGE = {"type": "integer", "minimum": 0, "maximum": 130}


@tool
def ask_age() -> int:
    """Ask the user for their age."""
    age: int = suspend({"question": "How old are you?"}, kind="ask_user", response_schema=AGE)
    return age


@tool
async def ask_age_async() -> int:
    """Ask the user for their age."""
    age: int = suspend({"question": "How old are you?"}, kind="ask_user", response_schema=AGE)
    return age


@pytest.mark.parametrize("tool", [ask_age, ask_age_async], ids=["sync", "async"])
async def test_a_handler_stops_and_gets_the_answer_when_it_runs_again(tool: Tool) -> None:
    call = CallOf(tool)
    asked = await call.asks()
    assert (asked.wait_point, asked.kind, asked.input) == ("ask_user", "ask_user", {"question": "How old are you?"})
    assert (asked.schema, asked.style) == (AGE, "inline")
    assert output(await call.answer(40)) == 40


@pytest.mark.parametrize("answer", ["forty", 131, -1, True, 1.5, None, [40], {"age": 40}])
async def test_the_server_enforces_the_response_schema(answer: Any) -> None:
    call = CallOf(ask_age)
    await call.enter()
    with pytest.raises(Misfit):
        await call.answer(answer)


@pytest.mark.parametrize("answer", [False, 0, "", [], {}, None, True, {"a": [1, {"b": None}]}])
async def test_without_a_schema_every_value_is_an_answer(answer: Any) -> None:
    def body() -> list[Any]:
        return [suspend("anything?")]

    call = probe(body)
    asked = await call.asks()
    assert (asked.kind, asked.schema) == ("input", {})
    assert output(await call.answer(answer)) == [answer]


async def test_a_type_checks_the_answer_and_is_its_type_in_the_handler() -> None:
    def body() -> str:
        address = suspend({"question": "Where?"}, response_schema=Address)
        assert type(address) is Address
        return f"{address.street} {address.number}"

    call = probe(body)
    await call.enter()
    assert [(error.path, error.code) for error in call.errors({"street": "Main", "number": 0, "x": 1})] == [
        (["number"], "greater_than_equal"),
        (["x"], "extra_forbidden"),
    ]
    assert output(await call.answer({"street": "Main", "number": 4})) == "Main 4"


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [(bool, False, "yes"), (int | None, None, "1"), (Literal["a", "b"], "b", "c"), (list[int], [], [True])],
)
async def test_any_annotation_is_a_response_schema(annotation: Any, good: Any, bad: Any) -> None:
    def body() -> list[Any]:
        return [suspend("?", response_schema=annotation)]

    call = probe(body)
    await call.enter()
    assert call.errors(bad)
    assert output(await call.answer(good)) == [good]


async def test_an_accepted_answer_that_the_type_refuses_ends_the_call() -> None:
    class Even(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def even(cls, n: int) -> int:
            if n % 2:
                raise ValueError("odd")
            return n

    def body() -> int:
        try:
            return suspend("?", response_schema=Even).n
        except Exception:
            return 0

    call = probe(body)
    await call.enter()
    said = failure(await call.answer({"n": 3}))
    assert "no longer fits the wait of kind input of probe" in said
    assert "odd" in said


async def test_an_answer_is_held_to_the_schema_of_the_build_that_reads_it() -> None:
    limits = [10]

    def body() -> int:
        return int(suspend("?", response_schema={"type": "integer", "maximum": limits[0]}))

    call = probe(body)
    await call.enter()
    limits[0] = 5
    assert "no longer fits" in failure(await call.answer(8))


def swallow_exceptions() -> Any:
    try:
        return suspend("?")
    except Exception:
        return "swallowed"


def retry_exceptions() -> Any:
    for _ in range(3):
        try:
            return suspend("?")
        except (Exception, asyncio.CancelledError):
            continue
    return "swallowed"


@pytest.mark.parametrize("body", [swallow_exceptions, retry_exceptions])
async def test_exception_handlers_do_not_swallow_a_suspension(body: Any) -> None:
    call = probe(body)
    await call.asks()
    assert output(await call.answer("yes")) == "yes"


@pytest.mark.parametrize("then", ["return", "raise", "ask again", "progress"])
async def test_a_handler_that_catches_everything_does_not_go_on_unanswered(then: str) -> None:
    def body(ctx: ToolContext) -> Any:
        try:
            suspend("first?")
        except BaseException:  # noqa: BLE001, RUF100 - the carelessness is the point
            if then == "raise":
                raise ValueError("oh no") from None
            if then == "ask again":
                suspend("second?")
            return "went on"

    outcome = await probe(body).enter()
    if then == "ask again":
        assert suspended(outcome).input == "first?"
    elif then == "raise":
        assert failure(outcome) == "ValueError: oh no"
    else:
        assert failure(outcome) == (
            "probe suspended at input and then went on; let nothing catch what suspend() raises."
        )


async def test_answers_arrive_in_the_order_of_the_questions_and_nothing_is_asked_twice() -> None:
    def body() -> list[Any]:
        return [suspend({"n": 1}), suspend({"n": 2}, "second"), suspend({"n": 3})]

    call = probe(body)
    asked = [await call.asks()]
    for answer in ("one", "two"):
        asked.append(suspended(await call.answer(answer)))
    assert [(one.input, one.kind) for one in asked] == [({"n": 1}, "input"), ({"n": 2}, "second"), ({"n": 3}, "input")]
    assert output(await call.answer("three")) == ["one", "two", "three"]


async def test_equal_payloads_are_two_questions() -> None:
    def body() -> list[Any]:
        return [suspend("sure?"), suspend("sure?")]

    call = probe(body)
    first = await call.asks()
    second = suspended(await call.answer(True))
    assert first.input == second.input
    assert output(await call.answer(False)) == [True, False]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("input", {"n": 1}), ("input", {"n": 2})),
        (("input", {"n": 1}), ("confirm", {"n": 1})),
        (("input", {"n": 1}), ("input", {"n": True})),
        (("input", None), ("input", {})),
        (("input", [1, 2]), ("input", [2, 1])),
    ],
)
async def test_a_handler_that_asks_something_else_when_it_runs_again_fails_by_name(before: Any, after: Any) -> None:
    runs = iter([before, after])

    def body() -> Any:
        kind, payload = next(runs)
        try:
            return suspend(payload, kind)
        except Exception:
            return "swallowed"

    call = probe(body)
    await call.enter()
    said = failure(await call.answer("yes"))
    assert said.startswith(f"NondeterministicTool: probe asked {after[0]} ")
    assert f"what was answered there is {before[0]} " in said


@pytest.mark.parametrize(("before", "after"), [({"a": 1, "b": 2}, {"b": 2, "a": 1}), (1, 1.0), ((1, 2), [1, 2])])
async def test_equal_values_are_the_same_question(before: Any, after: Any) -> None:
    payloads = iter([before, after])

    def body() -> Any:
        return suspend(next(payloads))

    call = probe(body)
    await call.enter()
    assert output(await call.answer("yes")) == "yes"


async def test_a_payload_may_be_a_model() -> None:
    def body() -> Any:
        return suspend(Address(street="Main", number=4))

    call = probe(body)
    assert (await call.asks()).input == {"street": "Main", "number": 4}
    assert output(await call.answer(1)) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (({1, 2},), "payload that has no JSON form"),
        (({"at": math.nan},), "not a JSON number"),
        (("\ud800",), "surrogate"),
        (("?", "not a name"), "kind 'not a name' is not usable"),
        (("?", ""), "kind '' is not usable"),
        (("?", "input", {"type": "nonsense"}), "is no JSON Schema (2020-12)"),
        (("?", "input", {"type": "string", "pattern": "("}), "is no JSON Schema (2020-12)"),
        (("?", "input", {"$ref": "#/$defs/nowhere"}), "refers to #/$defs/nowhere, which is not in it"),
        (("?", "input", {"items": {"$ref": "https://example.org/schema"}}), "which is not in it"),
        (("?", "input", {"minimum": math.inf}), "has no JSON form"),
        (("?", "input", threading.Lock), "response schema of kind input"),
        (("?", "input", "integer"), "response schema of kind input"),
        (("?", "input", True), "response schema of kind input"),
        (("x" * 300_000,), "too-large: the payload"),
        (("?", "input", {"enum": ["x" * 70_000]}), "too-large: the response schema"),
    ],
)
@pytest.mark.parametrize("caught", ["nothing", "exceptions", "everything", "and replaced"])
async def test_a_wait_that_cannot_be_made_ends_the_call_and_is_never_skipped(
    arguments: Any, said: str, caught: str
) -> None:
    catching: Any = {"nothing": (), "exceptions": Exception}.get(caught, BaseException)

    def body() -> str:
        try:
            suspend(*arguments)
        except catching as error:
            if caught == "and replaced":
                raise ValueError("something else") from error
        return "went on"

    assert said in failure(await probe(body).enter())


@pytest.mark.parametrize(
    ("options", "said"),
    [({"expires_in": 0}, "expires_in"), ({"audience": []}, "audience"), ({"on_message": "x"}, "on_message")],
)
async def test_a_wrong_option_ends_the_call(options: Any, said: str) -> None:
    def body() -> Any:
        return suspend("?", **options)

    assert said in failure(await probe(body).enter())


async def test_a_reference_within_the_schema_works() -> None:
    schema = {"$ref": "#/$defs/age", "$defs": {"age": AGE}}

    def body() -> Any:
        return suspend("?", response_schema=schema)

    call = probe(body)
    await call.enter()
    assert call.errors(131)
    assert output(await call.answer(40)) == 40


async def test_a_wait_carries_its_options() -> None:
    def body() -> Any:
        return suspend("?", expires_in=90, audience=["ann"], redact=True, on_message="keep")

    asked = await probe(body).asks()
    assert (asked.expires_in_ms, asked.audience, asked.redact, asked.on_message) == (90_000, ("ann",), True, "keep")


def test_outside_a_tool_there_is_nobody_to_ask() -> None:
    with pytest.raises(RuntimeError, match=r"suspend\(\) is called outside a tool"):
        suspend("?")


async def in_a_thread() -> Any:
    return await asyncio.to_thread(lambda: suspend("?"))


async def in_a_task() -> Any:
    async def ask() -> Any:
        return suspend("?")

    return await asyncio.create_task(ask())


async def in_a_group() -> Any:
    async def ask() -> Any:
        return suspend("?")

    async with asyncio.TaskGroup() as group:
        asked = group.create_task(ask())
    return asked.result()


async def in_a_helper() -> Any:
    def deep() -> Any:
        return suspend("?")

    return await asyncio.wait_for(asyncio.to_thread(deep), 5)


@pytest.mark.parametrize("body", [in_a_thread, in_a_task, in_a_group, in_a_helper])
async def test_it_works_wherever_the_handler_takes_it(body: Any) -> None:
    call = probe(body)
    await call.asks()
    assert output(await call.answer("yes")) == "yes"


async def test_a_thread_without_the_context_is_told_how_to_get_it() -> None:
    said: list[str] = []

    def ask() -> None:
        try:
            suspend("?")
        except RuntimeError as error:
            said.append(str(error))

    def body() -> str:
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        return said[0]

    assert "contextvars.copy_context().run" in output(await probe(body).enter())


async def test_parallel_branches_wait_one_after_the_other() -> None:
    async def ask(n: int) -> Any:
        return suspend({"n": n})

    async def body() -> Any:
        return list(await asyncio.gather(ask(1), ask(2)))

    call = probe(body)
    assert (await call.asks()).input == {"n": 1}
    assert suspended(await call.answer("one")).input == {"n": 2}
    assert output(await call.answer("two")) == ["one", "two"]


async def test_calls_that_run_at_once_do_not_mix() -> None:
    both = threading.Barrier(2)

    def body(name: str) -> Any:
        both.wait(5)
        return [name, suspend(name)]

    probing = tool(name="probe")(body)
    calls = [CallOf(probing, {"name": name}, id=name) for name in ("a", "b")]
    asked = await asyncio.gather(*(call.asks() for call in calls))
    assert [one.input for one in asked] == ["a", "b"]
    assert await asyncio.gather(*(call.answer(f"to {call.id}") for call in calls)) == [call.last for call in calls]
    assert [output(call.last) for call in calls if call.last] == [["a", "to a"], ["b", "to b"]]


async def test_a_handler_may_end_without_asking_again() -> None:
    done: list[bool] = []

    def body() -> str:
        if done:
            return "done already"
        return str(suspend("?"))

    call = probe(body)
    await call.enter()
    done.append(True)
    assert output(await call.answer("yes")) == "done already"


async def test_the_history_shows_inline_waits() -> None:
    def body(ctx: ToolContext) -> Any:
        answer = suspend({"n": 1}, "pick")
        [visit] = ctx.suspend_history
        assert isinstance(visit, SubmittedVisit)
        assert isinstance(ctx.entry, Initial)
        return [answer, visit.name, visit.input, visit.resume]

    call = probe(body)
    await call.enter()
    assert output(await call.answer("a")) == ["a", "pick", {"n": 1}, "a"]


async def test_the_idempotency_key_belongs_to_the_place_between_two_answers() -> None:
    keys: list[tuple[str, str]] = []

    def body(ctx: ToolContext) -> None:
        keys.append(("start", ctx.idempotency_key))
        suspend(1)
        keys.append(("after 1", ctx.idempotency_key))
        suspend(2)
        keys.append(("after 2", ctx.idempotency_key))

    call = probe(body)
    await call.enter()
    await call.answer("one")
    await call.answer("two")
    await call.enter()
    assert len(keys) == 9
    places = {name: {key for of, key in keys if of == name} for name, _ in keys}
    assert all(len(found) == 1 for found in places.values()), "the same place had different keys"
    assert len(set.union(*places.values())) == 3, "different places had the same key"


class Ask(BaseModel):
    prompt: str


collect = WaitPoint("collect", suspend=Ask, resume=int)


async def test_declared_and_inline_waits_go_together() -> None:
    async def body(ctx: ToolContext) -> Any:
        match ctx.entry:
            case Resume(name="collect", data=int() as number):
                sure = suspend({"sure": number}, "confirm", response_schema=bool)
                return [number, sure, [visit.name for visit in ctx.suspend_history]]
            case _:
                name = suspend("name?")
                return ctx.suspend(collect, Ask(prompt=f"How many, {name}?"))

    call = probe(body, waits=[collect])
    assert (await call.asks()).input == "name?"
    asked = suspended(await call.answer("Ann"))
    assert (asked.style, asked.input) == ("entry", {"prompt": "How many, Ann?"})
    # The answer to "name?" belongs to the first entry; the second one begins with none.
    assert suspended(await call.answer(3)).input == {"sure": 3}
    assert output(await call.answer(True)) == [3, True, ["input", "collect", "confirm"]]


async def test_a_kind_named_like_a_declared_wait_point_stays_inline() -> None:
    async def body(ctx: ToolContext) -> Any:
        if isinstance(ctx.entry, Resume):
            return ["entry", ctx.entry.data]
        answer = suspend({"prompt": "?"}, "collect", response_schema=str)
        return ["inline", answer]

    call = probe(body, waits=[collect])
    await call.enter()
    assert call.errors(3), "the declared wait point judged an inline answer"
    assert output(await call.answer("three")) == ["inline", "three"]
