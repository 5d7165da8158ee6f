"""The reference fold: how each event changes what a client sees.

Knows state and events; no sockets, no store. Its twin is ``client_js/reduce.js``; vectors, transcripts and a property
test hold both to the same behaviour. ``apply`` mutates the state it is given: it is the hot path of every snapshot.
Whoever hands a state on copies it first.

The fold is total: an event that does not fit (a delta for an unknown part, say) changes nothing, so one bad batch
cannot make a thread unreadable.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import assert_never

from . import events as e
from .state import ActionRecord, DataPart, Message, ReasoningPart, TextPart, ThreadState, ToolPart

__all__ = ["TERMINAL", "apply", "fold", "open_message", "waiting_for"]

TERMINAL = frozenset({"output-available", "output-error"})
"""Tool states that never change again."""


def fold(state: ThreadState, batch: Iterable[e.Event]) -> ThreadState:
    """Apply events in order; returns the same, changed state."""
    for event in batch:
        apply(state, event)
    return state


def open_message(state: ThreadState) -> Message | None:
    """The assistant message that is being written, or ``None``."""
    if state["messages"] and state["messages"][-1]["status"] == "open":
        return state["messages"][-1]
    return None


def waiting_for(state: ThreadState) -> int:
    """How many tool calls of the open message have no result yet. The model goes on when it reaches zero."""
    message = open_message(state)
    if message is None:
        return 0
    return sum(part["type"] == "tool" and part["state"] not in TERMINAL for part in message["parts"])


def apply(state: ThreadState, event: e.Event) -> None:
    """Change ``state`` as ``event`` says."""
    match event:
        case e.TextDelta() | e.ReasoningDelta():
            text = _text(state, event)
            if text is not None and text["state"] == "streaming":
                # While only this name holds it, the text grows in place; else each delta would copy all of it.
                said = text["text"]
                text["text"] = ""
                said += event.delta
                text["text"] = said
        case e.TextStart():
            _add_text(state, {"type": "text", "id": event.id, "step": event.step, "text": "", "state": "streaming"})
        case e.ReasoningStart():
            _add_text(
                state, {"type": "reasoning", "id": event.id, "step": event.step, "text": "", "state": "streaming"}
            )
        case e.TextEnd() | e.ReasoningEnd():
            text = _text(state, event)
            if text is not None:
                text["state"] = "done"
        case e.ToolInputStart() | e.ToolInputDelta() | e.ToolInputAvailable():
            _apply_tool_input(state, event)
        case e.ToolRunning() | e.ToolProgress() | e.ToolOutputAvailable() | e.ToolOutputError():
            _apply_tool(state, event)
        case e.ActionPending() | e.ActionClaimed() | e.ActionResolved():
            _apply_action(state, event)
        case e.MessageAdded() | e.MessageQueued() | e.MessageStart() | e.MessageFinish():
            _apply_message(state, event)
        case e.DataEvent():
            _apply_data(state, event)
        case e.StepFinish():
            pass
        case e.StepReset():
            _reset_step(state, event.step)
        case e.RunStart():
            state["status"] = "running"
        case e.RunFinish():
            state["status"] = event.status
        case e.ThreadUpdated():
            if event.title is not None:
                state["title"] = event.title
        case _:
            assert_never(event)


def _text(
    state: ThreadState, event: e.TextDelta | e.TextEnd | e.ReasoningDelta | e.ReasoningEnd
) -> TextPart | ReasoningPart | None:
    message = open_message(state)
    if message is None:
        return None
    kind = "text" if isinstance(event, (e.TextDelta, e.TextEnd)) else "reasoning"
    for index in range(len(message["parts"]) - 1, -1, -1):
        part = message["parts"][index]
        if (
            (part["type"] == "text" or part["type"] == "reasoning")
            and part["type"] == kind
            and part.get("id") == event.id
        ):
            return part
    return None


def _add_text(state: ThreadState, part: TextPart | ReasoningPart) -> None:
    message = open_message(state)
    if message is not None:
        message["parts"].append(part)


def _tool(state: ThreadState, tool_call_id: str) -> ToolPart | None:
    message = open_message(state)
    if message is None:
        return None
    for index in range(len(message["parts"]) - 1, -1, -1):
        part = message["parts"][index]
        if part["type"] == "tool" and part["toolCallId"] == tool_call_id:
            return part
    return None


def _apply_tool_input(state: ThreadState, event: e.ToolInputStart | e.ToolInputDelta | e.ToolInputAvailable) -> None:
    message = open_message(state)
    if message is None:
        return
    part = _tool(state, event.tool_call_id)
    match event:
        case e.ToolInputDelta():
            if part is not None and part["state"] == "input-streaming":
                written = part.pop("inputText", "")
                written += event.input_text_delta
                part["inputText"] = written
        case e.ToolInputStart():
            if part is None:
                message["parts"].append(
                    {
                        "type": "tool",
                        "toolCallId": event.tool_call_id,
                        "toolName": event.tool_name,
                        "step": event.step,
                        "state": "input-streaming",
                        "inputText": "",
                        "actions": [],
                    }
                )
        case e.ToolInputAvailable():
            if part is None:
                part = {
                    "type": "tool",
                    "toolCallId": event.tool_call_id,
                    "toolName": event.tool_name,
                    "step": event.step,
                    "state": "input-available",
                    "input": event.input,
                    "actions": [],
                }
                message["parts"].append(part)
            elif part["state"] == "input-streaming":
                part.pop("inputText", None)
                part["state"] = "input-available"
                part["toolName"] = event.tool_name
                part["input"] = event.input
        case _:
            assert_never(event)


def _apply_tool(
    state: ThreadState, event: e.ToolRunning | e.ToolProgress | e.ToolOutputAvailable | e.ToolOutputError
) -> None:
    part = _tool(state, event.tool_call_id)
    if part is None or part["state"] in TERMINAL:
        return
    match event:
        case e.ToolRunning():
            part["state"] = "running"
            part["attempt"] = event.attempt
            part.pop("progress", None)
        case e.ToolProgress():
            part["progress"] = event.progress
        case e.ToolOutputAvailable():
            part["state"] = "output-available"
            part["output"] = event.output
            part.pop("progress", None)
        case e.ToolOutputError():
            part["state"] = "output-error"
            part["errorText"] = event.error_text
            part.pop("progress", None)
            part.pop("inputText", None)
        case _:
            assert_never(event)


def _apply_action(state: ThreadState, event: e.ActionPending | e.ActionClaimed | e.ActionResolved) -> None:
    match event:
        case e.ActionPending():
            action = event.action
            if not action["origin"]["messageId"]:  # asked outside any message
                state["pending"].append({**action})
                return
            part = _tool(state, action["origin"]["toolCallId"])
            if part is None or part["state"] in TERMINAL:
                return
            part["state"] = "waiting"
            part.pop("progress", None)
            record: ActionRecord = {
                "id": action["id"],
                "suspendName": action["origin"]["suspendName"],
                "input": action["input"],
                "at": action["at"],
            }
            part["actions"].append(record)
            state["pending"].append({**action})  # a claim must not write into the event
        case e.ActionClaimed():
            for action in state["pending"]:
                if action["id"] == event.action:
                    if event.claim is None:
                        action.pop("claim", None)
                    else:
                        action["claim"] = event.claim
        case e.ActionResolved():
            state["pending"] = [action for action in state["pending"] if action["id"] != event.action]
            part = _tool(state, event.tool_call_id)
            if part is not None:
                for visit in part["actions"]:
                    if visit["id"] == event.action:
                        visit["resolution"] = event.resolution
        case _:
            assert_never(event)


def _apply_message(
    state: ThreadState, event: e.MessageAdded | e.MessageQueued | e.MessageStart | e.MessageFinish
) -> None:
    match event:
        case e.MessageAdded():
            state["queued"] = [message for message in state["queued"] if message["id"] != event.message["id"]]
            if open_message(state) is None:
                state["messages"].append(_apart(event.message))
        case e.MessageQueued():
            state["queued"].append(event.message)
        case e.MessageStart():
            if open_message(state) is None:
                state["messages"].append(
                    {"id": event.message_id, "role": "assistant", "parts": [], "status": "open", "at": event.at}
                )
        case e.MessageFinish():
            message = open_message(state)
            if message is not None and message["id"] == event.message_id:
                message["status"] = "final"
                message["reason"] = event.reason
                if event.error_text is not None:
                    message["errorText"] = event.error_text
                for part in message["parts"]:
                    if part["type"] == "text" or part["type"] == "reasoning":
                        part["state"] = "done"
        case _:
            assert_never(event)


def _apart(message: Message) -> Message:
    # A finished message is never written to and may be shared; one that is open would be, through the event.
    return message if message["status"] == "final" else copy.deepcopy(message)


def _apply_data(state: ThreadState, event: e.DataEvent) -> None:
    message = open_message(state)
    if message is None:
        return
    for part in message["parts"]:
        if part["type"] == "data" and part["id"] == event.id:
            part["name"] = event.name
            part["data"] = event.data
            return
    added: DataPart = {"type": "data", "id": event.id, "name": event.name, "data": event.data}
    if event.step is not None:
        added["step"] = event.step
    message["parts"].append(added)


def _reset_step(state: ThreadState, step: int) -> None:
    """Discard what a cut-off model step streamed. Calls that were complete belong to a finished step and stay."""
    message = open_message(state)
    if message is None:
        return
    message["parts"] = [
        part
        for part in message["parts"]
        if part["type"] == "file"
        or part.get("step") != step
        or (part["type"] == "tool" and part["state"] != "input-streaming")
    ]
