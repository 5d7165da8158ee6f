"""PROTOCOL.md against what is there: rules are numbered, witnesses exist, no frame, event, code or limit is missing."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest

from protocol.data import PROTOCOL
from waitpoint.cli import MAX_MESSAGE
from waitpoint.hub.limits import Limits, Sizes
from waitpoint.thread.decide import Rules
from waitpoint_protocol.codec import MAX_FRAMES
from waitpoint_protocol.codes import REFUSAL_CODES, Close, ResetWhy
from waitpoint_protocol.events import TYPES
from waitpoint_protocol.schema import schemas
from waitpoint_protocol.values import MAX_DEPTH

TEXT = (PROTOCOL / "PROTOCOL.md").read_text(encoding="utf-8")
RULES = {
    int(number): rule
    for number, rule in re.findall(r"^\*\*P-(\d+)\*\* (.+?)(?=\n\n|\Z)", TEXT, re.MULTILINE | re.DOTALL)
}


def test_rules_are_numbered_without_a_gap() -> None:
    assert list(RULES) == list(range(1, len(RULES) + 1))
    assert len(RULES) > 70


NOT_SHOWN = {67}


@pytest.mark.parametrize("number", sorted(RULES.keys() - NOT_SHOWN))
def test_every_rule_names_who_shows_it_and_that_is_there(number: int) -> None:
    rule = RULES[number]
    shown = re.split(r"\*Shown\s+by\*", rule)
    assert len(shown) == 2, "a rule ends with *Shown by* and its witnesses"
    witnesses = re.findall(r"`([a-z_]+/[^`]+)`", shown[1])
    assert witnesses or "every transcript" in shown[1]
    for path in witnesses:
        inside = PROTOCOL if path.split("/")[0] in ("vectors", "transcripts", "schema") else PROTOCOL.parent
        assert (inside / path).is_file(), path


def test_files_named_anywhere_are_there() -> None:
    for path in re.findall(r"`((?:vectors|transcripts)/[a-z-]+\.[a-z]+)`", TEXT):
        assert (PROTOCOL / path).is_file(), path


def test_every_transcript_shows_some_rule() -> None:
    unused = [p.name for p in (PROTOCOL / "transcripts").glob("*.yaml") if f"transcripts/{p.name}" not in TEXT]
    assert sorted(unused) == sorted(OTHERS)


# Conversations that show promises of the tools rather than a rule of the wire.
OTHERS = [
    "mixed-calls.yaml",
    "parallel-calls.yaml",
    "redacted-answer.yaml",
    "subscriptions-limit.yaml",
    "three-waits-rejected.yaml",
]


def tags(name: str) -> set[str]:
    return {
        shape["properties"]["type"]["const"]
        for shape in schemas()[name]["$defs"].values()
        if "const" in shape.get("properties", {}).get("type", {})
    }


def test_every_frame_and_event_is_described() -> None:
    parts = {"text", "file", "data", "tool", "reasoning"}
    for frame in (tags("client-frames") | tags("server-frames")) - TYPES - parts:
        assert f'"type": "{frame}"' in TEXT, frame
    for event in TYPES:
        described = f"`{event}`" in TEXT or (
            event.startswith("reasoning-") and f"`{event.removeprefix('reasoning')}`" in TEXT
        )
        assert described, event


def test_every_code_is_described() -> None:
    for code in REFUSAL_CODES:
        assert f"| `{code}` |" in TEXT, code
    for why in get_args(ResetWhy):
        assert f"| `{why}` |" in TEXT, why
    for close in Close:
        assert re.search(rf"^\| (\d+, )?{close.value}(, \d+)? \|", TEXT, re.MULTILINE), close


def number(value: float) -> str:
    return f"{value:,.0f}"


@pytest.mark.parametrize(
    ("what", "values"),
    [
        ("bytes of a message (`frameBytes`)", [Limits().frame_bytes]),
        ("bytes of a message that is read at all", [MAX_MESSAGE]),
        ("frames in a message", [MAX_FRAMES]),
        ("nesting of a value (`depth`)", [MAX_DEPTH]),
        ("threads followed per connection (`subscriptions`)", [Limits().subscriptions]),
        ("commands without a reply yet, per connection", [Limits().in_flight]),
        ("`history` without a reply yet, per connection", [Limits().histories]),
        ("frames per second, on average; at once", [Limits().rate, Limits().burst]),
        ("rate-limited frames before it is a flood", [Limits().patience, Limits().patience / 10]),
        ("messages queued in a thread", [Rules().queue_messages, Rules().queue_bytes]),
        ("time for `hello`", [Limits().hello_timeout]),
        ("time between pings (`heartbeat`)", [Limits().heartbeat]),
        ("time for a sign of life after a ping", [Limits().grace]),
        ("time for the client to take what is sent", [Limits().send_timeout]),
        ("finished messages in a snapshot", [Sizes().page]),
        ("time until a claim of a dead server lapses", [Rules().claim / 1000]),
    ],
)
def test_the_limits_told_are_those_that_hold(what: str, values: list[Any]) -> None:
    row = next(line for line in TEXT.splitlines() if line.startswith(f"| {what} |"))
    told = re.findall(r"[\d,]*\d", row.split("|")[2])
    assert told == [number(value) for value in values]


def test_examples_are_json_where_they_say_so() -> None:
    validators = {name: tags(name) for name in ("client-frames", "server-frames")}
    blocks = re.findall(r"```json\n(.+?)```", TEXT, re.DOTALL)
    assert len(blocks) > 15
    for block in blocks:
        for type in re.findall(r'^\{"type": "([a-z]+)"', block, re.MULTILINE):
            assert type in validators["client-frames"] | validators["server-frames"], type
