"""Threads over plain HTTP, against real server processes: the same commands, the same winners, the same refusals."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from support.client import Client, Refusal
from support.process import ServerProcess
from waitpoint_protocol.codes import REFUSAL_CODES

ASK = json.dumps([[["approve", {"label": "x"}]]])


class Web:
    """A plain HTTP client of one server."""

    def __init__(self, server: ServerProcess, headers: dict[str, str] | None = None) -> None:
        self.http = httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", headers=headers, timeout=15)

    async def post(self, path: str, body: Any = None, *, key: str | None = None, **headers: str) -> httpx.Response:
        keyed = {} if key is None else {"Idempotency-Key": key}
        content = body if isinstance(body, (str, bytes)) else json.dumps({} if body is None else body)
        kind = {"Content-Type": "application/json"}
        return await self.http.post(path, content=content, headers={**kind, **keyed, **headers})

    async def get(self, path: str, **params: Any) -> httpx.Response:
        return await self.http.get(path, params=params)

    async def submit(self, thread: str, action: str, data: Any, key: str | None = None) -> httpx.Response:
        return await self.post(f"/threads/{thread}/actions/{action}/submit", {"data": data}, key=key)

    async def state(self, thread: str) -> Any:
        reply = await self.get(f"/threads/{thread}")
        assert reply.status_code == 200, reply.text
        return reply.json()["state"]

    async def until(self, thread: str, condition: Callable[[Any], Any], what: str) -> Any:
        """Read the state until it fits."""
        async with asyncio.timeout(15):
            while True:
                state = await self.state(thread)
                if condition(state):
                    return state
                await asyncio.sleep(0.02)
        raise AssertionError(what)

    async def ask(self, thread: str, script: str = ASK) -> str:
        """Say something that makes one tool wait; the action's id."""
        said = await self.post(f"/threads/{thread}/messages", {"parts": [{"type": "text", "text": script}]})
        assert said.status_code == 200, said.text
        state = await self.until(thread, lambda state: state["pending"], "a pending action")
        return str(state["pending"][0]["id"])


@pytest.fixture
async def web(a: ServerProcess) -> AsyncIterator[Web]:
    client = Web(a)
    async with client.http:
        yield client


async def test_a_tool_is_asked_and_answered_over_http_alone(web, thread, journal) -> None:  # type: ignore[no-untyped-def]
    action = await web.ask(thread)
    bad = await web.submit(thread, action, {"approved": "yes"})
    assert (bad.status_code, bad.json()["code"]) == (422, "invalid")
    assert [error["path"] for error in bad.json()["errors"]] == [["approved"]]
    good = await web.submit(thread, action, {"approved": True}, key="click-1")
    assert (good.status_code, good.json()["action"], good.json()["id"]) == (200, action, "click-1")
    assert good.headers["idempotency-key"] == "click-1"
    state = await web.until(thread, lambda state: state["status"] == "idle", "idle")
    assert state["messages"][1]["parts"][0]["output"] == {"label": "x", "approved": True, "comment": None}
    again = await web.submit(thread, action, {"approved": True}, key="click-1")
    assert (again.status_code, again.json()["dup"]) == (200, True)
    other = await web.submit(thread, action, {"approved": False}, key="click-1")
    assert (other.status_code, other.json()["code"]) == (422, "id-conflict")
    late = await web.submit(thread, action, {"approved": True})
    assert (late.status_code, late.json()["code"]) == (409, "already-resolved")
    assert late.json()["winner"]["how"] == "submitted"
    assert journal.count("approved") == 1


@pytest.mark.parametrize(
    ("verb", "body", "how"),
    [
        ("cancel", {"reason": "no need"}, "cancelled"),
        ("cancel", {}, "cancelled"),
        ("fail", {"error": {"message": "no"}}, "failed"),
    ],
)
async def test_cancel_and_fail_end_an_action(web, thread, verb, body, how) -> None:  # type: ignore[no-untyped-def]
    action = await web.ask(thread)
    reply = await web.post(f"/threads/{thread}/actions/{action}/{verb}", body)
    assert reply.status_code == 200, reply.text
    state = await web.until(thread, lambda state: state["status"] == "idle", "idle")
    part = state["messages"][1]["parts"][0]
    assert (part["state"], part["actions"][0]["resolution"]["how"]) == ("output-error", how)


async def test_stop_ends_the_turn(web, thread) -> None:  # type: ignore[no-untyped-def]
    action = await web.ask(thread)
    assert (await web.post(f"/threads/{thread}/stop")).status_code == 200
    state = await web.until(thread, lambda state: state["status"] == "idle", "idle")
    assert state["messages"][1]["reason"] == "stopped"
    assert (await web.submit(thread, action, {"approved": True})).json()["code"] == "already-resolved"


