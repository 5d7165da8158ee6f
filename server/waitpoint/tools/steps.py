"""``step()``: do something once per tool call, however often its handler runs.

Knows the results that were kept at earlier entries, and how to have a new one kept before it is handed out. Where it is
kept is the runner's business.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, overload

from waitpoint_protocol.values import Value, ValueRefused, normalise

from .contract import Contract, Misfit, encode
from .current import current
from .leaving import Abandoned, Leaving

__all__ = ["MAX_STEPS", "MAX_STEPS_BYTES", "MAX_STEP_RESULT", "Stepping", "Steps", "inside_step", "step", "step_sync"]

T = TypeVar("T")
R = TypeVar("R")

MAX_STEPS = 128
"""Steps of one call: their names lie in the control state of the thread."""

MAX_STEP_RESULT = 256 * 1024
MAX_STEPS_BYTES = 4 * 1024 * 1024
"""Bytes of UTF-8 JSON; all results of a call are read again at each of its entries."""

MAX_NAME = 64

_inside: ContextVar[str | None] = ContextVar("waitpoint step", default=None)


class Stepping:
    """The part of a tool's context that does things once."""

    __slots__ = ()

    if TYPE_CHECKING:
        tool_name: str
        _steps: Steps

        def _require_running(self) -> None: ...

        def _require_inside(self) -> None: ...

        def _leave(self, leaving: Leaving) -> NoReturn: ...

    @overload
    async def step(self, name: str, function: Callable[[], Any], *, result_type: type[R]) -> R: ...

    @overload
    async def step(self, name: str, function: Callable[[], Awaitable[T]]) -> T: ...

    @overload
    async def step(self, name: str, function: Callable[[], T]) -> T: ...

    @overload
    async def step(self, name: str, function: Callable[[], Any], *, result_type: Any) -> Any: ...

    async def step(self, name: str, function: Callable[[], Any], *, result_type: Any = None) -> Any:
        """Do something once in this call: ``receipt = await ctx.step("charge", lambda: charge(card))``.

        ``function`` (async or not) takes nothing and returns a JSON value, or an instance of ``result_type``. The
        result is stored before it is returned; when the tool runs again, after an answer or after a crash, the stored
        result is returned and the function is not called. Only if the server dies between the two may it run once
        more. One name stands for one piece of work; a name that is used again is counted, so loops work. What the
        function raises is not stored.
        """
        return await self._steps.run(self, name, function, result_type)

    @overload
    def step_sync(self, name: str, function: Callable[[], Any], *, result_type: type[R]) -> R: ...

    @overload
    def step_sync(self, name: str, function: Callable[[], Awaitable[T]]) -> T: ...

    @overload
    def step_sync(self, name: str, function: Callable[[], T]) -> T: ...

    @overload
    def step_sync(self, name: str, function: Callable[[], Any], *, result_type: Any) -> Any: ...

    def step_sync(self, name: str, function: Callable[[], Any], *, result_type: Any = None) -> Any:
        """:meth:`step` for tools that are not async: ``receipt = ctx.step_sync("charge", lambda: charge(card))``."""
        return self._steps.run_sync(self, name, function, result_type)


@overload
async def step(name: str, function: Callable[[], Any], *, result_type: type[R]) -> R: ...


@overload
async def step(name: str, function: Callable[[], Awaitable[T]]) -> T: ...


@overload
async def step(name: str, function: Callable[[], T]) -> T: ...


@overload
async def step(name: str, function: Callable[[], Any], *, result_type: Any) -> Any: ...


async def step(name: str, function: Callable[[], Any], *, result_type: Any = None) -> Any:
    """As ``ctx.step()``, for an async tool without a context: ``await step("charge", lambda: charge(card))``."""
    return await current("step()").step(name, function, result_type=result_type)


@overload
def step_sync(name: str, function: Callable[[], Any], *, result_type: type[R]) -> R: ...


@overload
def step_sync(name: str, function: Callable[[], Awaitable[T]]) -> T: ...


@overload
def step_sync(name: str, function: Callable[[], T]) -> T: ...


@overload
def step_sync(name: str, function: Callable[[], Any], *, result_type: Any) -> Any: ...


def step_sync(name: str, function: Callable[[], Any], *, result_type: Any = None) -> Any:
    """As ``ctx.step_sync()``, for a tool that is not async and has no context."""
    return current("step_sync()").step_sync(name, function, result_type=result_type)


def inside_step() -> str | None:
    """The name and number of the step whose function is running here, if any."""
    return _inside.get()


