"""Promise 8 in a tool: what ``step()`` did is not done again, and its result is safe before anything acts on it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from tools.calls import CallOf, failure, output, probe, suspended
from waitpoint import step, step_sync, suspend
from waitpoint.tools import Execution, Resume, ToolContext, WaitPoint, execute, tool


class Receipt(BaseModel):
    id: str
    total: int


class Effects:
    """Counts what was really done."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def sync(self, value: Any = None) -> Any:
        self.done.append(value)
        return value

    async def later(self, value: Any = None) -> Any:
        await asyncio.sleep(0)
        self.done.append(value)
        return value


def bodies(effects: Effects) -> dict[str, Callable[..., Any]]:
    """Every way to do a step and then wait."""

    async def with_context(ctx: ToolContext) -> Any:
        return [await ctx.step("work", lambda: effects.sync(7)), suspend("?")]

    async def with_context_async(ctx: ToolContext) -> Any:
        return [await ctx.step("work", lambda: effects.later(7)), suspend("?")]

    async def without_context() -> Any:
        async def work() -> Any:
            return await effects.later(7)

        return [await step("work", work), suspend("?")]

    def in_a_thread(ctx: ToolContext) -> Any:
        return [ctx.step_sync("work", lambda: effects.sync(7)), suspend("?")]

    def in_a_thread_async(ctx: ToolContext) -> Any:
        return [ctx.step_sync("work", lambda: effects.later(7)), suspend("?")]

    def in_a_thread_without_context() -> Any:
        return [step_sync("work", lambda: effects.sync(7)), suspend("?")]

    return {name: body for name, body in locals().items() if name != "effects"}


@pytest.mark.parametrize("way", bodies(Effects()))
async def test_a_step_is_done_once_however_often_the_handler_runs(way: str) -> None:
    effects = Effects()
    call = probe(bodies(effects)[way])
    await call.asks()
    await call.enter()
    assert output(await call.answer("yes")) == [7, "yes"]
    assert effects.done == [7]


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}, {"a": [1, None]}])
async def test_every_json_value_is_a_result(value: Any) -> None:
    effects = Effects()

    async def body() -> Any:
        return [await step("work", lambda: effects.sync(value))]

    call = probe(body)
    assert output(await call.enter()) == [value]
    assert output(await call.enter()) == [value]
    assert len(effects.done) == 1


async def test_the_first_run_gets_what_later_runs_get() -> None:
    async def body() -> Any:
        pair = await step("pair", lambda: (1, 2.0))
        assert isinstance(pair, list)
        receipt = await step("receipt", lambda: Receipt(id="r", total=3), result_type=Receipt)
        assert type(receipt) is Receipt
        return [pair, receipt.total]

    call = probe(body)
    assert output(await call.enter()) == [[1, 2], 3]
    assert call.steps == {"pair#0": [1, 2], "receipt#0": {"id": "r", "total": 3}}
    assert output(await call.enter()) == [[1, 2], 3]


async def test_a_result_cannot_be_changed_by_who_got_it() -> None:
    async def body() -> Any:
        first: list[Any] = await step("list", lambda: [1])
        first.append(object())
        await step("other", lambda: 2)
        return suspend("?")

    call = probe(body)
    await call.asks()
    assert call.steps == {"list#0": [1], "other#0": 2}


async def test_a_result_is_safe_before_the_handler_gets_it() -> None:
    safe = asyncio.Event()
    order: list[str] = []

    async def record(name: str, value: Any) -> None:
        order.append("storing")
        await safe.wait()
        order.append("stored")

    async def body() -> str:
        await step("work", lambda: order.append("done"))
        order.append("used")
        return "ended"

    running = asyncio.create_task(execute(tool(name="probe")(body), Execution("t", "m", "c", {}, record=record)))
    while "storing" not in order:
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    assert order == ["done", "storing"]
    safe.set()
    assert output(await running) == "ended"
    assert order == ["done", "storing", "stored", "used"]


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_result_that_cannot_be_kept_ends_the_execution_whatever_the_handler_catches(kind: str) -> None:
    went_on: list[bool] = []

    async def record(name: str, value: Any) -> None:
        raise RuntimeError("fenced")

    async def body() -> str:
        try:
            await step("work", lambda: 1)
        except Exception:
            pass
        went_on.append(True)
        return "went on"

    def threaded() -> str:
        try:
            step_sync("work", lambda: 1)
        except Exception:
            pass
        went_on.append(True)
        return "went on"

    probing = tool(name="probe")(body if kind == "async" else threaded)
    said = failure(await execute(probing, Execution("t", "m", "c", {}, record=record)))
    assert said.startswith("Step work of probe failed: its result could not be kept")
    assert not went_on


