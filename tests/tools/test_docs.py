"""docs/tools.md says what is there: its code runs, and its numbers are the limits."""

from __future__ import annotations

import ast
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import waitpoint
from tools.calls import CallOf, output
from waitpoint.tools import steps

DOCUMENT = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", DOCUMENT, re.S)


class Ask(BaseModel):
    prompt: str


class Details(BaseModel):
    audience: str


def run(block: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {name: getattr(waitpoint, name) for name in waitpoint.__all__}
    namespace |= {"Ask": Ask, "Details": Details, "timedelta": timedelta}
    namespace["model"] = waitpoint.ScriptedModel(lambda _: ["hello"])
    exec(compile(block, "docs/tools.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), namespace)
    return namespace


def block(containing: str) -> str:
    [found] = [block for block in BLOCKS if containing in block]
    return found


async def test_the_inline_example_asks_and_answers() -> None:
    call = CallOf(run(block("def ask_age"))["ask_age"])
    await call.asks()
    assert call.errors("forty")
    assert output(await call.answer(40)) == 40


async def test_the_wait_point_example_asks_and_answers() -> None:
    call = CallOf(run(block("collectDetails"))["report"], {"report_id": "r"})
    assert (await call.asks()).input == {"prompt": "For whom?"}
    assert output(await call.answer({"audience": "A"})) == {"audience": "A"}


async def test_the_gates_ask_as_written() -> None:
    tools = run(block("def refund"))
    asked = await CallOf(tools["refund"], {"customer": "Ann", "euros": 51}).asks()
    assert asked.input["prompt"] == "Refund 51 euros?"
    asked = await CallOf(tools["delete_branch"], {"repository": "r", "branch": "b"}).asks()
    assert asked.input["prompt"] == "Delete this branch?"


def test_the_ready_made_tools_are_given_to_a_chat() -> None:
    chat = run(block("ask_user_multi, confirm").replace(", ...]", "]"))["chat"]
    assert [tool.name for tool in chat.toolbox] == ["ask_user", "ask_user_multi", "confirm"]


def test_the_limits_are_the_ones_that_hold() -> None:
    assert f"at most {steps.MAX_STEP_RESULT // 1024} KiB" in DOCUMENT
    assert f"at most {steps.MAX_STEPS} steps and {steps.MAX_STEPS_BYTES // 1024**2} MiB" in DOCUMENT


@pytest.mark.parametrize("source", BLOCKS)
def test_every_example_parses(source: str) -> None:
    compile(source, "docs/tools.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_links_within_the_page_lead_somewhere() -> None:
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in DOCUMENT.splitlines()
        if line.startswith("#")
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", DOCUMENT)) <= headings
