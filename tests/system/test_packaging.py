"""The README, the examples, the Procfile and the wheel are files that run."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support.client import Client
from support.process import ROOT, ServerProcess, free_port


async def test_the_readme_example_waits_and_goes_on(redis_url, tmp_path, connect, stack, thread) -> None:  # type: ignore[no-untyped-def]
    readme = (ROOT / "README.md").read_text()
    code = re.search(r"```python\n(# assistant\.py.*?)```", readme, re.S)
    assert code is not None
    (tmp_path / "assistant.py").write_text(code[1])
    server = await stack.enter_async_context(ServerProcess("assistant:chat", redis_url, tmp_path))
    client = await connect(server)
    view = await client.subscribe(thread)
    await client.say(thread, "Send the report")
    await client.until(lambda: view.pending, "the question")
    assert view.pending[0]["name"] == "send_report.approval"
    await client.submit(thread, view.pending[0]["id"], {"approved": True})
    await client.until(lambda: view.idle, "the end")
    assert view.tools[0]["output"] == {"approved": True, "comment": None}
    assert "Done." in view.text


EXAMPLES = {
    "collect_report_details:chat": [("collectReportDetails.collectDetails", {"audience": "Product team"})],
    "draft_report:chat": [
        ("draftReport.collectDetails", {"topics": ["sales"]}),
        ("draftReport.approveDraft", {"approved": True}),
        ("draftReport.attachReferenceFile", {"file_id": "f-1"}),
    ],
    "request_approval:chat": [("requestApproval.approval", {"approved": True, "comment": "Send it."})],
}


@pytest.mark.parametrize("target", EXAMPLES)
async def test_the_examples_run_through_real_sockets(redis_url, tmp_path, connect, stack, thread, target) -> None:  # type: ignore[no-untyped-def]
    server = await stack.enter_async_context(ServerProcess(target, redis_url, tmp_path))
    client = await connect(server)
    view = await client.subscribe(thread)
    await client.say(thread, "go on")
    for name, data in EXAMPLES[target]:
        await client.until(lambda name=name: view.pending and view.pending[0]["name"] == name, name)
        action = view.pending[0]
        await client.submit(thread, action["id"], data)
    await client.until(lambda: view.idle, "the end")
    assert [part["state"] for part in view.tools] == ["output-available"]
    assert len(view.tools[0]["actions"]) == len(EXAMPLES[target])


async def test_the_procfile_runs_two_servers_on_one_store(tmp_path: Path) -> None:
    ports = {"6390": free_port(), "8001": free_port(), "8002": free_port()}
    procfile = (ROOT / "Procfile").read_text()
    for written, free in ports.items():
        assert written in procfile
        procfile = procfile.replace(written, str(free))
    (tmp_path / "Procfile").write_text(procfile)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "honcho.command",
        "start",
        cwd=tmp_path,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        one = await _open_when_up(ports["8001"])
        two = await _open_when_up(ports["8002"])
        view = await one.subscribe("t")
        await one.say("t", "report")
        await one.until(lambda: view.pending, "the question")
        await two.submit("t", view.pending[0]["id"], {"audience": "the board"})
        await one.until(lambda: view.idle, "the end")
        assert "the board" in view.text
        await one.close()
        await two.close()
    finally:
        process.send_signal(signal.SIGTERM)
        output, _ = await asyncio.wait_for(process.communicate(), 40)
    assert b"Traceback" not in output, output.decode()


async def _open_when_up(port: int) -> Client:
    async with asyncio.timeout(30):
        while True:
            try:
                return await Client.open(f"ws://127.0.0.1:{port}/ws")
            except OSError:
                await asyncio.sleep(0.1)


async def _run(*command: str) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await asyncio.wait_for(process.communicate(), 240)
    assert process.returncode == 0, output.decode()
    return output


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(directory), str(ROOT)],
        check=True,
        capture_output=True,
        timeout=240,
    )
    (built,) = directory.glob("*.whl")
    return built


@pytest.mark.timeout(400)
def test_the_wheel_installs_two_packages_and_the_page_with_its_client(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"waitpoint", "waitpoint_protocol"}
    for needed in (
        "waitpoint/web/index.html",
        "waitpoint/client_js/index.js",
        "waitpoint/store/lua/commit.lua",
        "waitpoint/py.typed",
        "waitpoint_protocol/py.typed",
    ):
        assert needed in names
    assert not any("node_modules" in name or "/test/" in name or name.endswith(".test.js") for name in names)


@pytest.mark.timeout(400)
async def test_the_installed_wheel_serves_the_demo_and_its_client_is_a_module(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    await _run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel))
    node = shutil.which("node")
    assert node is not None
    module = site / "waitpoint" / "client_js" / "index.js"
    script = f"import({json.dumps(module.as_uri())}).then(m => console.log(typeof m.WaitpointClient))"
    assert (await _run(node, "-e", script)).strip() == b"function"
    port = free_port()
    # -P and PYTHONPATH: this very wheel, and not the checkout the tests run from.
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-c",
        "import waitpoint, sys; assert waitpoint.__file__.startswith(sys.argv.pop(1)), waitpoint.__file__;"
        "from waitpoint.cli import main; main()",
        str(site),
        "demo",
        "--port",
        str(port),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site), "WAITPOINT_REDIS_URL": ""},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        client = await _open_when_up(port)
        view = await client.subscribe("t")
        await client.say("t", "approve")
        await client.until(lambda: view.pending, "the question")
        await client.close()
    finally:
        process.send_signal(signal.SIGTERM)
        output, _ = await asyncio.wait_for(process.communicate(), 40)
    assert process.returncode == 0, output.decode()
