"""Random values, events and frames. Ids come from small pools, so that events meet."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from waitpoint_protocol.events import EVENTS, Event
from waitpoint_protocol.values import MAX_SAFE_INTEGER

__all__ = ["client_frames", "event_lists", "events", "names", "threads", "values"]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: not x.is_integer() or abs(x) > 2**53)
    | texts
)
keys = texts | st.sampled_from(["__proto__", "constructor", "toString", "length", "", "0"])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)

names = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=16)
threads = st.text("abcXYZ019._~:@-", min_size=1, max_size=16)
stamps = st.integers(0, 59).map(lambda second: f"2026-12-01T08:00:{second:02d}.000Z")

part_ids = st.sampled_from(["x1", "x2", "x3"])
calls = st.sampled_from(["c1", "c2", "c3"])
actions = st.sampled_from(["a1", "a2", "a3"])
messages_ids = st.sampled_from(["m1", "m2", "m3"])
steps = st.integers(1, 3)
actors = st.sampled_from(
    [
        {"id": "ann", "kind": "person", "name": "Ann"},
        {"id": "bob", "kind": "person"},
        {"id": "system", "kind": "system"},
    ]
)


def _event(type: str, optional: dict[str, Any] | None = None, /, **fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"type": st.just(type), **fields}, optional=optional or {})


user_messages = st.fixed_dictionaries(
    {
        "id": messages_ids,
        "role": st.sampled_from(["user", "assistant", "system"]),
        "parts": st.lists(
            st.fixed_dictionaries({"type": st.just("text"), "text": texts, "state": st.just("done")})
            | st.fixed_dictionaries({"type": st.just("data"), "id": part_ids, "name": texts, "data": values})
            | st.fixed_dictionaries(
                {"type": st.just("file"), "url": texts, "mediaType": texts}, optional={"name": texts}
            ),
            max_size=3,
        ),
        "status": st.just("final"),
        "at": stamps,
    },
    optional={"by": actors},
)
# Not sent by any server, but a fold has to survive it: an added message that is still open.
open_messages = user_messages.map(lambda message: {**message, "status": "open"})

pending_actions = st.fixed_dictionaries(
    {
        "id": actions,
        "name": texts,
        "input": values,
        "schema": st.dictionaries(keys, values, max_size=2),
        "origin": st.fixed_dictionaries(
            {"toolName": texts, "suspendName": texts, "messageId": messages_ids | st.just(""), "toolCallId": calls}
        ),
        "at": stamps,
    },
    optional={"kind": texts, "expiresAt": stamps},
)
resolutions = st.fixed_dictionaries(
    {"how": st.sampled_from(["submitted", "cancelled", "failed", "expired"]), "by": actors, "at": stamps},
    optional={"data": values, "redacted": st.booleans(), "reason": texts, "message": texts},
)
progress = st.fixed_dictionaries({}, optional={"fraction": st.floats(0, 1), "message": texts})

events: st.SearchStrategy[dict[str, Any]] = st.one_of(
    _event("message-added", message=user_messages | open_messages),
    _event("message-queued", message=user_messages),
    _event("message-start", messageId=messages_ids, at=stamps),
    _event("text-start", id=part_ids, step=steps),
    _event("text-delta", id=part_ids, delta=texts),
    _event("text-end", id=part_ids),
    _event("reasoning-start", id=part_ids, step=steps),
    _event("reasoning-delta", id=part_ids, delta=texts),
    _event("reasoning-end", id=part_ids),
    _event("tool-input-start", toolCallId=calls, toolName=texts, step=steps),
    _event("tool-input-delta", toolCallId=calls, inputTextDelta=texts),
    _event("tool-input-available", toolCallId=calls, toolName=texts, step=steps, input=values),
    _event("tool-running", toolCallId=calls, attempt=steps),
    _event("tool-progress", toolCallId=calls, progress=progress),
    _event("action-pending", action=pending_actions),
    _event(
        "action-claimed",
        {"claim": st.fixed_dictionaries({"by": actors, "connection": st.sampled_from(["k1", "k2"])})},
        action=actions,
    ),
    _event("action-resolved", action=actions, toolCallId=calls, resolution=resolutions),
    _event("tool-output-available", toolCallId=calls, output=values),
    _event("tool-output-error", toolCallId=calls, errorText=texts),
    _event("data", {"step": steps}, id=part_ids, name=texts, data=values),
    _event(
        "step-finish", {"usage": st.dictionaries(texts, st.integers(0, 10**9), max_size=2)}, step=steps, reason=texts
    ),
    _event("step-reset", step=steps),
    _event("message-finish", {"errorText": texts}, messageId=messages_ids, reason=texts),
    _event("run-start", run=names, at=stamps),
    _event("run-finish", run=names, status=st.sampled_from(["idle", "waiting"]), at=stamps),
    _event("thread-updated", {"title": texts}),
)


def _parsed(batch: list[dict[str, Any]]) -> list[Event]:
    return EVENTS.validate_json(json.dumps(batch))


OPENED = {"type": "message-start", "messageId": "m1", "at": "2026-12-01T08:00:00.000Z"}

# Most interesting things happen inside an open message.
event_lists = st.tuples(st.sampled_from([[], [OPENED]]), st.lists(events, max_size=30)).map(
    lambda both: _parsed([*both[0], *both[1]])
)

marks = st.text("0123456789abcdef", max_size=8)
cursors = st.fixed_dictionaries({"log": marks, "seq": st.integers(0, 10**9), "tag": marks})
subscriptions = st.fixed_dictionaries({"thread": threads}, optional={"from": cursors})
user_parts = st.one_of(
    _event("text", text=texts.filter(bool)),
    _event("file", {"name": texts}, url=texts.filter(bool), mediaType=texts),
    _event("data", id=names, name=texts, data=values),
)
client_frames: st.SearchStrategy[dict[str, Any]] = st.one_of(
    _event("hello", {"token": texts, "subscribe": st.lists(subscriptions, max_size=3)}),
    _event("auth", token=texts),
    _event("pong"),
    _event("subscribe", {"from": cursors, "id": names}, thread=threads),
    _event("unsubscribe", {"id": names}, thread=threads),
    _event("message", id=names, thread=threads, parts=st.lists(user_parts, min_size=1, max_size=4)),
    _event("submit", id=names, thread=threads, action=names, data=values),
    _event("cancel", {"reason": texts}, id=names, thread=threads, action=names),
    _event(
        "fail", id=names, thread=threads, action=names, error=st.fixed_dictionaries({"message": texts.filter(bool)})
    ),
    _event("claim", id=names, thread=threads, action=names),
    _event("release", id=names, thread=threads, action=names),
    _event("stop", id=names, thread=threads),
    _event("history", {"limit": st.integers(1, 200)}, id=names, thread=threads, before=st.integers(0, 10**9)),
)
