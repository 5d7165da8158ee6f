"""A chat whose model and tools misbehave on request: what a provider's bug or a careless author would do.

The user's message is a JSON list with one entry per model step: a list of ``[tool, input]`` calls, a text, or
``{"odd": name}``, which plays one of the streams below. Anything else is echoed, with the results of the calls so far.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import json
import threading
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from pydantic import BaseModel

from waitpoint import Call, Chat, ModelRequest, Resume, ScriptedModel, ToolContext, WaitPoint, tool
from waitpoint.models import (
    Finish,
    ModelError,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolInputDelta,
    ToolInputStart,
    to_turns,
)


class Ask(BaseModel):
    prompt: str


class Colour(enum.Enum):
    RED = "red"


plain = WaitPoint("plain", suspend=Ask, resume=bool)
other = WaitPoint("other", suspend=Ask, resume=bool)
loose = WaitPoint("loose", suspend=Any, resume=Any)
short: WaitPoint[Ask, bool] = WaitPoint("short", suspend=Ask, resume=bool, expires_in=0.7)
secret: WaitPoint[Ask, str] = WaitPoint("secret", suspend=Ask, resume=str, redact=True)
undeclared = WaitPoint("undeclared", suspend=Ask, resume=bool)


@tool(waits=[plain])
async def ask(ctx: ToolContext, label: str = "") -> dict[str, Any]:
    """Wait for yes or no."""
    if plain.answered(ctx.entry):
        return {"label": label, "yes": ctx.entry.data}
    return ctx.suspend(plain, Ask(prompt=label))


@tool(waits=[short])
async def lapse(ctx: ToolContext) -> dict[str, Any]:
    """Wait for a moment only."""
    if short.answered(ctx.entry):
        return {"yes": ctx.entry.data}
    return ctx.suspend(short, Ask(prompt="quick"))


@tool(waits=[short, plain])
async def lapse_then_ask(ctx: ToolContext) -> str:
    """Wait for a moment, then for as long as it takes."""
    match ctx.entry:
        case Resume(name="short"):
            return ctx.suspend(plain, Ask(prompt="and now?"))
        case Resume():
            return "done"
        case _:
            return ctx.suspend(short, Ask(prompt="quick"))


@tool(waits=[secret])
async def password(ctx: ToolContext) -> str:
    """Wait for something that nobody else may see."""
    if secret.answered(ctx.entry):
        return f"{len(ctx.entry.data)} characters"
    return ctx.suspend(secret, Ask(prompt="password?"))


class _Base(BaseException):
    """Not an Exception."""


BAD_VALUES: dict[str, Callable[[], Any]] = {
    "nan": lambda: float("nan"),
    "inf": lambda: [float("inf")],
    "bytes": lambda: {"blob": b"\x00\xff"},
    "huge-int": lambda: 2**70,
    "just-over": lambda: 2**53,
    "surrogate": lambda: {"text": "a\ud800b"},
    "surrogate-key": lambda: {"\udfff": 1},
    "int-key": lambda: {1: "one"},
    "set": lambda: {1, 2},
    "decimal": lambda: Decimal("1.5"),
    "datetime": lambda: datetime(2026, 1, 1, tzinfo=UTC),
    "enum": lambda: Colour.RED,
    "object": object,
    "deep": lambda: _nest(70),
    "large": lambda: "x" * 5_000_000,
    "circular": lambda: _circle(),
    "large-ish": lambda: "y" * 600_000,
    "fine": lambda: {"a": [1, -0.0, 1e300, 0.1, None, True, "", {}], "é\u0000": 2**53 - 1},
}


def _nest(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def _circle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


@tool
async def give(ctx: ToolContext, what: str) -> Any:
    """Return a value that may not fit."""
    return BAD_VALUES[what]()


@tool(waits=[loose])
async def show(ctx: ToolContext, what: str) -> Any:
    """Suspend with a value that may not fit."""
    return ctx.suspend(loose, BAD_VALUES[what]())


@tool(waits=[plain, other])
async def odd(ctx: ToolContext, how: str) -> Any:
    """Do something that no tool should."""
    match how:
        case "base":
            raise _Base("not an Exception")
        case "exit":
            raise SystemExit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "cancelled":
            raise asyncio.CancelledError
        case "generator-exit":
            raise GeneratorExit
        case "surrogate-error":
            raise ValueError("broken \ud800 text")
        case "long-error":
            raise ValueError("x" * 3_000_000)
        case "unprintable":
            raise _Unprintable
        case "twice":
            with contextlib.suppress(BaseException):
                ctx.suspend(plain, Ask(prompt="first"))
            return ctx.suspend(other, Ask(prompt="second"))
        case "swallow":
            with contextlib.suppress(BaseException):
                ctx.suspend(plain, Ask(prompt="first"))
            return "went on"
        case "undeclared":
            return ctx.suspend(undeclared, Ask(prompt="?"))
        case "wrong-suspend":
            return ctx.suspend(plain, {"prompt": 1})  # type: ignore[arg-type]
        case "nothing":
            return None
        case "child-task":
            child = asyncio.create_task(_suspend_later(ctx))
            with contextlib.suppress(BaseException):
                await child
            return "child"
        case "group":
            async with asyncio.TaskGroup() as group:
                group.create_task(_suspend_later(ctx))
                group.create_task(asyncio.sleep(30))
            return "group"
        case "leaves-task":
            task = asyncio.create_task(_progress_for_ever(ctx))
            _LEFT.add(task)
            return "left a task"
        case "ignores-cancel":
            for _ in range(100):
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.1)
            return "never heard"
        case "forever":
            await asyncio.sleep(3600)
        case "bad-progress":
            ctx.progress(0.5, "half \ud800")
        case "bad-data":
            ctx.emit("blob", b"bytes")
        case "bad-data-name":
            ctx.emit("na\ud800me", 1)
        case "bad-data-id":
            ctx.emit("name", 1, id="not an id")
        case "large-data":
            ctx.emit("large", "x" * 5_000_000)
        case "progress-flood":
            for n in range(200_000):
                ctx.progress(n / 200_000)
            return "flooded"
        case "data-flood":
            for n in range(200_000):
                ctx.emit("n", n, id=f"d{n}")
            return "flooded"
    raise AssertionError(f"nothing odd is called {how}")


_LEFT: set[asyncio.Task[None]] = set()


async def _suspend_later(ctx: ToolContext) -> None:
    await asyncio.sleep(0)
    ctx.suspend(plain, Ask(prompt="from a child"))


async def _progress_for_ever(ctx: ToolContext) -> None:
    while True:
        await asyncio.sleep(0.01)
        ctx.progress(0.1, "still here")


class _Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@tool(waits=[plain])
def odd_sync(ctx: ToolContext, how: str) -> Any:
    """Do something odd in a thread."""
    match how:
        case "exit":
            raise SystemExit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "stop-iteration":
            raise StopIteration("end")
        case "suspend":
            if plain.answered(ctx.entry):
                return f"answered in {'a thread' if threading.current_thread() is not threading.main_thread() else '?'}"
            return ctx.suspend(plain, Ask(prompt="from a thread"))
        case "progress":
            for n in range(50_000):
                ctx.progress(n / 50_000)
            return "flooded"
    raise AssertionError(f"nothing odd is called {how}")


@tool
async def busy_progress(ctx: ToolContext, seconds: float) -> str:
    """Report all the time, letting others run."""
    end = asyncio.get_running_loop().time() + seconds
    n = 0
    while asyncio.get_running_loop().time() < end:
        n += 1
        ctx.progress(message=str(n))
        await asyncio.sleep(0)
    return f"{n} reports"


@tool
async def quick(ctx: ToolContext, label: str = "") -> str:
    """Return at once."""
    return f"quick {label}"


@tool
async def slow(ctx: ToolContext, seconds: float) -> str:
    """Take a while."""
    await asyncio.sleep(seconds)
    return "slept"


async def _stubborn() -> AsyncIterator[Any]:
    """Text that no cancellation ends for three seconds, and then a call."""
    for n in range(60):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.1)
        yield TextDelta(f"stubborn{n} ")
    yield ToolCall("late", "quick", {"label": "late"})


async def _stream(name: str) -> AsyncIterator[Any]:
    match name:
        case "nan-input":
            yield ToolCall("c1", "quick", {"label": float("nan")})
        case "huge-int-input":
            yield ToolCall("c1", "quick", {"label": 2**70})
        case "surrogate-input":
            yield ToolCall("c1", "quick", {"label": "a\ud800"})
        case "bytes-input":
            yield ToolCall("c1", "quick", b"raw")
        case "string-input":
            yield ToolCall("c1", "quick", "text")
        case "unknown-tool":
            yield ToolCall("c1", "no_such_tool", {"label": "x"})
        case "surrogate-name":
            yield ToolCall("c1", "qu\ud800ick", {})
        case "long-name":
            yield ToolCall("c1", "q" * 1_000_000, {})
        case "bad-id":
            yield ToolInputStart("an id with spaces", "quick")
            yield ToolCall("an id with spaces", "quick", {"label": "spaces"})
            yield ToolCall("", "quick", {"label": "empty"})
            yield ToolCall("é" * 300, "quick", {"label": "long"})
        case "same-id":
            yield ToolCall("c1", "quick", {"label": "first"})
            yield ToolCall("c1", "quick", {"label": "second"})
        case "start-only":
            yield TextDelta("I will call. ")
            yield ToolInputStart("c1", "quick")
            yield ToolInputDelta("c1", '{"lab')
        case "breaks-in-call":
            yield ToolInputStart("c1", "quick")
            yield ToolInputDelta("c1", '{"lab')
            raise ModelError("provider went away")
        case "slow-call":
            yield TextDelta("Calling. ")
            yield ToolInputStart("c1", "quick")
            for _ in range(200):
                yield ToolInputDelta("c1", "x")
                await asyncio.sleep(0.05)
        case "raises":
            yield TextDelta("so far ")
            raise RuntimeError("model bug \ud800 " + "x" * 100_000)
        case "exits":
            yield TextDelta("so far ")
            raise SystemExit(4)
        case "cancels":
            yield TextDelta("so far ")
            raise asyncio.CancelledError
        case "silent":
            await asyncio.sleep(3600)
        case "endless":
            while True:
                yield TextDelta("more ")
                await asyncio.sleep(0.01)
        case "stubborn":
            async for event in _stubborn():
                yield event
        case "megabytes":
            yield TextDelta("é" * 5_000_000)
        case "surrogates":
            yield TextDelta("smile \ud83d")
            yield TextDelta("\ude00 and \ud800")
            yield ReasoningDelta("\udc00 thought")
            yield TextDelta("end \ud83d")
        case "bad-finish":
            yield TextDelta("fine")
            yield Finish("sto\ud800p", {"in": 1.5, "out": 2**70, "cached": None, "ok": 3})  # type: ignore[dict-item]
        case "not-an-event":
            yield {"type": "text", "text": "hello"}
        case "nothing":
            return
        case "calls-without-end":
            n = 0
            while True:
                n += 1
                yield ToolCall(f"c{n}", "quick", {"label": str(n)})
        case "text-without-end":
            while True:
                yield TextDelta("x" * 1_000_000)
                await asyncio.sleep(0)
        case "many-calls":
            for n in range(40):
                yield ToolCall(f"c{n}", "quick", {"label": str(n)})
        case _:
            raise AssertionError(f"no odd stream is called {name}")


class OddModel:
    """Plays odd streams as they are; everything else as a scripted model does."""

    def __init__(self) -> None:
        self._scripted = ScriptedModel(_script)

    def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        step = _step(request)
        if isinstance(step, dict) and "odd" in step:
            to_turns(request.messages)
            return _stream(step["odd"])
        return self._scripted.stream(request)


def _step(request: ModelRequest) -> Any:
    said = next(message for message in reversed(request.messages) if message["role"] == "user")
    text = "".join(part["text"] for part in said["parts"] if part["type"] == "text")
    try:
        steps = json.loads(text)
    except ValueError:
        return None
    return steps[request.step] if isinstance(steps, list) and request.step < len(steps) else None


def _script(request: ModelRequest) -> Any:
    turns = to_turns(request.messages)  # every call has exactly one result, or this raises
    step = _step(request)
    if isinstance(step, str):
        return [step]
    if isinstance(step, list):
        return [Call(name, arguments) for name, arguments in step]
    results = [
        result.error_text or json.dumps(result.output) for turn in turns for result in getattr(turn, "results", ())
    ]
    said = next(message for message in reversed(request.messages) if message["role"] == "user")
    text = "".join(part["text"] for part in said["parts"] if part["type"] == "text")
    return [f"You said: {text[:100]}; {len(results)} results: {' | '.join(results)[:2000]}"]


chat = Chat(
    OddModel(),
    [ask, lapse, lapse_then_ask, password, give, show, odd, odd_sync, busy_progress, quick, slow],
)
