"""A store that is down at start-up, and one that goes away later."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from support.client import Refusal
from support.process import ServerProcess, free_port
from support.servers import start_server
from system.conftest import CHAT
from system.test_answers import ask


async def test_a_store_that_is_down_at_start_up_is_named_without_its_password(tmp_path: Path) -> None:
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "waitpoint.cli",
        "demo",
        "--port",
        "0",
        "--redis-url",
        f"redis://ann:hunter2@127.0.0.1:{port}/0",
        env={"WAITPOINT_STORE_WAIT": "200", "PATH": ""},
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 30)
    text = output.decode()
    assert process.returncode == 1
    assert f"127.0.0.1:{port}" in text
    assert "WAITPOINT_REDIS_URL" in text
    assert "hunter2" not in text
    assert "Traceback" not in text


@pytest.mark.parametrize("policy", ["allkeys-lru"])
async def test_a_store_that_would_evict_threads_is_refused(tmp_path: Path, policy: str) -> None:
    with start_server("valkey", tmp_path, options=["--maxmemory-policy", policy]) as redis:
        server = ServerProcess(CHAT, redis.url, tmp_path)
        with pytest.raises(AssertionError, match="exited with 1"):
            await server.start()
        assert "noeviction" in server.output()
        assert "Traceback" not in server.output()


async def test_commands_are_told_unavailable_and_the_server_recovers_by_itself(tmp_path: Path) -> None:
    with start_server("valkey", tmp_path) as redis:
        async with ServerProcess(CHAT, redis.url, tmp_path, WAITPOINT_RATE="100000", WAITPOINT_LEASE="1500") as server:
            from support.client import Client

            client = await Client.open(server.url)
            view = await client.subscribe("t")
            (action,) = await ask(client, "t")
            redis.kill()
            with pytest.raises(Refusal) as refused:
                await client.submit("t", action, {"approved": True}, id="once")
            assert refused.value.code == "unavailable"
            assert refused.value.frame["retryMs"] > 0
            assert client.closed is None
            redis.start()
            for _ in range(50):
                try:
                    ack = await client.submit("t", action, {"approved": True}, id="once")
                    break
                except Refusal as refusal:
                    if refusal.code != "unavailable":
                        raise
                    await asyncio.sleep(refusal.frame["retryMs"] / 1000)
            else:
                raise AssertionError("the store is back and the command still is not accepted")
            assert ack["type"] == "ack"
            await client.until(lambda: view.idle and view.tools[0]["state"] == "output-available", "the end")
            await client.say("t", json.dumps(["still here"]))
            await client.until(lambda: view.idle and "still here" in view.text, "business as usual")
            await client.close()
            assert "Traceback" not in server.output()
