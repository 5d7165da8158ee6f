"""A pydantic-ai response stream as model events.

Knows parts and their deltas. Calls are handed over when the whole answer is there: parallel calls come interleaved, and
the end of a part is only known for sure at the end of the stream.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai.messages import (
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import StreamedResponse

from waitpoint_protocol.values import Value

from ..port import (
    Finish,
    ModelError,
    ModelEvent,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolInputDelta,
    ToolInputStart,
)

__all__ = ["to_events"]

REASONS = {"stop": "stop", "length": "length", "content_filter": "content-filter", "tool_call": "tool-calls"}

USAGE = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_tokens": "cacheReadTokens",
    "cache_write_tokens": "cacheWriteTokens",
}


async def to_events(response: StreamedResponse) -> AsyncIterator[ModelEvent]:
    """Events of one answer, ending with ``Finish``. What the stream raises passes through."""
    ids: dict[int, str] = {}
    async for event in response:
        match event:
            case PartStartEvent(index=index, part=ToolCallPart() as call):
                # Providers may send the id late; the one we begin with is the one we keep.
                ids[index] = call.tool_call_id
                yield ToolInputStart(call.tool_call_id, call.tool_name)
                if call.args:
                    yield ToolInputDelta(call.tool_call_id, _written(call.args))
            case PartStartEvent(part=TextPart(content=text)) if text:
                yield TextDelta(text)
            case PartStartEvent(part=ThinkingPart(content=text)) if text:
                yield ReasoningDelta(text)
            case PartDeltaEvent(delta=TextPartDelta(content_delta=text)) if text:
                yield TextDelta(text)
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=text)) if text:
                yield ReasoningDelta(text)
            case PartDeltaEvent(index=index, delta=ToolCallPartDelta(args_delta=args)) if args and index in ids:
                yield ToolInputDelta(ids[index], _written(args))
            case _:
                pass  # parts of tools that the provider runs itself, and markers
    answer = response.get()
    if answer.finish_reason == "error":
        raise ModelError("the model's provider broke off its answer", retryable=True)
    if refusal := (answer.provider_details or {}).get("refusal"):
        yield TextDelta(str(refusal))
    for index, part in enumerate(answer.parts):
        if isinstance(part, ToolCallPart) and index in ids:
            yield ToolCall(ids[index], part.tool_name, _input(part.args))
    yield _finish(answer, bool(ids))


def _finish(answer: ModelResponse, calls: bool) -> Finish:
    reason = REASONS.get(answer.finish_reason or "stop", "stop")
    if calls and reason == "stop":
        reason = "tool-calls"  # some providers say "stop" whatever they did
    counted = {ours: int(getattr(answer.usage, theirs, 0) or 0) for theirs, ours in USAGE.items()}
    return Finish(reason, {name: count for name, count in counted.items() if count} or None)


def _written(args: str | dict[str, Any]) -> str:
    return args if isinstance(args, str) else json.dumps(args, ensure_ascii=False)


def _input(args: Any) -> Value:
    """The call's input; text that is no JSON is kept as it is, and the tool's schema refuses it in words."""
    if not isinstance(args, str):
        return args or {}
    if not args.strip():
        return {}
    try:
        return json.loads(args)
    except ValueError:
        return args
