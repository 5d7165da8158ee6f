"""A tool is entered once and ends in one of three ways, whatever its body does (promises 5, 6, 11)."""

from __future__ import annotations

import asyncio
import sys
import threading
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from waitpoint.tools import (
    ActionRef,
    CancelledVisit,
    Execution,
    ExpiredVisit,
    FailedVisit,
    Failure,
    Initial,
    InitialEntry,
    Output,
    Report,
    Resume,
    ResumeEntry,
    SubmittedVisit,
    Suspended,
    Tool,
    ToolContext,
    ToolError,
    UnsupportedEntry,
    VisitData,
    WaitPoint,
    execute,
    tool,
)
from waitpoint.tools import execute as _execute_function
from waitpoint_protocol.events import DataEvent, ToolProgress


class Ask(BaseModel):
    prompt: str


class Details(BaseModel):
    audience: str
    deadline: str | None = None


collect = WaitPoint("collectDetails", suspend=Ask, resume=Details)
flag = WaitPoint(
    "flag", suspend=Ask, resume=bool | None, expires_in=90, on_message="keep", audience=["ann"], redact=True
)


@tool(name="collectReportDetails", waits=[collect])
async def collect_report_details(ctx: ToolContext, report_id: str, known_summary: str) -> Details:
    """Collect missing report details from the user."""
    match ctx.entry:
        case Initial():
            return ctx.suspend(collect, Ask(prompt=f"Who is {report_id} for?"))
        case Resume(name="collectDetails", data=Details() as details):
            return details
        case _:
            raise UnsupportedEntry


GIVEN = {"report_id": "r1", "known_summary": "Sales rose"}
ASKED_AT, ANSWERED_AT = "2026-12-01T08:00:00.000Z", "2026-12-01T09:00:00.000Z"
REF = ActionRef(
    id="act_1",
    name="collectReportDetails.collectDetails",
    input={"prompt": "?"},
    suspended_at=ASKED_AT,
    resumed_at=ANSWERED_AT,
    by={"id": "ann", "kind": "person"},
)


def entering(tool_input: Any = None, **changes: Any) -> Execution:
    execution = Execution("t1", "msg_1", "call_1", {} if tool_input is None else tool_input)
    return replace(execution, **changes)


def resuming(data: Any, name: str = "collectDetails", tool_input: Any = None, **changes: Any) -> Execution:
    return entering(tool_input, entry=ResumeEntry(name, data, REF), **changes)


def made(body: Any, **options: Any) -> Tool:
    return tool(name="probe", **options)(body)


async def failure(tool: Tool, execution: Execution | None = None) -> str:
    outcome = await execute(tool, execution or entering())
    assert isinstance(outcome, Failure), outcome
    return outcome.error_text


async def test_the_first_entry_suspends_with_what_was_asked_and_what_may_be_answered() -> None:
    outcome = await execute(collect_report_details, entering(GIVEN))
    assert outcome == Suspended("collectDetails", {"prompt": "Who is r1 for?"}, collect.resume_schema)


async def test_a_suspension_carries_the_wait_points_options() -> None:
    async def body(ctx: ToolContext) -> None:
        ctx.suspend(flag, Ask(prompt="?"))

    outcome = await execute(made(body, waits=[flag]), entering())
    assert outcome == Suspended("flag", {"prompt": "?"}, flag.resume_schema, None, 90_000, "keep", ("ann",), True)


async def test_an_answer_re_enters_with_the_type_of_the_wait_point() -> None:
    outcome = await execute(collect_report_details, resuming({"audience": "Product team"}, tool_input=GIVEN))
    assert outcome == Output({"audience": "Product team", "deadline": None})


@pytest.mark.parametrize("answer", [False, None, True])
async def test_falsy_answers_are_answers(answer: bool | None) -> None:
    async def body(ctx: ToolContext) -> list[Any]:
        assert flag.answered(ctx.entry)
        return [ctx.entry.data]

    assert await execute(made(body, waits=[flag]), resuming(answer, "flag")) == Output([answer])


async def test_the_original_input_is_there_at_every_entry_as_arguments_attributes_and_items() -> None:
    async def body(ctx: ToolContext, a: int, b: str = "x") -> list[Any]:
        return [a, b, ctx.input.a, ctx.input["b"]]

    probe = made(body, waits=[collect])
    assert await execute(probe, entering({"a": 1})) == Output([1, "x", 1, "x"])
    assert await execute(probe, resuming({"audience": "A"}, tool_input={"a": 1})) == Output([1, "x", 1, "x"])


