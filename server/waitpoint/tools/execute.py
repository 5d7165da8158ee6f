"""Entering a tool: the author's function in, an outcome out, whatever the function does.

Knows how a body may misbehave and turns each way into a readable failure of that call. Decides nothing about the
thread, stores nothing, and starts no loop; the runner calls it once per entry.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence

from .context import ToolContext, ToolInput
from .contract import Misfit, encode
from .current import entered
from .enter import Unenterable, context_of
from .entry import Entry, Resume, UnsupportedEntry
from .gate import admit
from .inline import MAX_SUSPEND_DATA
from .leaving import Abandoned, InlineSuspension, Leaving, Suspension
from .outcome import Execution, Failure, Outcome, Output, Suspended
from .tool import Tool

__all__ = ["MAX_OUTPUT", "MAX_SUSPEND_DATA", "ToolError", "execute"]

logger = logging.getLogger(__name__)

MAX_OUTPUT = 1024 * 1024
"""Bytes of UTF-8 JSON."""

MAX_ERROR_TEXT = 2_000
"""Characters; longer texts are clipped, since the model reads them at every later step."""

GRACE = 1.0
"""Seconds a cancelled body has to end before it is left behind; shorter than a driver's own patience."""


class ToolError(Exception):
    """Raise it in a tool to end the call in ``output-error`` with exactly this text."""


async def execute(tool: Tool, execution: Execution) -> Outcome:
    """Enter ``tool`` once. Raises nothing but ``CancelledError``, and that only when this coroutine is cancelled."""
    admitted = await admit(tool, execution)
    if not isinstance(admitted, Execution):
        return admitted if isinstance(admitted, Suspended) else Failure(_clip(admitted.error_text))
    try:
        context = context_of(tool, admitted)
    except Unenterable as reason:
        return Failure(_clip(str(reason)))
    body = asyncio.create_task(_body(tool, context), name=f"tool {tool.name} {execution.tool_call_id}")
    try:
        done, _ = await asyncio.wait({body}, timeout=tool.timeout)
        if done:
            return _result(tool, body)
        await _end(body)
        return Failure(f"{tool.name} did not finish within {tool.timeout:g} seconds.")
    except asyncio.CancelledError:
        await _end(body)
        raise
    finally:
        context._over = True
        context._steps.close()


async def _end(body: asyncio.Task[Outcome]) -> None:
    body.cancel()
    done, _ = await asyncio.wait({body}, timeout=GRACE)
    if not done:
        # It can report and suspend no more, and what it returns is dropped; waiting longer would hold up the thread.
        logger.error("%s ignores its cancellation and was left behind", body.get_name())
        _LEFT_BEHIND.add(body)
        body.add_done_callback(_LEFT_BEHIND.discard)


_LEFT_BEHIND: set[asyncio.Task[Outcome]] = set()
"""Keeps them from being collected, and warned about, while they still run."""


def _result(tool: Tool, body: asyncio.Task[Outcome]) -> Outcome:
    if body.cancelled():
        return Failure(f"{tool.name} was cancelled from inside.")
    if (error := body.exception()) is not None:  # only what _body lets through: a GeneratorExit of the author's own
        return Failure(_clip(_spell(error)))
    return body.result()


async def _body(tool: Tool, context: ToolContext) -> Outcome:
    """Run the function and name what became of it."""
    try:
        with entered(context):
            returned = await _call(tool, context)
        if context._left is not None:
            return _went_on(tool, context._left)
    except Leaving as leaving:
        return _left(tool, context._left or leaving)
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except UnsupportedEntry:
        return Failure(f"{tool.name} does not handle {_name_entry(context.entry)}.")
    except ToolError as error:
        return Failure(_clip(str(error)) or "ToolError")
    except BaseException as error:  # also SystemExit and KeyboardInterrupt, which would stop the whole server
        left = context._left
        grouped = isinstance(error, BaseExceptionGroup) and _only_leaving(error)
        if left is not None and (grouped or isinstance(left, Abandoned)):
            return _left(tool, left)
        logger.exception("tool %s raised in call %s", tool.name, context.tool_call_id)
        return Failure(_clip(_spell(error)))
    return _output(tool, context, returned)


