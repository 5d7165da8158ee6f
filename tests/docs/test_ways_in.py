"""docs/http.md and docs/client-tools.md against what is there: requests, statuses, limits, and code that runs."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route

from support import bodiless_chat
from waitpoint import Server, Settings
from waitpoint.http.actions import STATUSES, action_routes
from waitpoint.testing import ChatTester

ROOT = Path(__file__).parents[2]
HTTP = (ROOT / "docs" / "http.md").read_text()
PROTOCOL = (ROOT / "protocol" / "PROTOCOL.md").read_text()
CLIENT_TOOLS = (ROOT / "docs" / "client-tools.md").read_text()


@pytest.mark.parametrize("text", [HTTP, PROTOCOL], ids=["http.md", "PROTOCOL.md"])
def test_the_statuses_told_are_those_that_are_sent(text: str) -> None:
    told: dict[str, set[int]] = {}
    rows = re.findall(r"^\| (4\d\d(?:, 4\d\d)*|503) \| (.+) \|$", text, re.MULTILINE)
    for statuses, codes in rows:
        for code in re.findall(r"`([a-z-]+)`", codes):
            told.setdefault(code, set()).update(map(int, statuses.split(", ")))
    assert told.pop("unauthenticated") == {401}
    assert told.keys() == STATUSES.keys()
    for code, status in STATUSES.items():
        assert status in told[code], code


@pytest.mark.parametrize("text", [HTTP, PROTOCOL], ids=["http.md", "PROTOCOL.md"])
def test_the_requests_told_are_those_that_are_served(text: str) -> None:
    told = set(re.findall(r"^\| `(GET|POST) (/threads/[^`?]*)(?:\?[^`]*)?` \|", text, re.MULTILINE))
    served = set()
    for route in action_routes(lambda: pytest.fail("nothing is asked")):
        assert isinstance(route, Route)
        served |= {(method, route.path) for method in route.methods or () if method != "HEAD"}
    assert told == served


def test_the_methods_told_are_there() -> None:
    for name, arguments in re.findall(r"^\| `(\w+)\(([^)]*)\)` \|", HTTP, re.MULTILINE):
        code: Any = getattr(Server, name).__code__
        given = [argument.split("=")[0].strip() for argument in arguments.split(",")]
        assert [*code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]][: len(given)] == given, name


def test_the_limits_told_are_those_that_hold() -> None:
    assert f"`WAITPOINT_FRAME_BYTES` ({Settings().frame_bytes:,})" in HTTP
    assert f"lapse within {Settings().claim // 1000} seconds (`WAITPOINT_CLAIM`" in CLIENT_TOOLS


async def test_the_webhook_answers_once_however_often_it_comes() -> None:
    [block] = re.findall(r"^```python\n(.*?)^```$", HTTP, re.MULTILINE | re.DOTALL)
    module: dict[str, Any] = {"chat": bodiless_chat.chat}
    exec(compile(ast.parse(block), "docs/http.md", "exec"), module)
    async with ChatTester(bodiless_chat.chat) as t:
        await t.say(json.dumps([[["collectPayment", {"number": 7}]]]))
        thread, [action] = t.state["thread"], t.pending
        for _ in range(2):
            await module["on_payment"](thread, action["id"], True)
        await t.settled()
        assert t.tool("collectPayment")["output"] == {"paid": True}
