"""What the command line says to wrong uses: what is wrong and what to do, without a traceback of ours."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from waitpoint.cli import main
from waitpoint.settings import Settings

MODULES = {
    "cl_good": "from waitpoint import Chat, ScriptedModel\nhelper = Chat(ScriptedModel(['hi']))\nnumber = 3\n",
    "cl_none": "number = 3\n",
    "cl_syntax": "def broken(:\n",
    "cl_needs": "import surely_not_installed\n",
    "cl_raises": "def make():\n    raise RuntimeError('no key')\n\nmake()\n",
    "cl_model": "from waitpoint import Chat\nchat = Chat(['hi'])\n",
    "cl_tool": "from waitpoint import tool\n\n@tool\ndef search(words) -> str:\n    return ''\n",
}


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("cl_good", "'cl_good' is not MODULE:CHAT, for example shop.assistant:chat"),
        ("cl_missing:chat", "there is no module 'cl_missing' in "),
        ("cl_good.py:helper", "'cl_good.py' is a file and not a module; did you mean cl_good:helper?"),
        ("./shop/assistant.py:chat", "did you mean shop.assistant:chat?"),
        ("cl_good:chat", "module 'cl_good' has no 'chat'; did you mean cl_good:helper?"),
        ("cl_none:chat", "module 'cl_none' has no 'chat' and no other waitpoint.Chat either"),
        ("cl_good:number", "cl_good:number is of type int, not a waitpoint.Chat"),
        ("cl_tool:chat", "cl_tool: tool search, parameter words: annotate it"),
        ("cl_model:chat", "cl_model: a list is no model for a chat: it has no stream(); pass "),
        ("cl_syntax:chat", "def broken(:"),
        ("cl_needs:chat", "No module named 'surely_not_installed'"),
        ("cl_raises:chat", "RuntimeError: no key"),
    ],
)
def test_a_chat_that_cannot_be_loaded_is_told_in_words(modules: None, target: str, said: str) -> None:
    result = CliRunner().invoke(main, ["serve", target])
    assert result.exit_code in (1, 2)
    assert said in result.output
    assert "importlib" not in result.output
    assert "cli.py" not in result.output


def test_the_lines_that_lead_to_an_error_of_the_module_are_shown(modules: None) -> None:
    result = CliRunner().invoke(main, ["serve", "cl_raises:chat"])
    assert "cl_raises cannot be imported" in result.output
    assert [line for line in ("line 4, in <module>", "line 2, in make") if line not in result.output] == []


def test_help_says_what_each_command_does() -> None:
    _, commands = CliRunner().invoke(main, ["--help"]).output.split("Commands:")
    assert "Serve a chat of yours." in commands
    assert "..." not in commands


def test_misspelled_settings_are_pointed_out_and_those_of_others_are_not() -> None:
    environment = {"WAITPOINT_LAESE": "1", "WAITPOINT_REDIS_ULR": "x", "WAITPOINT_LEASE": "1000", "WAITPOINT_MINE": "1"}
    assert Settings.doubtful(environment) == [
        "there is no setting WAITPOINT_LAESE; did you mean WAITPOINT_LEASE?",
        "there is no setting WAITPOINT_REDIS_ULR; did you mean WAITPOINT_REDIS_URL?",
    ]


def test_valkey_says_where_it_cannot_keep_data(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = CliRunner().invoke(main, ["valkey", "--data-dir", str(tmp_path / "file")])
    assert result.exit_code == 1
    assert "Choose another --data-dir" in result.output
