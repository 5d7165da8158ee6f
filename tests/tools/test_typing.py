"""Types flow from the wait point to the answer, in an editor and in CI: by mypy and by pyright, both strict."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
WRONG = HERE / "wrong_use.py"
RIGHT = [HERE / "typed_tools.py", *sorted((ROOT / "examples").glob("*.py"))]
PYRIGHT = ROOT / "client_js" / "node_modules" / ".bin" / "pyright"


def mypy(*files: Path) -> tuple[str, set[tuple[str, int]]]:
    """What mypy says, and the lines with errors."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "pyproject.toml", *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    said = done.stdout + done.stderr
    assert done.returncode in (0, 1), said
    found = re.findall(r"^(\S+?):(\d+): error:", said, re.MULTILINE)
    assert done.returncode == 0 or found, said
    return said, {(Path(path).name, int(line)) for path, line in found}


def pyright() -> tuple[int, dict[str, set[int]], str]:
    """How many files pyright checked, the lines with errors by file, and what it says."""
    assert PYRIGHT.exists(), "pyright is missing: run npm install in client_js (make test does)"
    command = [str(PYRIGHT), "-p", str(HERE / "pyrightconfig.json"), "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    report = json.loads(done.stdout)
    lines: dict[str, set[int]] = {}
    for found in report["generalDiagnostics"]:
        lines.setdefault(Path(found["file"]).name, set()).add(found["range"]["start"]["line"] + 1)
    said = "\n".join(
        f"{d['file']}:{d['range']['start']['line'] + 1}: {d['message']}" for d in report["generalDiagnostics"]
    )
    return report["summary"]["filesAnalyzed"], lines, said


def mistakes() -> set[int]:
    marked = {number for number, line in enumerate(WRONG.read_text().splitlines(), 1) if "# wrong:" in line}
    assert len(marked) >= 13
    return marked


def test_mypy_sees_the_type_of_every_answer_in_the_examples() -> None:
    said, found = mypy(*RIGHT)
    assert not found, said


def test_mypy_finds_every_wrong_use_and_nothing_else() -> None:
    said, found = mypy(WRONG)
    assert found == {(WRONG.name, line) for line in mistakes()}, said


def test_pyright_sees_the_types_in_the_examples_and_finds_every_wrong_use_and_nothing_else() -> None:
    checked, found, said = pyright()
    assert checked == len(RIGHT) + 1, said
    assert found == {WRONG.name: mistakes()}, said
