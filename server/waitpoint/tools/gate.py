"""Approval gates: no code of a gated tool runs before somebody has seen the call and said yes.

Knows what is asked, and what becomes of the call by the answer. What is shown is what runs: the input, as it stands
stored with the action, with the changes that whoever approved it made. In doubt it asks.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, cast

from pydantic import ConfigDict
from pydantic.fields import FieldInfo
from typing_extensions import TypedDict

from waitpoint_protocol.values import Value, ValueRefused, normalise

from ..errors import DefinitionError
from .context import ToolInput
from .contract import Contract, Misfit, encode
from .inline import MAX_SUSPEND_DATA
from .outcome import Execution, Failure, InitialEntry, Suspended, VisitData
from .waitpoint import WaitOptions, WaitPoint

if TYPE_CHECKING:
    from .tool import Tool

__all__ = ["GATE", "Gate", "Policy", "Words", "admit"]

logger = logging.getLogger(__name__)

GATE = "approval"
"""The name of a gate's wait point, and its kind."""

MAX_WORDS = 4_000

# Checkers know only TypedDicts that are spelled out.
_typed_dict = cast("Any", TypedDict)

Policy = bool | Callable[[Any], bool | Awaitable[bool]]
"""Whether a call needs approval: always, or as a function of its input says."""

Words = str | Callable[[Any], str | Awaitable[str]]
"""What people are told: a text, or a function of the input that gives one."""


class Question(TypedDict):
    """What whoever may approve a call is shown."""

    prompt: str
    description: NotRequired[str]
    toolName: str
    input: dict[str, Any]


class Gate:
    """The gate before one tool."""

    def __init__(
        self,
        tool: str,
        contract: Contract[ToolInput],
        input_type: type[ToolInput],
        policy: Policy,
        prompt: Words | None,
        description: Words | None,
        options: WaitOptions | None,
    ) -> None:
        if policy is not True and not callable(policy):
            raise DefinitionError(f"tool {tool}: approval is True, or a function of the input that returns a bool")
        for option, words in (("approval_prompt", prompt), ("approval_description", description)):
            if words is not None and not isinstance(words, str) and not callable(words):
                raise DefinitionError(f"tool {tool}: {option} is a string, or a function of the input that returns one")
        self.tool = tool
        self.always = policy is True
        self._input = contract
        self._policy = cast("Callable[[Any], bool | Awaitable[bool]]", policy)
        self._prompt = prompt
        self._description = description
        self.point: WaitPoint[Any, Any] = WaitPoint(
            GATE, suspend=Question, resume=_decision(tool, input_type), **(options or {})
        )

    async def needed(self, given: ToolInput, timeout: float | None) -> bool:
        """Whether the policy wants this call to be approved. Only a clear no is a no."""
        if self.always:
            return True
        try:
            return await _ask_author(self._policy, given, timeout) is not False
        except Exception:
            logger.exception("the approval policy of tool %s failed; the call needs approval", self.tool)
            return True

    async def question(self, given: ToolInput, stored: Value, timeout: float | None) -> Value:
        """What is shown. The defaults the call relies on are part of it, since they are part of what will run."""
        asked: dict[str, Value] = {
            "prompt": await self._words(self._prompt, given, timeout) or f"Approve {self.tool}?",
            "toolName": self.tool,
            "input": self._complete(given, stored),
        }
        if description := await self._words(self._description, given, timeout):
            asked["description"] = description
        return asked

    async def _words(self, words: Words | None, given: ToolInput, timeout: float | None) -> str | None:
        if words is None or isinstance(words, str):
            return words
        try:
            said = normalise(await _ask_author(words, given, timeout))
            if not isinstance(said, str):
                raise TypeError(f"a string was expected, not {type(said).__name__}")
        except Exception:
            logger.exception("the approval texts of tool %s cannot be made; the input is shown without them", self.tool)
            return None
        return said[:MAX_WORDS]

    def _complete(self, given: ToolInput, stored: Value) -> Value:
        try:
            spelled = self._input.spell(given)
            # A type need not read back what it writes; the call as the model made it always reads as it did.
            return spelled if self._input.parse(spelled) == given else stored
        except (Misfit, ValueRefused):
            return stored