async def _call(tool: Tool, context: ToolContext) -> object:
    arguments = {name: getattr(context.input, name) for name in _parameters(context.input)}
    leading = (context,) if tool.takes_context else ()
    if tool.is_async:
        returned = await tool.function(*leading, **arguments)
    else:
        returned = await asyncio.to_thread(_call_sync, tool.function, leading, arguments)
        if inspect.isawaitable(returned):
            returned = await returned
    return returned


def _call_sync(function: Callable[..., object], leading: tuple[object, ...], arguments: dict[str, object]) -> object:
    try:
        return function(*leading, **arguments)
    except StopIteration as error:  # no future takes it: whoever waits for the thread would wait for ever
        raise RuntimeError("StopIteration") from error


def _parameters(given: ToolInput) -> Sequence[str]:
    return tuple(given.__dataclass_fields__)


def _output(tool: Tool, context: ToolContext, returned: object) -> Outcome:
    try:
        value = tool.check_output(returned)
    except Misfit as misfit:
        if returned is None:
            return Failure(
                f"{tool.name} returned nothing at {_name_entry(context.entry)}; "
                "every entry returns an output or suspends."
            )
        return Failure(_clip(f"{tool.name} returned output that breaks its output schema: {misfit}"))
    except Exception as error:
        logger.exception("the output of tool %s cannot be written", tool.name)
        return Failure(_clip(f"{tool.name} returned output that has no JSON form: {_spell(error)}"))
    size = len(encode(value))
    if size > MAX_OUTPUT:
        return Failure(f"too-large: {tool.name} returned {size} bytes of output; the limit is {MAX_OUTPUT}.")
    return Output(value)


def _left(tool: Tool, leaving: Leaving) -> Outcome:
    match leaving:
        case Suspension():
            return _suspended(tool, leaving)
        case InlineSuspension():
            return leaving.wait
        case Abandoned():
            return Failure(_clip(str(leaving)))
        case _:
            raise AssertionError(f"{leaving!r} leads nowhere")


def _went_on(tool: Tool, leaving: Leaving) -> Failure:
    """The body caught what should have ended it; what it did since was not meant to happen."""
    match leaving:
        case Suspension(name=name):
            advice = "return ctx.suspend(...) and let nothing catch it"
        case InlineSuspension(name=name):
            advice = "let nothing catch what suspend() raises"
        case _:
            return Failure(_clip(str(leaving)))
    return Failure(f"{tool.name} suspended at {name} and then went on; {advice}.")


def _suspended(tool: Tool, suspension: Suspension) -> Outcome:
    point = suspension.point
    if tool.waits.get(getattr(point, "name", "")) is not point:
        declared = ", ".join(tool.waits) or "none"
        return Failure(
            _clip(f"{tool.name} suspended at the undeclared wait point {suspension.name}; declared: {declared}.")
        )
    try:
        asked = point.check_suspend(suspension.data)
    except Misfit as misfit:
        return Failure(
            _clip(f"{tool.name} suspended at {point.name} with data that breaks its suspend schema: {misfit}")
        )
    except Exception as error:
        logger.exception("the suspend data of tool %s cannot be written", tool.name)
        return Failure(_clip(f"{tool.name} suspended at {point.name} with data that has no JSON form: {_spell(error)}"))
    size = len(encode(asked))
    if size > MAX_SUSPEND_DATA:
        return Failure(
            f"too-large: {tool.name} suspended at {point.name} with {size} bytes; the limit is {MAX_SUSPEND_DATA}."
        )
    return Suspended(
        point.name,
        asked,
        point.resume_schema,
        kind=point.kind,
        expires_in_ms=point.expires_in_ms,
        on_message=point.on_message,
        audience=point.audience,
        redact=point.redact,
    )


def _only_leaving(group: BaseExceptionGroup[BaseException]) -> bool:
    _, rest = group.split(Leaving)
    return rest is None


def _name_entry(entry: Entry) -> str:
    return f"the entry {entry.name}" if isinstance(entry, Resume) else "the initial entry"


def _spell(error: BaseException) -> str:
    """An exception in one line: type and message, no traceback."""
    kind = type(error).__name__
    try:
        said = str(error)
    except Exception:
        said = ""
    return f"{kind}: {said}" if said else kind


def _clip(text: str) -> str:
    """Bounded, and well-formed Unicode, whatever an exception says."""
    sound = text.encode("utf-8", "replace").decode("utf-8")
    return sound if len(sound) <= MAX_ERROR_TEXT else sound[:MAX_ERROR_TEXT] + "…"
