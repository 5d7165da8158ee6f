"""Transcripts: conversations as data, and what it means that a frame fits a pattern.

Knows the format of ``protocol/transcripts/*.yaml`` (its README says it in words). Knows no sockets.

A pattern is a value. An object fits if it has at least the pattern's members (``{}`` fits an empty one only); a list
fits if it has the same items, where the item ``...`` stands for any number of others; ``_`` fits anything; ``$name``
fits what that name was first seen as, and names it if it is new; ``$absent`` says that the member must not be there.
Everything else fits itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from waitpoint_protocol.values import Value, same

__all__ = ["ANY", "Step", "Transcript", "differences", "fill", "load"]

TRANSCRIPTS = Path(__file__).resolve().parents[2] / "protocol" / "transcripts"

ANY = "_"
REST = "..."
ABSENT = "$absent"
_NAME = re.compile(r"\$[a-z][a-zA-Z0-9]*")


@dataclass(frozen=True, slots=True)
class Step:
    """One line: ``kind`` is send, frame, event, closed, state or hang-up; ``peer`` which of the connections."""

    kind: str
    peer: str
    value: Value


@dataclass(frozen=True, slots=True)
class Transcript:
    """A conversation: what it shows, the chat it is held with, and its lines."""

    name: str
    title: str
    given: str
    steps: list[Step]
    subprotocols: list[str] = field(default_factory=lambda: ["json", "msgpack"])
    watcher: bool = True
    token: str | None = None


_KINDS = {("c", ">"): "send", ("s", "<"): "frame", ("e", "<"): "event", ("closed", "<"): "closed"}


def load(path: Path) -> Transcript:
    """Read a transcript. Raises ``ValueError`` naming the line that is none."""
    written = yaml.safe_load(path.read_text(encoding="utf-8"))
    unknown = written.keys() - {"title", "given", "steps", "over", "watcher", "token"}
    if unknown:
        raise ValueError(f"{path.name}: unknown {', '.join(sorted(unknown))}")
    return Transcript(
        name=path.stem,
        title=written["title"],
        given=written["given"],
        steps=[_step(path.name, line) for line in written["steps"]],
        subprotocols=written.get("over", ["json", "msgpack"]),
        watcher=written.get("watcher", True),
        token=written.get("token"),
    )


def _step(name: str, line: Value) -> Step:
    if not isinstance(line, dict) or len(line) != 1:
        raise ValueError(f"{name}: a step has one key, like `c>: {{type: pong}}`, not {line!r}")
    [(key, value)] = line.items()
    match = re.fullmatch(r"(c|s|e|closed)(\d*)([<>])", key)
    if match is not None and (match[1], match[3]) in _KINDS:
        return Step(_KINDS[match[1], match[3]], match[2], value)
    match = re.fullmatch(r"(then|hang up)(\d*)", key)
    if match is None:
        raise ValueError(f"{name}: no such step: {key!r}")
    return Step({"then": "state", "hang up": "hang-up"}[match[1]], match[2], value)


def fill(value: Value, known: dict[str, Value]) -> Value:
    """Put known values for their names; ``{repeat: [text, times]}`` is a long text. Raises ``KeyError``."""
    if isinstance(value, str) and _NAME.fullmatch(value) and value != ABSENT:
        return known[value]
    if isinstance(value, list):
        return [fill(item, known) for item in value]
    if isinstance(value, dict):
        if value.keys() == {"repeat"}:
            text, times = value["repeat"]
            return text * times
        return {name: fill(item, known) for name, item in value.items()}
    return value


def differences(pattern: Value, value: Value, known: dict[str, Value], where: str = "$") -> list[str]:
    """Where ``value`` does not fit; nothing if it does, and then ``known`` has its new names."""
    found = dict(known)
    wrong = _differences(pattern, value, found, where)
    if not wrong:
        known.update(found)
    return wrong


def _differences(pattern: Value, value: Value, known: dict[str, Value], where: str) -> list[str]:
    if pattern == ANY and isinstance(pattern, str):
        return []
    if isinstance(pattern, str) and _NAME.fullmatch(pattern):
        if pattern not in known:
            known[pattern] = value
            return []
        pattern = known[pattern]
        return [] if same(pattern, value) else [f"{where} is {value!r}, not {pattern!r}"]
    if isinstance(pattern, dict):
        return _object_differences(pattern, value, known, where)
    if isinstance(pattern, list):
        return _list_differences(pattern, value, known, where)
    return [] if same(pattern, value) else [f"{where} is {value!r}, not {pattern!r}"]


def _object_differences(pattern: dict[str, Value], value: Value, known: dict[str, Value], where: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{where} is {value!r}, not an object"]
    wrong: list[str] = []
    for name, item in pattern.items():
        if item == ABSENT:
            if name in value:
                wrong.append(f"{where}.{name} is there: {value[name]!r}")
        elif name not in value:
            wrong.append(f"{where}.{name} is missing")
        else:
            wrong += _differences(item, value[name], known, f"{where}.{name}")
    # An empty object means just that; one that lists members asks for no more than these.
    return wrong or ([f"{where} is not empty: {value!r}"] if not pattern and value else [])


def _list_differences(pattern: list[Value], value: Value, known: dict[str, Value], where: str) -> list[str]:
    if not isinstance(value, list):
        return [f"{where} is {value!r}, not a list"]
    if REST in pattern:
        at = pattern.index(REST)
        tail = len(pattern) - at - 1
        if len(value) < at + tail:
            return [f"{where} has {len(value)} items, not at least {at + tail}"]
        value = [*value[:at], *value[len(value) - tail :]]
        pattern = [*pattern[:at], *pattern[at + 1 :]]
    elif len(pattern) != len(value):
        return [f"{where} has {len(value)} items, not {len(pattern)}: {value!r}"]
    return [
        line
        for index, (want, got) in enumerate(zip(pattern, value, strict=True))
        for line in _differences(want, got, known, f"{where}[{index}]")
    ]