async def test_what_the_function_raises_is_not_kept() -> None:
    tries: list[int] = []

    def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise OSError("again")
        return "done"

    async def body() -> Any:
        return await step("work", flaky)

    call = probe(body)
    assert failure(await call.enter()) == "OSError: again"
    assert failure(await call.enter()) == "OSError: again"
    assert output(await call.enter()) == "done"
    assert output(await call.enter()) == "done"
    assert len(tries) == 3


async def test_a_handler_that_tries_again_finds_its_result_when_it_runs_again() -> None:
    tries: list[int] = []

    def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise OSError("again")
        return "done"

    async def body() -> Any:
        for _ in range(5):
            try:
                done = await step("work", flaky)
            except OSError:
                continue
            break
        return [done, suspend("?")]

    call = probe(body)
    await call.asks()
    assert output(await call.answer(1)) == ["done", 1]
    assert len(tries) == 3


async def test_a_name_in_a_loop_is_counted() -> None:
    effects = Effects()

    async def body(ctx: ToolContext) -> Any:
        done = []
        for n in range(3):
            done.append(await ctx.step("work", lambda n=n: effects.sync(n)))
            suspend({"n": n})
        return done

    call = probe(body)
    await call.enter()
    for n in range(2):
        assert suspended(await call.answer(None)).input == {"n": n + 1}
    assert output(await call.answer(None)) == [0, 1, 2]
    assert effects.done == [0, 1, 2]


async def test_parallel_steps_keep_their_own_results() -> None:
    effects = Effects()

    async def body(ctx: ToolContext) -> Any:
        done = await asyncio.gather(*(ctx.step("work", lambda n=n: effects.later(n)) for n in range(5)))
        return [done, suspend("?")]

    call = probe(body)
    await call.enter()
    assert output(await call.answer("yes")) == [[0, 1, 2, 3, 4], "yes"]
    assert sorted(effects.done) == [0, 1, 2, 3, 4]


class Ask(BaseModel):
    prompt: str


wait = WaitPoint("wait", suspend=Ask, resume=int)


async def test_a_step_of_one_entry_is_not_repeated_at_the_next() -> None:
    effects = Effects()

    async def body(ctx: ToolContext) -> Any:
        draft = await ctx.step("draft", lambda: effects.sync("a draft"))
        if isinstance(ctx.entry, Resume):
            return [draft, ctx.entry.data]
        return ctx.suspend(wait, Ask(prompt=draft))

    call = probe(body, waits=[wait])
    await call.enter()
    assert output(await call.answer(5)) == ["a draft", 5]
    assert effects.done == ["a draft"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (math.nan, "not-finite"),
        (2**53, "integer-range"),
        ("\ud800", "bad-unicode"),
        ({1: 2}, "bad-key"),
        ({1, 2}, "unsupported-type"),
        (Receipt(id="r", total=1), "give step() their type as result_type"),
        ("x" * 300_000, "too-large: it returned 300002 bytes; the limit is 262144"),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, str) else None,
)
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_result_that_is_no_json_value_ends_the_call_by_name(value: Any, said: str, kind: str) -> None:
    async def body() -> Any:
        try:
            return await step("work", lambda: value)
        except Exception:
            return "went on"

    def threaded() -> Any:
        try:
            return step_sync("work", lambda: value)
        except Exception:
            return "went on"

    call = probe(body if kind == "async" else threaded)
    error = failure(await call.enter())
    assert error.startswith("Step work of probe failed: ")
    assert said in error
    assert call.steps == {}


async def test_a_result_of_another_type_than_promised_ends_the_call() -> None:
    async def body() -> Any:
        return await step("work", lambda: {"id": 1}, result_type=Receipt)

    assert "its result does not fit its type: " in failure(await probe(body).enter())


