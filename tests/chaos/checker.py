"""Judges a recorded history against the promises. Pure: a history in, sentences about what was broken out.

It does not look for plausible behaviour but for proof of the opposite: two effects of one command, an answer that a
tool saw and nobody gave, an entry that no fault explains, two events at one position.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from .history import Command, Fault, History, Observer

__all__ = ["check", "resolutions", "takeovers"]

DISRUPTIVE = frozenset({"kill", "pause", "drain", "store-restart", "store-pause", "link-freeze", "link-slow"})
"""Faults that may cost a driver its lease. A cut connection alone must not."""

MODEL_GAVE_UP = "giving up."


def check(history: History, *, lease: float) -> list[str]:
    """Everything that is wrong; an empty list is what a run is for. ``lease`` is in seconds."""
    resolved = resolutions(history)
    return [
        *history.complaints,
        *history.leftovers,
        *(f"unexpected exception in a server's log:\n{text}" for text in history.tracebacks),
        *_gaps(history),
        *_commands(history, resolved),
        *_effects_of_messages(history),
        *_one_resolution(history),
        *_tools_saw(history, resolved),
        *_entries(history, lease),
        *_results(history),
        *_ends(history),
        *_convergence(history),
    ]


# --- the log


def _events(history: History) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, positions in history.events.items():
        for seq in sorted(positions):
            yield name.rpartition("/")[0], json.loads(positions[seq])


def resolutions(history: History) -> dict[str, dict[str, Any]]:
    """How each action ended, by its id, as the log has it."""
    return {event["action"]: event["resolution"] for _, event in _events(history) if event["type"] == "action-resolved"}


def _gaps(history: History) -> Iterator[str]:
    for name, positions in history.events.items():
        missing = sorted(set(range(1, max(positions) + 1)) - set(positions))
        if missing:
            yield f"{name}: no client was ever sent positions {missing[:5]} ({len(missing)} in all)"
    logs = Counter(name.rpartition("/")[0] for name in history.events)
    for thread, count in logs.items():
        if count > 1:
            yield f"{thread}: has had {count} logs, and nothing was flushed"


def _one_resolution(history: History) -> Iterator[str]:
    asked: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    for thread, event in _events(history):
        if event["type"] == "action-pending":
            asked[f"{thread} {event['action']['id']}"] += 1
        elif event["type"] == "action-resolved":
            ended[f"{thread} {event['action']}"] += 1
    for action in asked.keys() | ended.keys():
        if (asked[action], ended[action]) != (1, 1):
            yield f"{action}: asked {asked[action]} times, resolved {ended[action]} times"


# --- commands


def _commands(history: History, resolved: dict[str, dict[str, Any]]) -> Iterator[str]:
    winners: dict[str, list[str]] = defaultdict(list)
    for command in history.commands.values():
        acks, refusals = command.acks, command.refusals
        if acks and refusals:
            yield f"{command.id} ({command.kind}): both accepted and refused ({refusals[0]['code']})"
        if len({json.dumps({**ack, "dup": None}, sort_keys=True) for ack in acks}) > 1:
            yield f"{command.id}: its repeats got different replies: {acks}"
        if acks and command.action is not None:
            winners[command.action].append(command.id)
        for refusal in refusals:
            yield from _refusal(command, refusal, resolved)
        if acks:
            yield from _accepted(command, resolved)
    for action, ids in winners.items():
        if len(ids) > 1:
            yield f"{action}: {len(ids)} commands were told that they resolved it: {ids}"


def _accepted(command: Command, resolved: dict[str, dict[str, Any]]) -> Iterator[str]:
    if command.kind == "invalid":
        yield f"{command.id}: an answer against the schema was accepted"
    if command.action is None or command.kind == "invalid":
        return
    ended = resolved.get(command.action)
    if ended is None:
        yield f"{command.id}: acknowledged, and {command.action} was never resolved: the answer is lost"
        return
    expected = {
        "submit": ("submitted", (ended.get("data") or {}).get("nonce")),
        "cancel": ("cancelled", ended.get("reason")),
        "fail": ("failed", ended.get("message")),
    }[command.kind]
    if (ended["how"], command.nonce) != expected:
        yield f"{command.id}: acknowledged ({command.kind} {command.nonce}), but the log says {ended}"


def _refusal(command: Command, refusal: dict[str, Any], resolved: dict[str, dict[str, Any]]) -> Iterator[str]:
    code = refusal["code"]
    ended = resolved.get(command.action or "")
    match code:
        case "already-resolved":
            if ended is None or refusal.get("winner", {}).get("how") != ended["how"]:
                yield f"{command.id}: told {refusal.get('winner')}, but the log says {ended}"
        case "expired":
            # A stop may cancel what has expired and was not yet written down as such.
            if ended is None or ended["how"] not in ("expired", "cancelled"):
                yield f"{command.id}: told that it expired, but the log says {ended}"
        case "invalid":
            if command.kind != "invalid":
                yield f"{command.id}: a good answer was called invalid: {refusal}"
        case "busy" | "waiting":
            if command.kind != "message":
                yield f"{command.id} ({command.kind}): refused with {code}"
        case _:
            yield f"{command.id} ({command.kind}): refused with {code}: {refusal['message']}"


def _effects_of_messages(history: History) -> Iterator[str]:
    said: Counter[str] = Counter()
    for messages in history.messages.values():
        for message in messages:
            if message["role"] == "user":
                said[json.loads(message["parts"][0]["text"])["nonce"]] += 1
    for command in history.commands.values():
        if command.kind != "message":
            continue
        times = said[command.nonce]
        if command.acks and times != 1:
            yield f"{command.id}: an acknowledged message is there {times} times"
        elif command.refusals and times:
            yield f"{command.id}: a refused message is there all the same"
        elif times > 1:
            yield f"{command.id}: a message is there {times} times"


# --- tools


def _tools_saw(history: History, resolved: dict[str, dict[str, Any]]) -> Iterator[str]:
    for entry in history.journal:
        if entry["kind"] != "enter" or entry["action"] is None:
            continue
        ended = resolved.get(entry["action"])
        if ended is None or ended["how"] != "submitted":
            yield f"{entry['call']}: entered with an answer to {entry['action']}, which ended as {ended}"
        elif ended["data"]["nonce"] != entry["answer"]:
            yield f"{entry['call']}: saw {entry['answer']}, but {ended['data']} was accepted"


def _entries(history: History, lease: float) -> Iterator[str]:
    places: dict[tuple[str, str, str | None], list[dict[str, Any]]] = defaultdict(list)
    for entry in history.journal:
        if entry["kind"] == "enter":
            places[entry["thread"], entry["call"], entry["action"]].append(entry)
    for (thread, call, action), entries in places.items():
        entries.sort(key=lambda entry: (entry["attempt"], entry["at"]))
        where = f"{thread} {entries[0]['tool']} {call} (answer to {action})" if action else f"{thread} {call}"
        if entries[0]["tool"] == "once" and len(entries) > 1:
            yield f"{where}: a tool that is to run at most once was entered {len(entries)} times"
        if len({entry["key"] for entry in entries}) > 1:
            yield f"{where}: its idempotency key changed between attempts"
        for before, after in pairwise(entries):
            kinds = {fault.kind for fault in _faults_between(history, before, after, lease)}
            if before["at"] > after["at"]:
                yield f"{where}: attempt {after['attempt']} began before attempt {before['attempt']}"
            elif before["attempt"] == after["attempt"] and "drain" not in kinds:
                yield f"{where}: entered twice as attempt {after['attempt']}, and nothing was drained"
            elif not kinds & DISRUPTIVE:
                yield f"{where}: entered again after {after['at'] - before['at']:.2f} s, and no fault explains it"


def _faults_between(history: History, before: dict[str, Any], after: dict[str, Any], lease: float) -> Iterator[Fault]:
    instance = before.get("instance")
    for fault in history.faults:
        hit = fault.instance is None or instance is None or fault.instance == instance
        if hit and fault.started <= after["at"] and (fault.ended or after["at"]) + lease >= before["at"]:
            yield fault


def takeovers(history: History, *, undisturbed: bool = False) -> list[float]:
    """Seconds from the death or pause of a driver to the next entry of each tool call that it had cut off.

    ``undisturbed``: only those during which nothing else was wrong with the store or with another instance.
    """
    places: dict[tuple[str, str, str | None], list[dict[str, Any]]] = defaultdict(list)
    ended = {
        (line["thread"], line["call"], line["action"], line["attempt"], line["pid"])
        for line in history.journal
        if line["kind"] == "leave"
    }
    for entry in history.journal:
        if entry["kind"] == "enter":
            places[entry["thread"], entry["call"], entry["action"]].append(entry)
    taken: list[float] = []
    for place, entries in places.items():
        entries.sort(key=lambda entry: entry["at"])
        for before, after in pairwise(entries):
            if (*place, before["attempt"], before["pid"]) in ended:
                continue
            deaths = [
                fault.started
                for fault in history.faults
                if fault.kind in ("kill", "pause") and fault.pid == before["pid"]
                if before["at"] <= fault.started <= after["at"]
            ]
            if deaths and not (undisturbed and _others_suffered(history, before, deaths[0], after["at"])):
                taken.append(after["at"] - deaths[0])
    return taken


def _others_suffered(history: History, cut_off: dict[str, Any], since: float, until: float) -> bool:
    return any(
        fault.kind in DISRUPTIVE and fault.pid != cut_off["pid"] and fault.started <= until and fault.ended >= since
        for fault in history.faults
    )


# --- the end


def _results(history: History) -> Iterator[str]:
    for thread, messages in history.messages.items():
        for message in messages:
            if message["role"] != "assistant":
                continue
            said = message.get("errorText", "")
            if message.get("reason") == "error" and not said.endswith(MODEL_GAVE_UP):
                yield f"{thread}: a turn ended in an error: {said}"
            for part in message["parts"]:
                if part["type"] == "tool":
                    yield from _result(thread, part)


def _result(thread: str, part: dict[str, Any]) -> Iterator[str]:
    answers = [
        record["resolution"]["data"]["nonce"]
        for record in part.get("actions", ())
        if record["resolution"]["how"] == "submitted"
    ]
    if part["state"] == "output-available":
        if part["toolName"].startswith("ask") and part["output"] != answers[-1]:
            yield f"{thread} {part['toolCallId']}: returned {part['output']}, but was answered {answers}"
    elif part["state"] == "output-error":
        known = (
            "Stopped by ",
            "Stopped before the call was complete.",
            " was cancelled by ",
            " failed: ",
            " expired: ",
        )
        crashed = part["toolName"] == "once" and "The server" in part["errorText"]
        if not crashed and not any(text in part["errorText"] for text in known):
            yield f"{thread} {part['toolCallId']}: ended in an error: {part['errorText']}"
    else:
        yield f"{thread} {part['toolCallId']}: its message is finished, and it is {part['state']}"


def _ends(history: History) -> Iterator[str]:
    for thread, final in history.finals.items():
        state = final.state
        if state["status"] != "idle" or state["pending"] or state["queued"]:
            left = f"{len(state['pending'])} pending, {len(state['queued'])} queued"
            yield f"{thread}: does not come to rest: {state['status']}, {left}"


def _convergence(history: History) -> Iterator[str]:
    for observer in history.observers:
        final = history.finals[observer.thread]
        if observer.cursor != final.cursor:
            yield f"{observer.name}: ended at {observer.cursor}, the thread at {final.cursor}"
        elif _recent(observer, final) != _recent(final, final):
            yield f"{observer.name}: its state differs from a fresh snapshot at the same position"


def _recent(observer: Observer, like: Observer) -> dict[str, Any]:
    """What both must show: a client that was there all the time has more messages than a page."""
    shown = len(like.state["messages"])
    total = observer.state["before"] + len(observer.state["messages"])
    recent = observer.state["messages"][-shown:] if shown else []
    return {**observer.state, "messages": recent, "before": total - shown}
