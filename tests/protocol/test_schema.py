"""Generated schemas: fresh, strict about tags, closed for the server and open for clients."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from protocol.data import PROTOCOL
from waitpoint_protocol.schema import schemas, stale, write

SCHEMAS = schemas()


def members(schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(name, shape) for name, shape in schema["$defs"].items() if "properties" in shape]


def test_the_schema_files_say_what_the_shapes_say() -> None:
    assert stale(PROTOCOL / "schema") == [], "run: python -m waitpoint_protocol.schema"


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_itself_valid(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_tag_is_required_and_nothing_absent_is_null(name: str) -> None:
    for shape, schema in members(SCHEMAS[name]):
        tag = schema["properties"].get("type", {})
        if "const" in tag:
            assert "type" in schema["required"], shape
        assert '"null"' not in json.dumps(schema), shape


def test_client_frames_are_closed_and_what_the_server_sends_is_open() -> None:
    for name, closed in (("client-frames", True), ("server-frames", False), ("events", False), ("state", False)):
        for shape, schema in members(SCHEMAS[name]):
            assert (schema.get("additionalProperties") is False) is closed, shape


def test_stale_files_are_named_and_written_once(tmp_path: Path) -> None:
    assert len(write(tmp_path)) == 4
    assert write(tmp_path) == []
    (tmp_path / "events.json").write_text("{}")
    assert [path.name for path in stale(tmp_path)] == ["events.json"]


def run(*arguments: str, package: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "waitpoint_protocol.schema", *arguments],
        capture_output=True, text=True, check=False, cwd=package, env={"PYTHONPATH": str(package)},
    )  # fmt: skip


def test_check_fails_for_a_stale_file_and_says_what_to_run(tmp_path: Path) -> None:
    checkout = tmp_path / "protocol"
    shutil.copytree(PROTOCOL / "waitpoint_protocol", checkout / "waitpoint_protocol")
    (checkout / "schema").mkdir()
    (checkout / "vectors").mkdir()
    refused = run("--check", package=checkout)
    assert refused.returncode == 1
    assert "events.json is stale; run python -m waitpoint_protocol.schema" in refused.stdout
    assert run(package=checkout).returncode == 0
    assert run("--check", package=checkout).returncode == 0


def test_an_installed_package_says_that_there_is_no_checkout(tmp_path: Path) -> None:
    shutil.copytree(PROTOCOL / "waitpoint_protocol", tmp_path / "waitpoint_protocol")
    refused = run("--check", package=tmp_path)
    assert refused.returncode == 2
    assert "source checkout" in refused.stderr
