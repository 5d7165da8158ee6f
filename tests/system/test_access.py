"""Promise 10 on every verb: who may not see a thread sees none, and nobody reads another's replies or answers."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from support.client import Client, Refusal
from support.servers import RedisServer
from support.standing import StandingServer, standing
from system.conversations import SOON, outcome, wait_for_actions
from waitpoint_protocol.codes import Close


@pytest.fixture(scope="module")
def guarded(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandingServer]:
    with standing("support.guarded_chat:chat", redis_server.url, tmp_path_factory.mktemp("guarded")) as server:
        yield server


@pytest.fixture
def sign_in(connect: Any, guarded: StandingServer) -> Any:
    async def open_as(name: str, **options: Any) -> Client:
        client: Client = await connect(guarded, hello={"token": name}, **options)
        return client

    return open_as


def of(*owners: str, kind: str = "") -> str:
    """A thread that belongs to these people."""
    return f"{'.'.join(owners)}~{secrets.token_hex(5)}{kind}"


def told(refusal: Refusal, *names: str) -> dict[str, Any]:
    """A refusal without what the asker chose."""
    text = json.dumps({key: value for key, value in refusal.frame.items() if key not in ("id", "thread")})
    for name in names:
        text = text.replace(name, "NAME")
    return json.loads(text)  # type: ignore[no-any-return]


VERBS: dict[str, dict[str, Any]] = {
    "message": {"parts": [{"type": "text", "text": "hello"}]},
    "submit": {"action": "ACTION", "data": True},
    "cancel": {"action": "ACTION"},
    "fail": {"action": "ACTION", "error": {"message": "x"}},
    "claim": {"action": "ACTION"},
    "release": {"action": "ACTION"},
    "stop": {},
    "history": {"before": 10, "limit": 10},
    "subscribe": {},
}


@pytest.mark.parametrize("verb", VERBS)
async def test_a_foreign_thread_looks_like_none(sign_in, verb) -> None:  # type: ignore[no-untyped-def]
    ann, eve = await sign_in("ann"), await sign_in("eve")
    theirs = of("ann")
    (action,) = await wait_for_actions(ann, theirs, [["ask", {"point": "open"}]])
    view = ann.views[theirs]
    await ann.until(lambda: view.state["status"] == "waiting", "the run to end")
    before = dict(view.cursor)

    async def attempt(thread: str, chosen: str) -> dict[str, Any]:
        fields = {key: chosen if value == "ACTION" else value for key, value in VERBS[verb].items()}
        with pytest.raises(Refusal) as refused:
            await eve.command(verb, thread=thread, **fields)
        return told(refused.value, chosen)

    existing = await attempt(theirs, action)
    absent = await attempt(of("ann"), "a_madeup")
    assert existing == absent
    assert existing["code"] == "not-found"
    fresh = await (await sign_in("ann")).subscribe(theirs)
    assert fresh.cursor == before, "a refusal writes nothing"
    assert eve.views.get(theirs) is None or eve.views[theirs].snapshots == 0
    await ann.submit(theirs, action, True)


async def test_a_hello_that_names_foreign_threads_learns_nothing_of_them(sign_in, guarded) -> None:  # type: ignore[no-untyped-def]
    ann = await sign_in("ann")
    theirs, none, own = of("ann"), of("ann"), of("eve")
    await ann.say(theirs, "secret")
    view = await ann.subscribe(theirs)
    cursor = dict(view.cursor)
    wanted = [{"thread": theirs, "from": cursor}, {"thread": none}, {"thread": own}]
    eve = await Client.open(guarded.url, hello={"token": "eve", "subscribe": wanted})
    async with eve:
        await eve.until(lambda: own in eve.views and eve.views[own].live, "the own thread")
        await eve.until(lambda: sum(frame["type"] == "reject" for frame in eve.frames) == 2, "two refusals")
        refusals = [frame for frame in eve.frames if frame["type"] == "reject"]
        assert {frame["thread"] for frame in refusals} == {theirs, none}
        assert {frame["code"] for frame in refusals} == {"not-found"}
        assert len({frame["message"] for frame in refusals}) == 1
        await ann.say(theirs, "more")
        await eve.say(own, "mine")
        assert not [frame for frame in eve.frames if frame.get("thread") == theirs and frame["type"] != "reject"]


async def test_a_reader_may_follow_and_page_but_not_speak_answer_or_stop(sign_in) -> None:  # type: ignore[no-untyped-def]
    ann, bob = await sign_in("ann"), await sign_in("bob")
    shared = of("ann", "bob", kind="~ro")
    (action,) = await wait_for_actions(ann, shared, [["ask", {"point": "open"}]])
    view = await bob.subscribe(shared)
    assert [pending["id"] for pending in view.pending] == [action]
    assert (await bob.command("history", thread=shared, before=10))["page"]["messages"]
    for verb, fields in VERBS.items():
        if verb in ("history", "subscribe"):
            continue
        chosen = {key: action if value == "ACTION" else value for key, value in fields.items()}
        with pytest.raises(Refusal) as refused:
            await bob.command(verb, thread=shared, **chosen)
        assert refused.value.code == "forbidden", verb
    await ann.submit(shared, action, True)
    await bob.until(lambda: view.idle, "idle", deadline=SOON)


async def test_the_hook_and_the_audience_decide_who_answers_which_action(sign_in) -> None:  # type: ignore[no-untyped-def]
    ann, bob = await sign_in("ann"), await sign_in("bob")
    shared = of("ann", "bob")
    script = [["ask", {"point": "private"}], ["ask", {"point": "forBob"}]]
    await wait_for_actions(ann, shared, script, waits=2)
    view = ann.views[shared]
    private = next(action["id"] for action in view.pending if action["name"] == "ask.private")
    for_bob = next(action["id"] for action in view.pending if action["name"] == "ask.forBob")
    for verb in ("submit", "cancel", "fail", "claim"):
        fields = {key: value for key, value in VERBS[verb].items() if key != "action"}
        for client, action in ((bob, private), (ann, for_bob)):
            with pytest.raises(Refusal) as refused:
                await client.command(verb, thread=shared, action=action, **fields)
            assert refused.value.code == "forbidden"
    # Wrong data from somebody who may not answer says nothing of the schema.
    with pytest.raises(Refusal) as refused:
        await bob.submit(shared, private, "nonsense")
    assert refused.value.code == "forbidden"
    assert "errors" not in refused.value.frame
    await bob.submit(shared, for_bob, True)
    await ann.submit(shared, private, True)
    await ann.until(lambda: view.idle, "idle", deadline=SOON)
    assert [part["output"] for part in view.tools] == ["answered by ann", "answered by bob"]


async def test_command_ids_of_others_are_not_answered(sign_in) -> None:  # type: ignore[no-untyped-def]
    ann, bob = await sign_in("ann"), await sign_in("bob")
    shared = of("ann", "bob")
    first = await ann.say(shared, "mine", id="the-same-id")
    view = await ann.subscribe(shared)
    await ann.until(lambda: view.idle, "idle", deadline=SOON)
    second = await bob.say(shared, "mine", id="the-same-id")
    assert "dup" not in second
    assert second["message"] != first["message"]
    again = await ann.say(shared, "mine", id="the-same-id")
    assert again["dup"] is True
    assert again["message"] == first["message"]


async def test_identities_and_command_ids_are_never_read_as_one_another(sign_in) -> None:  # type: ignore[no-untyped-def]
    """``x`` with the id ``y:1`` is not ``x:y`` with the id ``1``."""
    long, short = await sign_in("ann:eve"), await sign_in("ann")
    shared = f"ann:eve.ann~{secrets.token_hex(4)}"
    first = await long.say(shared, "hello", id="1")
    second = await short.say(shared, "hello", id="eve:1")
    assert "dup" not in second
    assert second["message"] != first["message"]


async def test_a_redacted_answer_appears_nowhere(sign_in, guarded, redis_server) -> None:  # type: ignore[no-untyped-def]
    ann, bob = await sign_in("ann"), await sign_in("bob", subprotocol="waitpoint.v1.msgpack")
    shared = of("ann", "bob")
    (action,) = await wait_for_actions(ann, shared, [["ask", {"point": "secret"}]])
    watching = await bob.subscribe(shared)
    secret = f"hunter-{secrets.token_hex(8)}"
    with pytest.raises(Refusal):
        await ann.submit(shared, action, {"wrong": secret})
    ack = await ann.submit(shared, action, secret)
    assert secret not in json.dumps(ack)
    late = await outcome(bob.submit(shared, action, "other"))
    await bob.until(lambda: watching.idle, "idle", deadline=SOON)
    await ann.until(lambda: ann.views[shared].idle, "idle", deadline=SOON)
    assert late.code == "already-resolved"
    (record,) = watching.tools[0]["actions"]
    assert record["resolution"]["redacted"] is True
    fresh = await sign_in("bob")
    await fresh.subscribe(shared)
    page = await fresh.command("history", thread=shared, before=10)
    assert secret not in json.dumps([bob.frames, fresh.frames, page])
    assert secret not in json.dumps([frame for frame in ann.frames if frame["type"] != "reject"])
    assert secret not in guarded.output()
    store = redis.Redis.from_url(redis_server.url)
    try:
        kept = [key for key in store.scan_iter(f"wp:*:*:{shared}") if secret.encode() in everything(store, key)]
        assert kept == [], "after the turn the answer is gone from the store too"
    finally:
        store.close()


def everything(store: redis.Redis, key: bytes) -> bytes:
    """What a key holds, of whatever type, as one text."""
    match store.type(key):
        case b"hash":
            return b"\n".join(part for pair in store.hgetall(key).items() for part in pair)  # type: ignore[union-attr]
        case b"list":
            return b"\n".join(store.lrange(key, 0, -1))  # type: ignore[arg-type]
        case b"stream":
            return repr(store.xrange(key)).encode()
        case b"zset":
            return repr(store.zrange(key, 0, -1)).encode()
        case other:
            raise AssertionError(f"{key!r} is a {other!r}")


async def test_an_answer_and_the_message_after_it_keep_their_order(sign_in) -> None:  # type: ignore[no-untyped-def]
    """A hook that takes its time over the answer must not let the message behind it abandon the wait."""
    ann = await sign_in("ann")
    for kind in ("", "~slow"):
        own = of("ann", kind=kind)
        (action,) = await wait_for_actions(ann, own, [["ask", {"point": "open"}]])
        view = ann.views[own]
        await ann.send({"type": "submit", "id": f"s{own}", "thread": own, "action": action, "data": True})
        await ann.send(
            {"type": "message", "id": f"m{own}", "thread": own, "parts": [{"type": "text", "text": "and thanks"}]}
        )
        await ann.until(lambda view=view: view.idle and "and thanks" in view.text, "both turns", deadline=SOON)
        (record,) = view.state["messages"][1]["parts"][0]["actions"]
        assert record["resolution"]["how"] == "submitted"


async def greeted(url: str, **hello: Any) -> int | None:
    """How a hello ends: with this close code, or (``None``) with a welcome."""
    async with connect(url, subprotocols=[Subprotocol("waitpoint.v1.json")]) as socket:
        await socket.send(json.dumps({"type": "hello", **hello}))
        try:
            await asyncio.wait_for(socket.recv(), SOON)
        except ConnectionClosed:
            return socket.close_code
        return None


@pytest.mark.parametrize("token", ["odd:surrogate-id", "odd:surrogate-name", "odd:dict", "odd:raises"])
async def test_a_hook_that_breaks_closes_the_connection_for_now(guarded, token) -> None:  # type: ignore[no-untyped-def]
    assert await greeted(guarded.url, token=token) == Close.INTERNAL_ERROR


async def test_without_a_good_token_nobody_gets_in(guarded) -> None:  # type: ignore[no-untyped-def]
    assert await greeted(guarded.url) == Close.UNAUTHENTICATED
    assert await greeted(guarded.url, token="") == Close.UNAUTHENTICATED
    assert await greeted(guarded.url, token="ann") is None