class Steps:
    """The steps of one execution."""

    def __init__(self, stored: Mapping[str, Value], record: Callable[[str, Value], Awaitable[None]]) -> None:
        self._stored = dict(stored)
        self._record = record
        self._loop = asyncio.get_running_loop()
        self._home = threading.get_ident()
        self._taken: set[str] = set()
        self._lock = threading.Lock()
        self._awaited: set[Future[Any]] = set()

    def close(self) -> None:
        """The execution is over. What a thread still has running on the loop for it is cancelled."""
        with self._lock:
            left = list(self._awaited)
        for future in left:
            future.cancel()

    async def run(self, context: Stepping, name: str, function: Callable[[], Any], type_: Any) -> Any:
        """For async handlers. A function that is not async runs in a thread, as a tool that is not async does."""
        step = _Step(context, self, name, type_)
        if step.known:
            return step.result()
        with step:
            if inspect.iscoroutinefunction(function):
                returned = await function()
            else:
                returned = await asyncio.to_thread(function)
                if inspect.isawaitable(returned):
                    returned = await returned
            await self._keep(step, returned)
        return step.result()

    def run_sync(self, context: Stepping, name: str, function: Callable[[], Any], type_: Any) -> Any:
        """For handlers in threads."""
        if threading.get_ident() == self._home:
            raise RuntimeError(f"step_sync({name!r}) would block the event loop; in async code, await step(...)")
        step = _Step(context, self, name, type_)
        if step.known:
            return step.result()
        with step:
            returned = function()
            if inspect.isawaitable(returned):
                returned = self._on_loop(_finish(returned))
            self._on_loop(self._keep(step, returned))
        return step.result()

    def _on_loop(self, work: Coroutine[Any, Any, Any]) -> Any:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        with self._lock:
            self._awaited.add(future)
        try:
            return future.result()
        finally:
            with self._lock:
                self._awaited.discard(future)

    async def _keep(self, step: _Step, returned: Any) -> None:
        """Have the result stored. Only then does the handler get it: it may act on nothing that could be lost."""
        value = step.spell(returned)
        step.context._require_running()
        size = len(encode(value))
        if size > MAX_STEP_RESULT:
            step.give_up(f"too-large: it returned {size} bytes; the limit is {MAX_STEP_RESULT}")
        if size + sum(len(encode(kept)) for kept in self._stored.values()) > MAX_STEPS_BYTES:
            step.give_up(f"too-large: the results of all steps of a call have a limit of {MAX_STEPS_BYTES} bytes")
        if len(self._stored) >= MAX_STEPS:
            step.give_up(f"too many steps: a call may have {MAX_STEPS}")
        try:
            await self._record(step.key, value)
        except Exception as error:
            step.give_up("its result could not be kept, because the call has ended or moved to another instance", error)
        self._stored[step.key] = value


async def _finish(work: Awaitable[Any]) -> Any:
    return await work


class _Step:
    """One use of a name. Uses of the same name are told apart by their number; a failed one gives its number back, so
    that a handler may try again and finds the result under the same number when it runs again.
    """

    def __init__(self, context: Stepping, steps: Steps, name: str, type_: Any) -> None:
        self.context = context
        self.name = name
        context._require_inside()
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or not name.isprintable():
            raise ValueError(f"a step is named by 1 to {MAX_NAME} printable characters, not {name!r}")
        self._steps = steps
        self._contract = None if type_ is None else Contract[Any](type_, f"result of step {name}")
        with steps._lock:
            number = 0
            while f"{name}#{number}" in steps._taken:
                number += 1
            self.key = f"{name}#{number}"
            steps._taken.add(self.key)

    @property
    def known(self) -> bool:
        return self.key in self._steps._stored

    def __enter__(self) -> None:
        self._token = _inside.set(self.key)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        _inside.reset(self._token)
        if kind is not None:
            with self._steps._lock:
                self._steps._taken.discard(self.key)

    def spell(self, returned: Any) -> Value:
        try:
            return normalise(returned) if self._contract is None else self._contract.spell(returned)
        except ValueRefused as refused:
            hint = "; return JSON values, or give step() their type as result_type"
            self.give_up(f"its result has no JSON form: {refused.code}: {refused}{hint}")
        except Misfit as misfit:
            self.give_up(f"its result does not fit its type: {misfit}")

    def result(self) -> Any:
        """The same at every run: what is stored, never the object that the function returned."""
        value = normalise(self._steps._stored[self.key])
        if self._contract is None:
            return value
        try:
            return self._contract.parse(value)
        except Misfit as misfit:
            self.give_up(f"its stored result no longer fits its type: {misfit}")

    def give_up(self, why: str, cause: Exception | None = None) -> NoReturn:
        abandoned = Abandoned(f"Step {self.name} of {self.context.tool_name} failed: {why}.")
        abandoned.__cause__ = cause
        self.context._leave(abandoned)