async def test_an_answer_by_http_and_one_by_websocket_have_one_winner(connect, a, b, journal) -> None:  # type: ignore[no-untyped-def]
    """Case 2, WebSocket against HTTP, through two instances."""
    socket, rounds, won = await connect(a), 40, set()
    web = Web(b)
    async with web.http:
        for n in range(rounds):
            thread = f"http-race-{n}-{secrets.token_hex(3)}"
            view = await socket.subscribe(thread)
            await socket.say(thread, ASK)
            await socket.until(lambda view=view: view.pending, "a pending action")
            action = view.pending[0]["id"]
            # Each way starts first half of the time: it wins then, or the losers would all be of one kind.
            by_socket, by_http = await _both(
                n % 2 == 0,
                _outcome(socket, thread, action, {"approved": True, "comment": "socket"}),
                web.submit(thread, action, {"approved": True, "comment": "http"}),
            )
            http_won = by_http.status_code == 200
            assert http_won == isinstance(by_socket, Refusal), (by_socket, by_http.text)
            lost = by_socket.frame if http_won else by_http.json()
            assert lost["code"] == "already-resolved"
            assert lost["winner"]["how"] == "submitted"
            await socket.until(lambda view=view: view.idle, "idle")
            won.add(view.tools[0]["output"]["comment"])
            assert (view.tools[0]["output"]["comment"] == "http") == http_won
            await socket.command("unsubscribe", thread=thread)
    assert journal.count("approved") == rounds
    assert won == {"socket", "http"}


async def _outcome(client: Client, thread: str, action: str, data: Any) -> Any:
    try:
        return await client.submit(thread, action, data)
    except Refusal as refusal:
        return refusal


async def _both(swap: bool, one: Any, two: Any) -> Any:
    if swap:
        second, first = await asyncio.gather(two, one)
        return first, second
    return await asyncio.gather(one, two)


async def test_what_is_said_over_http_is_followed_over_a_websocket(connect, web, a, thread) -> None:  # type: ignore[no-untyped-def]
    socket = await connect(a)
    view = await socket.subscribe(thread)
    said = await web.post(f"/threads/{thread}/messages", {"parts": [{"type": "text", "text": "hello"}]}, key='"quoted"')
    assert said.json()["id"] == "quoted"
    await socket.until(lambda: view.idle and view.knows(said.json()["message"]), "the answer")
    assert view.text == "You said: hello"
    read = (await web.get(f"/threads/{thread}")).json()
    assert read["state"] == view.state
    assert read["cursor"] == view.cursor


async def test_a_page_of_messages_is_read(web, thread) -> None:  # type: ignore[no-untyped-def]
    for n in range(3):
        await web.post(f"/threads/{thread}/messages", {"parts": [{"type": "text", "text": f"m{n}"}]})
        await web.until(
            thread, lambda state, n=n: len(state["messages"]) == 2 * n + 2 and state["status"] == "idle", "idle"
        )
    page = (await web.get(f"/threads/{thread}/messages", before=4, limit=2)).json()
    assert page["before"] == 2
    assert [message["parts"][0]["text"] for message in page["messages"]] == ["m1", "You said: m1"]
    for bad in ({"before": "x"}, {}, {"before": 1, "limit": 0}, {"before": 1, "after": 2}, {"before": "9" * 400}):
        reply = await web.get(f"/threads/{thread}/messages", **bad)
        assert (reply.status_code, reply.json()["code"]) == (400, "bad-frame"), bad


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ("{", 400, "not JSON"),
        ("[]", 400, "object"),
        ('{"data": NaN}', 400, "NaN"),
        ('{"data": 9007199254740993}', 400, "integer"),
        ('{"data": 1, "data": 2}', 400, "twice"),
        ('{"data": "\\ud800"}', 400, "surrogate"),
        (b'{"data": "\xff"}', 400, "UTF-8"),
        ("{}", 400, "missing"),
        ('{"data": 1, "colour": "red"}', 400, "no such field"),
        ('{"data": 1, "thread": "other"}', 400, "path"),
        ('{"data": ' + "[" * 70_000 + "]" * 70_000 + "}", 400, "deep"),
        ('{"data": "' + "é" * 140_000 + '"}', 413, "limit"),
        (b'{"data": "' + b"x" * 4_000_000 + b'"}', 413, "limit"),
    ],
    ids=lambda value: str(value)[:20],
)
async def test_a_bad_body_is_refused_by_name_and_nothing_is_written(web, thread, body, status, said) -> None:  # type: ignore[no-untyped-def]
    action = await web.ask(thread)
    before = (await web.get(f"/threads/{thread}")).json()
    reply = await web.post(f"/threads/{thread}/actions/{action}/submit", body)
    assert reply.status_code == status, reply.text[:300]
    assert reply.json()["code"] == ("too-large" if status == 413 else "bad-frame")
    assert said in reply.text
    assert len(reply.text) < 2000
    after = (await web.get(f"/threads/{thread}")).json()
    assert after["state"]["pending"] == before["state"]["pending"]