async def test_defaults_are_not_shared_between_calls() -> None:
    async def body(ctx: ToolContext, seen: list[int] = []) -> list[int]:  # noqa: B006
        seen.append(len(seen))
        return seen

    probe = made(body)
    assert [await execute(probe, entering()) for _ in range(2)] == [Output([0]), Output([0])]


async def test_the_context_says_where_the_tool_runs() -> None:
    async def body(ctx: ToolContext[dict[str, int]]) -> list[Any]:
        assert isinstance(ctx.entry, Resume)
        action = ctx.entry.action
        return [
            [ctx.thread_id, ctx.message_id, ctx.tool_call_id, ctx.tool_name, ctx.attempt, ctx.deps["n"]],
            [ctx.entry.type, ctx.entry.name, action.id, action.name, action.input, action.by],
        ]

    outcome = await execute(made(body, waits=[collect]), resuming({"audience": "A"}, attempt=2, deps={"n": 7}))
    assert outcome == Output(
        [
            ["t1", "msg_1", "call_1", "probe", 2, 7],
            [
                "resume",
                "collectDetails",
                "act_1",
                "collectReportDetails.collectDetails",
                {"prompt": "?"},
                {"id": "ann", "kind": "person"},
            ],
        ]
    )


async def test_the_idempotency_key_is_the_same_for_every_attempt_at_an_entry_and_for_no_other() -> None:
    async def body(ctx: ToolContext) -> str:
        return ctx.idempotency_key

    probe = made(body, waits=[collect])
    keys = [
        await execute(probe, execution)
        for execution in (
            entering(),
            entering(attempt=2),
            entering(tool_call_id="call_2"),
            entering(thread_id="t2"),
            entering(message_id="m2"),  # some providers number the calls of every answer from 1
            resuming({"audience": "A"}),
        )
    ]
    assert keys[0] == keys[1]
    assert len({str(key) for key in keys}) == 5


async def test_suspend_history_tells_every_visit_and_how_it_ended() -> None:
    seen: list[Any] = []

    async def body(ctx: ToolContext) -> None:
        seen.extend(ctx.suspend_history)

    at, then = ASKED_AT, ANSWERED_AT
    history = [
        VisitData("collectDetails", at, {"prompt": "1"}, "submitted", then, answer={"audience": "A"}),
        VisitData("collectDetails", at, {"prompt": "2"}, "submitted", then, answer={"old": "form"}),
        VisitData("gone", at, {"prompt": "3"}, "submitted", then, answer=None),
        VisitData("collectDetails", at, {"prompt": "4"}, "cancelled", then, reason="not needed"),
        VisitData("collectDetails", at, {"prompt": "5"}, "failed", then, message="no camera"),
        VisitData("collectDetails", at, {"prompt": "6"}, "expired", then),
    ]
    assert await execute(made(body, waits=[collect]), entering(history=history)) == Output(None)
    submitted, old_form, gone, cancelled, failed, expired = seen
    assert submitted == SubmittedVisit("collectDetails", at, {"prompt": "1"}, then, Details(audience="A"))
    assert (submitted.status, old_form.resume, gone.resume) == ("submitted", {"old": "form"}, None)
    assert isinstance(cancelled, CancelledVisit)
    assert (cancelled.status, cancelled.cancel.reason, cancelled.resolved_at) == ("cancelled", "not needed", then)
    assert isinstance(failed, FailedVisit)
    assert (failed.status, failed.fail.message) == ("failed", "no camera")
    assert isinstance(expired, ExpiredVisit)
    assert expired.status == "expired"


async def test_progress_and_data_are_reported_as_they_are_said() -> None:
    async def body(ctx: ToolContext) -> None:
        ctx.progress(0.5, "half")
        ctx.progress(7)
        ctx.progress(message="x" * 5_000)
        ctx.emit("chart", {"points": [1.0]})
        ctx.emit("chart", {"points": [2]})
        ctx.emit("chart", 1, id="mine")

    said: list[Report] = []
    assert await execute(made(body), entering(report=said.append)) == Output(None)
    half, full, long, first, second, mine = said
    assert half == ToolProgress(tool_call_id="call_1", progress={"fraction": 0.5, "message": "half"})
    assert isinstance(full, ToolProgress)
    assert full.progress == {"fraction": 1.0}
    assert isinstance(long, ToolProgress)
    assert len(long.progress["message"]) == 1_000
    assert isinstance(first, DataEvent)
    assert isinstance(second, DataEvent)
    assert (first.name, first.data, first.id == second.id) == ("chart", {"points": [1]}, True)
    assert isinstance(mine, DataEvent)
    assert (mine.id, mine.data) == ("mine", 1)