async def admit(tool: Tool, execution: Execution) -> Execution | Suspended | Failure:
    """The execution as the tool is to see it; or the question that must be answered before, or how the call ends."""
    approvals = [visit for visit in execution.history if visit.style == "approval"]
    if approvals:
        return _decided(tool, execution, approvals[-1])
    gate = tool.gate
    # A policy is asked before the tool is entered; where it has let the tool run before a wait, that stands. A gate
    # that is always there also stops a call that began to wait when an earlier build had none.
    begun = bool(execution.history) or not isinstance(execution.entry, InitialEntry)
    if gate is None or (begun and not gate.always):
        return execution
    try:
        given = tool.input.parse(execution.input)
    except Misfit as misfit:
        return Failure(f"The input does not fit {tool.name}: {misfit}")
    if not await gate.needed(given, tool.timeout):
        return execution
    asked = await gate.question(given, execution.input, tool.timeout)
    size = len(encode(asked))
    if size > MAX_SUSPEND_DATA:
        return Failure(f"too-large: approval of {tool.name} would show {size} bytes; the limit is {MAX_SUSPEND_DATA}.")
    point = gate.point
    return Suspended(
        GATE,
        asked,
        point.resume_schema,
        kind=GATE,
        expires_in_ms=point.expires_in_ms,
        on_message=point.on_message,
        audience=point.audience,
        redact=point.redact,
        style="approval",
    )


def _decided(tool: Tool, execution: Execution, visit: VisitData) -> Execution | Failure:
    """Whatever has become of the gate since: the answer to it stands."""
    answer: Any = visit.answer if visit.status == "submitted" else None
    if not isinstance(answer, dict) or answer.get("approved") is not True:
        by = visit.by or {}
        who = by.get("name") or by.get("id") or "whoever was asked"
        comment = answer.get("comment") if isinstance(answer, dict) else None
        return Failure(f"{tool.name} was not approved by {who}" + (f": {comment}" if comment else "."))
    shown = visit.input.get("input") if isinstance(visit.input, dict) else None
    if not isinstance(shown, dict):
        return Failure(f"What was approved of {tool.name} is no longer stored; it is not run.")
    return dataclasses.replace(
        execution,
        input={**shown, **(answer.get("input") or {})},
        history=[earlier for earlier in execution.history if earlier.style != "approval"],
        approval=visit.action,
    )


async def _ask_author(function: Callable[[Any], Any], given: ToolInput, timeout: float | None) -> Any:
    """Call what an author gave, async or not. Raises an ``Exception`` for everything that can go wrong with it."""
    task = asyncio.create_task(_call(function, given))
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not done:
        task.cancel()
        raise TimeoutError(f"no result within {timeout:g} seconds")
    if task.cancelled():
        raise RuntimeError("cancelled from inside")
    return task.result()


async def _call(function: Callable[[Any], Any], given: ToolInput) -> Any:
    try:
        if inspect.iscoroutinefunction(function):
            return await function(given)
        returned = await asyncio.to_thread(function, given)
        return await returned if inspect.isawaitable(returned) else returned
    except (Exception, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # SystemExit would otherwise stop the whole server
        raise RuntimeError(repr(error)) from error


def _decision(tool: str, input_type: type[ToolInput]) -> Any:
    """The type of an answer. An edit names only what it changes; the parameters of a tool are independent of each
    other, so an edit that fits by itself also fits the rest of an input that fitted.
    """
    parameters = dataclasses.fields(cast("Any", input_type))
    edit = _typed_dict(f"{tool}Edit", {field.name: _annotation(field) for field in parameters}, total=False)
    edit.__pydantic_config__ = ConfigDict(title="Changes", json_schema_extra=_without_defaults)
    members: dict[str, Any] = {"approved": bool, "comment": NotRequired[str], "input": NotRequired[edit]}
    return _typed_dict("Approval", members)


def _annotation(field: dataclasses.Field[Any]) -> Any:
    return Annotated[field.type, field.default] if isinstance(field.default, FieldInfo) else field.type


def _without_defaults(schema: dict[str, Any]) -> None:
    schema["description"] = "Only what is to differ from the call."
    # What is left out of an edit stays as it was called; a default would say something else.
    for member in schema.get("properties", {}).values():
        member.pop("default", None)
