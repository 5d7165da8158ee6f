"""``suspend()``: wait for people in the middle of a handler, which runs again from its top and then gets the answer.

Knows the answers this entry already has, in order, and that a handler must ask for them in that order again. How a
wait is stored and who answers it is not known here.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any, TypeVar, overload

from typing_extensions import Unpack

from waitpoint_protocol.values import Value, same

from ..errors import DefinitionError
from .context import ToolContext
from .contract import Contract, Misfit, encode
from .current import current
from .leaving import Abandoned, InlineSuspension
from .outcome import Suspended, VisitData
from .schema import check_schema
from .stored import check_against
from .waitpoint import WaitOptions, check_name, read_options

__all__ = ["MAX_RESPONSE_SCHEMA", "MAX_SUSPEND_DATA", "Answers", "suspend"]

T = TypeVar("T")

MAX_SUSPEND_DATA = 256 * 1024
"""Bytes of UTF-8 JSON."""

MAX_RESPONSE_SCHEMA = 64 * 1024
"""Bytes; the schema of a wait lies in the control state of its thread, which every commit writes."""

_PAYLOAD: Contract[Any] = Contract(Any, "payload of suspend()")


class Answers:
    """The answers to the inline waits of this entry, in the order in which they were asked."""

    def __init__(self, visits: Sequence[VisitData] = ()) -> None:
        self._visits = visits
        self._used = 0
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """How many were given out in this execution."""
        return self._used

    @property
    def last_action(self) -> str | None:
        """The action of the last one that was given out."""
        return self._visits[self._used - 1].action if self._used else None

    def take(self) -> VisitData | None:
        """The next one; ``None`` when the handler has come to a wait that nobody has answered yet."""
        with self._lock:
            if self._used == len(self._visits):
                return None
            self._used += 1
            return self._visits[self._used - 1]


@overload
def suspend(payload: object, kind: str = "input", *, response_schema: type[T], **options: Unpack[WaitOptions]) -> T: ...


@overload
def suspend(
    payload: object, kind: str = "input", response_schema: Any = None, **options: Unpack[WaitOptions]
) -> Any: ...


def suspend(payload: object, kind: str = "input", response_schema: Any = None, **options: Unpack[WaitOptions]) -> Any:
    """Ask people something and return their answer: ``age = suspend({"question": "How old?"}, response_schema=int)``.

    For sync and async tools alike, and never awaited. The call stops here; when an answer was accepted, the handler
    runs again from its top and this very ``suspend()`` returns the answer. So whatever stands before it runs again:
    keep that free of effects, or put it in ``step()``. A handler that asks something else when it runs again ends in a
    ``NondeterministicTool`` error.

    ``payload`` is what clients show, ``kind`` tells them how. ``response_schema`` is enforced by the server: JSON
    Schema as a dict, or a type, which the answer then has here; ``None`` takes any value. Options are those of a
    ``WaitPoint``: ``expires_in``, ``audience``, ``redact``, ``on_message``.
    """
    context = current("suspend()")
    context._require_inside()
    response: _Response | Contract[Any]
    try:
        check_name("kind", kind)
        wait = read_options(f"suspend() of kind {kind}", options)
        response = _response(kind, response_schema)
        asked = _PAYLOAD.spell(payload)
    except DefinitionError as error:
        context._leave(Abandoned(f"{context.tool_name} cannot wait: {error}"))
    except Misfit as misfit:
        context._leave(
            Abandoned(f"{context.tool_name} called suspend() with a payload that has no JSON form: {misfit}")
        )
    except Exception as error:  # a serializer of the author's; whoever catches it here would go on without an answer
        context._leave(Abandoned(f"{context.tool_name} cannot wait: {type(error).__name__}: {error}"))
    _check_size(context, kind, "the payload", asked, MAX_SUSPEND_DATA)
    _check_size(context, kind, "the response schema", response.schema, MAX_RESPONSE_SCHEMA)
    visit = context._answers.take()
    if visit is None:
        context._leave(
            InlineSuspension(
                Suspended(
                    kind,
                    asked,
                    response.schema,
                    kind=kind,
                    expires_in_ms=wait.expires_in_ms,
                    on_message=wait.on_message,
                    audience=wait.audience,
                    redact=wait.redact,
                    style="inline",
                )
            )
        )
    if visit.name != kind or not same(visit.input, asked):
        context._leave(
            Abandoned(
                f"NondeterministicTool: {context.tool_name} asked {_show(kind, asked)} as its wait "
                f"{context._answers.used}, but what was answered there is {_show(visit.name, visit.input)}. A handler "
                "must ask the same in the same order whenever it runs again; take what changes from step()."
            )
        )
    try:
        return response.parse(visit.answer)
    except Misfit as misfit:
        context._leave(
            Abandoned(f"The accepted answer no longer fits the wait of kind {kind} of {context.tool_name}: {misfit}")
        )


class _Response:
    """What may be answered, by JSON Schema."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema

    def parse(self, value: Value) -> Value:
        if errors := check_against(self.schema, value):
            raise Misfit(errors)
        return value


def _response(kind: str, response_schema: Any) -> _Response | Contract[Any]:
    what = f"response schema of kind {kind}"
    if response_schema is None:
        return _Response({})
    if isinstance(response_schema, dict):
        return _Response(check_schema(response_schema, what))
    return Contract(response_schema, what)


def _check_size(context: ToolContext[Any], kind: str, what: str, value: Value, limit: int) -> None:
    size = len(encode(value))
    if size > limit:
        context._leave(
            Abandoned(
                f"too-large: {what} of the wait of kind {kind} of {context.tool_name} has {size} bytes; "
                f"the limit is {limit}."
            )
        )


def _show(kind: str, asked: Value) -> str:
    text = json.dumps(asked, ensure_ascii=False)
    return f"{kind} {text if len(text) <= 300 else text[:300] + '…'}"