async def test_a_stored_result_that_no_longer_fits_ends_the_call() -> None:
    types: list[Any] = [str]

    async def body() -> Any:
        return [await step("work", lambda: "text", result_type=types[0])]

    call = probe(body)
    await call.enter()
    types[0] = int
    assert "its stored result no longer fits its type" in failure(await call.enter())


async def test_steps_of_a_call_are_bounded() -> None:
    async def many() -> None:
        for _ in range(200):
            await step("work", lambda: 1)

    async def large() -> None:
        for _ in range(30):
            await step("work", lambda: "x" * 200_000)

    assert "too many steps: a call may have 128" in failure(await probe(many).enter())
    assert "all steps of a call have a limit of 4194304 bytes" in failure(await probe(large).enter())


@pytest.mark.parametrize("name", ["", "x" * 65, "a\nb", "\ud800", 5])
async def test_a_step_has_a_name_that_can_be_shown(name: Any) -> None:
    async def body() -> Any:
        return await step(name, lambda: 1)

    assert "a step is named by 1 to 64 printable characters" in failure(await probe(body).enter())


@pytest.mark.parametrize("inner", ["wait", "entry", "step"])
async def test_inside_a_step_nothing_waits_and_no_step_begins(inner: str) -> None:
    async def body(ctx: ToolContext) -> Any:
        async def work() -> Any:
            if inner == "wait":
                return suspend("?")
            if inner == "entry":
                return ctx.suspend(wait, Ask(prompt="?"))
            return await ctx.step("inner", lambda: 1)

        return await ctx.step("outer", work)

    call = probe(body, waits=[wait])
    assert "waits or begins a step inside its step outer#0" in failure(await call.enter())
    assert call.steps == {}


async def test_a_blocking_step_in_async_code_says_what_to_write() -> None:
    async def body(ctx: ToolContext) -> Any:
        return ctx.step_sync("work", lambda: 1)

    assert "in async code, await step(...)" in failure(await probe(body).enter())


async def test_outside_a_tool_there_is_nothing_to_keep_a_step_with() -> None:
    with pytest.raises(RuntimeError, match=r"step\(\) is called outside a tool"):
        await step("work", lambda: 1)
    with pytest.raises(RuntimeError, match=r"step_sync\(\) is called outside a tool"):
        step_sync("work", lambda: 1)


async def test_a_step_has_an_idempotency_key_of_its_own() -> None:
    keys: list[list[str]] = []

    def body(ctx: ToolContext) -> None:
        keys.append([ctx.idempotency_key])
        keys[-1].append(ctx.step_sync("a", lambda: ctx.idempotency_key))
        keys[-1].append(ctx.step_sync("b", lambda: ctx.idempotency_key))

    first, again = probe(body), probe(body)
    await first.enter()
    await again.enter()
    assert keys[0] == keys[1]
    assert len(set(keys[0])) == 3


async def test_a_step_that_ends_after_its_tool_ran_out_of_time_is_not_kept() -> None:
    finish = asyncio.Event()
    finished = asyncio.Event()

    async def body() -> Any:
        async def work() -> int:
            while not finish.is_set():
                try:
                    await finish.wait()
                except asyncio.CancelledError:
                    continue
            return 1

        try:
            return await step("work", work)
        finally:
            finished.set()

    call = probe(body, timeout=0.05)
    assert "did not finish within" in failure(await call.enter())
    finish.set()
    await asyncio.wait_for(finished.wait(), 5)
    assert call.steps == {}


async def test_what_a_thread_awaits_in_a_step_is_cancelled_with_its_tool() -> None:
    cancelled = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    call = probe(lambda: step_sync("work", work), timeout=0.05)
    assert "did not finish within" in failure(await call.enter())
    await asyncio.wait_for(cancelled.wait(), 5)
    assert call.steps == {}


async def test_executions_do_not_share_steps() -> None:
    async def body(n: int) -> Any:
        return await step("work", lambda: n)

    probing = tool(name="probe")(body)
    calls = [CallOf(probing, {"n": n}, id=f"c{n}") for n in range(3)]
    await asyncio.gather(*(call.enter() for call in calls))
    assert [call.steps for call in calls] == [{"work#0": n} for n in range(3)]
