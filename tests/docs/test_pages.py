"""What the pages show is run: every Python block that names its file, together with the others of its page."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from waitpoint import Chat
from waitpoint.testing import ChatTester

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def files(page: str) -> dict[str, str]:
    """The named Python blocks of a page."""
    return dict(_BLOCK.findall((DOCS / page).read_text()))


def load(page: str, name: str, directory: Path) -> Any:
    path = directory / name
    path.write_text(files(page)[name])
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tests_on_the_page_about_testing_pass(tmp_path: Path) -> None:
    shown = files("testing.md")
    assert shown.keys() == {"expenses.py", "test_expenses.py", "test_meanwhile.py"}
    for name, text in shown.items():
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout


async def test_the_agent_on_the_page_about_models_asks_and_goes_on(tmp_path: Path) -> None:
    async with ChatTester(load("models.md", "agent_chat.py", tmp_path).chat) as t:
        await t.say("I want to go away")
        assert t.pending[0]["input"] == {"question": "Which city?"}
        await t.answer("Rome")
        assert t.text == "Let me ask. Rome it is."


@pytest.mark.parametrize(
    ("name", "reply"), [("scripted_chat.py", "I will add.There you are."), ("port_chat.py", "hello")]
)
async def test_the_other_models_on_that_page_answer(tmp_path: Path, name: str, reply: str) -> None:
    async with ChatTester(load("models.md", name, tmp_path).chat) as t:
        assert await t.say("hello") == reply


def test_the_chat_with_a_provider_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    chat = load("models.md", "provider_chat.py", tmp_path).chat
    assert isinstance(chat, Chat)
    assert repr(chat.model) == "PydanticAIModel('openai:gpt-5-mini')"