async def test_a_body_that_never_says_its_length_is_cut_at_the_limit(web, a, thread) -> None:  # type: ignore[no-untyped-def]
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'{"data": "'
        while sent < 50_000_000:
            sent += 65_536
            yield b"x" * 65_536

    try:
        reply = await web.http.post(
            f"/threads/{thread}/actions/a/submit", content=endless(), headers={"Content-Type": "application/json"}
        )
        assert reply.status_code == 413
    except (httpx.WriteError, httpx.ReadError):
        pass  # the server hung up on us, which says the same
    assert sent < 50_000_000
    assert (await web.get(f"/threads/{thread}")).status_code == 200


async def test_only_json_is_taken_so_a_strangers_page_cannot_post_a_form(web, thread) -> None:  # type: ignore[no-untyped-def]
    path, body = f"/threads/{thread}/messages", '{"parts": [{"type": "text", "text": "x"}]}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        reply = await web.http.post(path, content=body, headers={"Content-Type": kind} if kind else {})
        assert (reply.status_code, reply.json()["code"]) == (415, "bad-frame"), kind
    foreign = await web.post(path, body, Origin="https://evil.example")
    assert (foreign.status_code, foreign.json()["code"]) == (403, "forbidden")
    own = await web.post(path, body, Origin=str(web.http.base_url).rstrip("/"))
    assert own.status_code == 200
    assert "access-control-allow-origin" not in own.headers


async def test_wrong_names_keys_and_methods_get_definite_answers(web, thread) -> None:  # type: ignore[no-untyped-def]
    for key in ("", "with space", "x" * 200, '""'):
        reply = await web.post(f"/threads/{thread}/stop", key=key)
        assert (reply.status_code, reply.json()["code"]) == (400, "bad-frame"), key
    reply = await web.get("/threads/no%20name")
    assert (reply.status_code, reply.json()["code"]) == (400, "bad-frame")
    assert (await web.post(f"/threads/{thread}")).status_code == 405
    assert (await web.submit(thread, "made-up", 1)).json()["code"] == "unknown-action"
    made = await web.post(f"/threads/{thread}/stop")
    assert made.json()["id"] == made.headers["idempotency-key"]


async def test_who_may_not_gets_what_the_socket_would_say(server, stack, thread) -> None:  # type: ignore[no-untyped-def]
    guarded = await stack.enter_async_context(server("g", "conformance.chats:guarded"))
    ann = Web(guarded, {"Authorization": "Bearer ann"})
    bob = Web(guarded, {"authorization": "bearer bob"})
    nobody = Web(guarded)
    mallory = Web(guarded, {"Authorization": "Bearer mallory"})
    for web in (ann, bob, nobody, mallory):
        await stack.enter_async_context(web.http)
    mine, text = f"ann.{thread}", {"parts": [{"type": "text", "text": "confirm"}]}
    for web in (nobody, mallory):
        for reply in (await web.get(f"/threads/{mine}"), await web.post(f"/threads/{mine}/messages", text)):
            assert (reply.status_code, reply.json()["code"]) == (401, "unauthenticated")
            assert reply.headers["www-authenticate"] == "Bearer"
    assert (await ann.post(f"/threads/{mine}/messages", text)).status_code == 200
    state = await ann.until(mine, lambda state: state["pending"], "a pending action")
    action = state["pending"][0]["id"]
    strangers = [
        await bob.get(f"/threads/{mine}"),
        await bob.get("/threads/ann.nothing"),
        await bob.submit(mine, action, True),
        await bob.submit("ann.nothing", action, True),
        await bob.post(f"/threads/{mine}/messages", text),
        await bob.get(f"/threads/{mine}/messages", before=5),
    ]
    assert {(reply.status_code, reply.json()["code"], reply.json()["message"]) for reply in strangers} == {
        (404, "not-found", "no such thread, or none that you may see")
    }
    shared = f"shared.{thread}"
    await ann.post(f"/threads/{shared}/messages", text)
    state = await bob.until(shared, lambda state: state["pending"], "a pending action")
    refused = await bob.submit(shared, state["pending"][0]["id"], True)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert (await ann.submit(mine, action, True)).status_code == 200
    state = await ann.until(mine, lambda state: state["status"] == "idle", "idle")
    assert state["messages"][1]["parts"][0]["actions"][0]["resolution"]["by"]["id"] == "ann"


def test_every_refusal_has_a_status() -> None:
    from waitpoint.http.actions import STATUSES

    assert set(STATUSES) == set(REFUSAL_CODES)
    assert all(400 <= status < 600 for status in STATUSES.values())