async def test_a_plain_function_runs_in_a_thread_and_reports_on_the_loop() -> None:
    home = threading.get_ident()
    said: list[tuple[Report, int]] = []

    def body(ctx: ToolContext, a: int) -> bool:
        ctx.progress(0.1)
        return threading.get_ident() == home

    def report(event: Report) -> None:
        said.append((event, threading.get_ident()))

    assert await execute(made(body), entering({"a": 1}, report=report)) == Output(False)
    assert [where for _, where in said] == [home]


async def test_a_plain_function_can_suspend() -> None:
    def body(ctx: ToolContext) -> None:
        ctx.suspend(collect, Ask(prompt="?"))

    assert isinstance(await execute(made(body, waits=[collect]), entering()), Suspended)


async def test_a_suspension_passes_the_authors_own_handlers_and_runs_their_cleanup() -> None:
    cleaned: list[str] = []

    async def body(ctx: ToolContext) -> str:
        try:
            return ctx.suspend(collect, Ask(prompt="?"))
        except Exception:
            return "swallowed"
        finally:
            cleaned.append("yes")

    assert isinstance(await execute(made(body, waits=[collect]), entering()), Suspended)
    assert cleaned == ["yes"]


async def test_a_suspension_from_within_a_task_group_is_a_suspension() -> None:
    async def ask(ctx: ToolContext) -> None:
        ctx.suspend(collect, Ask(prompt="?"))

    async def body(ctx: ToolContext) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ask(ctx))

    assert isinstance(await execute(made(body, waits=[collect]), entering()), Suspended)


async def test_a_body_that_swallows_its_suspension_fails_and_is_told_so() -> None:
    async def body(ctx: ToolContext) -> str:
        try:
            ctx.suspend(collect, Ask(prompt="?"))
        except BaseException:
            return "went on"

    assert "suspended at collectDetails and then went on" in await failure(made(body, waits=[collect]))


async def test_an_undeclared_wait_point_fails_that_call_and_names_the_declared_ones() -> None:
    stranger = WaitPoint("collectDetails", suspend=Ask, resume=bool)  # same name, another wait point

    async def body(ctx: ToolContext, which: str) -> None:
        ctx.suspend(stranger if which == "twin" else flag, Ask(prompt="?"))

    probe = made(body, waits=[collect])
    assert await failure(probe, entering({"which": "flag"})) == (
        "probe suspended at the undeclared wait point flag; declared: collectDetails."
    )
    assert "undeclared wait point collectDetails" in await failure(probe, entering({"which": "twin"}))


async def test_suspend_data_that_breaks_its_schema_fails_the_call() -> None:
    async def body(ctx: ToolContext, data: Any) -> None:
        ctx.suspend(collect, data)

    text = await failure(made(body, waits=[collect]), entering({"data": {"prompt": 5}}))
    assert text == (
        "probe suspended at collectDetails with data that breaks its suspend schema: "
        "prompt: Input should be a valid string"
    )


async def test_limits_count_bytes_of_utf_8() -> None:
    async def body(ctx: ToolContext, suspend: bool, size: int) -> str:
        if suspend:
            ctx.suspend(collect, Ask(prompt="é" * size))
        return "é" * size

    probe = made(body, waits=[collect])
    frame = len('{"prompt":""}')
    fits = {"suspend": True, "size": (256 * 1024 - frame) // 2}
    assert isinstance(await execute(probe, entering(fits)), Suspended)
    assert (await failure(probe, entering({**fits, "size": fits["size"] + 1}))).startswith("too-large: probe suspended")
    fits = {"suspend": False, "size": (1024 * 1024 - 2) // 2}
    assert isinstance(await execute(probe, entering(fits)), Output)
    assert (await failure(probe, entering({**fits, "size": fits["size"] + 1}))).startswith("too-large: probe returned")


async def test_an_exception_ends_the_call_with_type_and_message_and_logs_the_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body(ctx: ToolContext) -> None:
        raise LookupError("no report r1")

    assert await failure(made(body)) == "LookupError: no report r1"
    assert "Traceback" in caplog.text


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ToolError("The printer is out of paper."), "The printer is out of paper."),
        (ValueError(), "ValueError"),
        (Unprintable(), "Unprintable"),
        (ValueError("\ud800"), "ValueError: ?"),
        (SystemExit(3), "SystemExit: 3"),
        (MemoryError(), "MemoryError"),
    ],
)
async def test_every_exception_becomes_a_readable_text(error: BaseException, text: str) -> None:
    async def body(ctx: ToolContext) -> None:
        raise error

    assert await failure(made(body)) == text


async def test_exit_in_a_plain_function_ends_the_call_and_not_the_server() -> None:
    def body(ctx: ToolContext) -> None:
        sys.exit("bye")

    assert await failure(made(body)) == "SystemExit: bye"


