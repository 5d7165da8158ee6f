"""Types flow from the wait point to the answer, in an author's editor and in CI."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_strict_checker_sees_the_type_of_every_answer_and_finds_mistakes() -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", "pyproject.toml", "tests/tools/typed_tools.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
