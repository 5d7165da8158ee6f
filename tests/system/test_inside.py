"""Application code speaks to threads in its own process: the same rules, and the same values on all four ways in."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
import uvicorn
from pydantic import BaseModel

from conformance import chats as conformance
from support import chats
from support.client import Client
from waitpoint import Chat, Identity, Refusal, Server, Settings
from waitpoint_protocol.values import same

ASK = json.dumps([[["approve", {"label": "x"}]]])


@pytest.fixture
async def serve(redis_url: str) -> AsyncIterator[Callable[..., Any]]:
    """Start servers in this process; application code is in this process, too."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(chat: Chat = chats.chat, **settings: Any) -> Server:
            server = Server(chat, Settings(redis_url=redis_url, rate=100_000, **settings))
            await server.start()
            stack.push_async_callback(server.stop)
            return server

        yield start


async def until(server: Server, thread: str, condition: Callable[[Any], Any]) -> Any:
    """Read the state until it fits."""
    async with asyncio.timeout(15):
        while not condition(state := await server.state(thread)):
            await asyncio.sleep(0.02)
    return state


async def ask(server: Server, thread: str, script: str = ASK) -> str:
    await server.say(thread, script)
    return str((await until(server, thread, lambda state: state["pending"]))["pending"][0]["id"])


class Yes(BaseModel):
    approved: bool = True
    comment: str | None = None


async def test_the_application_asks_answers_and_reads(serve, thread) -> None:  # type: ignore[no-untyped-def]
    server = await serve()
    action = await ask(server, thread)
    with pytest.raises(Refusal) as bad:
        await server.submit(thread, action, {"approved": 1})
    assert (bad.value.code, bad.value.errors[0].path) == ("invalid", ["approved"])
    ack = await server.submit(thread, action, Yes(comment="fine"), id="mine")
    assert (ack.action, ack.dup) == (action, None)
    assert (await server.submit(thread, action, Yes(comment="fine"), id="mine")).dup is True
    state = await until(server, thread, lambda state: state["status"] == "idle")
    part = state["messages"][1]["parts"][0]
    assert part["output"] == {"label": "x", "approved": True, "comment": "fine"}
    assert part["actions"][0]["resolution"]["by"] == {"id": "application", "kind": "system"}
    with pytest.raises(Refusal) as late:
        await server.cancel(thread, action)
    assert late.value.code == "already-resolved"
    assert late.value.winner is not None
    assert late.value.winner["how"] == "submitted"


async def test_the_application_cancels_fails_and_ends_a_turn(serve, thread) -> None:  # type: ignore[no-untyped-def]
    server = await serve()
    for n, (end, how) in enumerate(
        [
            (lambda t, a: server.cancel(t, a, reason="no need"), "cancelled"),
            (lambda t, a: server.fail(t, a, "no camera"), "failed"),
            (lambda t, a: server.end_turn(t), "cancelled"),
        ]
    ):
        name = f"{thread}-{n}"
        action = await ask(server, name)
        await end(name, action)
        state = await until(server, name, lambda state: state["status"] == "idle")
        assert state["messages"][1]["parts"][0]["actions"][0]["resolution"]["how"] == how


async def test_a_value_that_does_not_fit_the_data_model_is_refused_before_anything_is_sent(serve, thread) -> None:  # type: ignore[no-untyped-def]
    server = await serve()
    action = await ask(server, thread)
    for value in (float("nan"), 2**60, {1: 2}, {"x": {1, 2}}, b"x", "\ud800"):
        with pytest.raises(Refusal) as refused:
            await server.submit(thread, action, {"approved": True, "comment": value})
        assert refused.value.code == "bad-frame"
    assert len((await server.state(thread))["pending"]) == 1


async def test_acting_for_somebody_asks_the_hook_and_acting_as_the_application_does_not(serve, thread) -> None:  # type: ignore[no-untyped-def]
    server = await serve(conformance.guarded)
    mine = f"ann.{thread}"
    await server.say(mine, "confirm", identity=Identity("ann"))
    action = (await until(server, mine, lambda state: state["pending"]))["pending"][0]["id"]
    with pytest.raises(Refusal) as refused:
        await server.submit(mine, action, True, identity=Identity("bob"))
    assert refused.value.code == "not-found"
    await server.submit(mine, action, True)
    await until(server, mine, lambda state: state["status"] == "idle")


# --- case 8

ANSWER = {
    "text": 'Größe 𝄞 \u2028 \x00 " \\ \x7f',
    "numbers": [0, -0.0, 1.0, 1.5, -1e-300, 2**53 - 1, -(2**53) + 1, 1e22, 0.1 + 0.2],
    "constants": [True, False, None, "", [], {}, [[]], [{}]],
    "keys": {"": 1, "ключ": 2, "a.b": 3, "__proto__": 4},
    "rows": [{"id": n, "name": f"row {n}", "tags": ["a", {"deep": [n, [n, [n]]]}]} for n in range(1500)],
}
DEEP: Any = "bottom"
for _ in range(40):
    DEEP = {"d": [DEEP]} if _ % 2 else [DEEP]
ANSWER["deep"] = DEEP


async def test_a_large_nested_answer_is_the_same_value_on_all_four_ways(serve, thread, journal, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("WAITPOINT_TEST_JOURNAL", str(journal.path))
    server = await serve()
    async with listening(server) as port:
        url = f"ws://127.0.0.1:{port}/ws"

        async def by_socket(name: str, action: str, subprotocol: str) -> None:
            async with await Client.open(url, subprotocol=subprotocol) as client:
                await client.submit(name, action, ANSWER)

        async def by_http(name: str, action: str) -> None:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
                reply = await client.post(f"/threads/{name}/actions/{action}/submit", json={"data": ANSWER})
                assert reply.status_code == 200, reply.text[:500]

        ways: dict[str, Callable[[str, str], Any]] = {
            "json": lambda name, action: by_socket(name, action, "waitpoint.v1.json"),
            "msgpack": lambda name, action: by_socket(name, action, "waitpoint.v1.msgpack"),
            "http": by_http,
            "python": lambda name, action: server.submit(name, action, ANSWER),
        }
        got = {}
        for way, send in ways.items():
            name = f"{thread}-{way}"
            action = await ask(server, name, json.dumps([[["value", {"kind": "any"}]]]))
            await send(name, action)
            state = await until(server, name, lambda state: state["status"] == "idle")
            got[way] = state["messages"][1]["parts"][0]["output"]["got"]
    seen_by_tools = [entry["data"] for entry in journal.entries("value")]
    assert len(seen_by_tools) == len(ways)
    assert len(json.dumps(ANSWER)) > 100_000
    for way, value, seen in zip(ways, got.values(), seen_by_tools, strict=True):
        assert same(value, ANSWER), way
        assert json.dumps(seen, sort_keys=True) == json.dumps(seen_by_tools[0], sort_keys=True), way
        assert same(seen, ANSWER), way


@contextlib.asynccontextmanager
async def listening(server: Server) -> AsyncIterator[int]:
    """The server on a port of its own."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        server.asgi(), ws="websockets-sansio", ws_ping_interval=None, lifespan="off", log_level="error"
    )
    web = _Uvicorn(config)
    serving = asyncio.create_task(web.serve(sockets=[listener]))
    try:
        async with asyncio.timeout(10):
            while not web.started:
                await asyncio.sleep(0.01)
        yield listener.getsockname()[1]
    finally:
        web.should_exit = True
        await serving
        listener.close()


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield  # signals are the test runner's