async def test_a_long_error_text_is_clipped() -> None:
    async def body(ctx: ToolContext) -> None:
        raise ValueError("x" * 100_000)

    assert len(await failure(made(body))) == 2_001


async def test_an_entry_the_tool_does_not_handle_fails_the_call() -> None:
    async def raises(ctx: ToolContext) -> Details:
        raise UnsupportedEntry

    async def falls_through(ctx: ToolContext) -> Details:  # type: ignore[return]
        match ctx.entry:
            case Resume(name="another"):
                return Details(audience="A")

    assert await failure(made(raises, waits=[collect]), resuming({"audience": "A"})) == (
        "probe does not handle the entry collectDetails."
    )
    assert await failure(made(falls_through, waits=[collect]), resuming({"audience": "A"})) == (
        "probe returned nothing at the entry collectDetails; every entry returns an output or suspends."
    )
    assert "the initial entry" in await failure(made(falls_through, waits=[collect]))


async def test_output_that_breaks_its_schema_fails_the_call() -> None:
    async def body(ctx: ToolContext) -> Details:
        return {"audience": 5}  # type: ignore[return-value]

    assert await failure(made(body)) == (
        "probe returned output that breaks its output schema: audience: Input should be a valid string"
    )


@pytest.mark.parametrize("value", [float("nan"), {1: 2}, b"x", {3}])
async def test_output_that_json_cannot_say_fails_the_call(value: Any) -> None:
    async def body(ctx: ToolContext):  # type: ignore[no-untyped-def]
        return value

    assert "breaks its output schema" in await failure(made(body))


@pytest.mark.parametrize(
    ("execution", "says"),
    [
        (resuming({"old": "form"}), "The accepted answer no longer fits the wait point collectDetails of probe"),
        (resuming(True, "gone"), "probe no longer has the wait point gone"),
        (entering({"a": "1"}), "The input does not fit probe: a: Input should be a valid integer"),
        (entering({}), "The input does not fit probe: a: Field required"),
    ],
)
async def test_what_a_deploy_left_behind_fails_the_call_and_the_body_is_not_entered(
    execution: Execution, says: str
) -> None:
    entered: list[int] = []

    async def body(ctx: ToolContext, a: int) -> None:
        entered.append(a)

    if isinstance(execution.entry, ResumeEntry):
        execution = replace(execution, input={"a": 1})
    assert says in await failure(made(body, waits=[collect]), execution)
    assert entered == []


async def test_a_tool_that_takes_too_long_fails_and_is_cancelled() -> None:
    cancelled = asyncio.Event()

    async def body(ctx: ToolContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    assert await failure(made(body, timeout=0.02)) == "probe did not finish within 0.02 seconds."
    assert cancelled.is_set()


async def test_a_timeout_inside_the_tool_is_the_tools_own() -> None:
    async def body(ctx: ToolContext) -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    assert await failure(made(body, timeout=30)) == "TimeoutError"


async def test_a_tool_that_cancels_itself_fails_and_its_caller_lives_on() -> None:
    async def body(ctx: ToolContext) -> None:
        raise asyncio.CancelledError

    assert await failure(made(body)) == "probe was cancelled from inside."


async def test_cancelling_the_execution_cancels_the_body_and_nothing_else_comes_out() -> None:
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def body(ctx: ToolContext) -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    running = asyncio.create_task(execute(made(body), entering()))
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert cancelled.is_set()


async def test_a_body_that_ignores_its_cancellation_is_left_behind_and_can_report_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules[_execute_function.__module__], "GRACE", 0.02)
    release, refused = asyncio.Event(), asyncio.Event()
    said: list[Report] = []

    async def body(ctx: ToolContext) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        with pytest.raises(RuntimeError, match="is over"):
            ctx.progress(1)
        with pytest.raises(RuntimeError, match="is over"):
            ctx.suspend(collect, Ask(prompt="?"))
        refused.set()

    outcome = await execute(made(body, waits=[collect], timeout=0.02), entering(report=said.append))
    assert isinstance(outcome, Failure)
    release.set()
    await asyncio.wait_for(refused.wait(), 5)
    assert said == []


async def test_executions_of_one_tool_do_not_share_anything() -> None:
    barrier = asyncio.Barrier(3)

    async def body(ctx: ToolContext, n: int) -> list[Any]:
        await barrier.wait()
        return [n, ctx.tool_call_id]

    probe = made(body)
    outcomes = await asyncio.gather(
        *(execute(probe, entering({"n": n}, tool_call_id=f"call_{n}", entry=InitialEntry())) for n in range(3))
    )
    assert outcomes == [Output([n, f"call_{n}"]) for n in range(3)]
