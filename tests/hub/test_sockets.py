"""The endpoint over real sockets: handshake, commands, threads, refusals."""

from __future__ import annotations

import asyncio
import contextlib
import json
from contextlib import AsyncExitStack
from typing import Any

import msgpack
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from support.client import Client, Refusal
from support.house import AT, House, house, message
from waitpoint.auth import Connection, Guard, Identity
from waitpoint.hub import Limits
from waitpoint_protocol import events as e
from waitpoint_protocol.codes import Close
from waitpoint_protocol.frames import Hello

DEEP = "[" * 70_000 + "]" * 70_000
BOTH = pytest.mark.parametrize("subprotocol", ["waitpoint.v1.json", "waitpoint.v1.msgpack"])


async def closed(socket: ClientConnection) -> int:
    """Read to the end; the close code."""
    async with asyncio.timeout(10):
        with contextlib.suppress(ConnectionClosed):
            while True:
                await socket.recv()
    assert socket.close_code is not None
    return socket.close_code


async def raw(url: str, stack: AsyncExitStack, **options: Any) -> ClientConnection:
    options = {"subprotocols": ["waitpoint.v1.json"], **options}
    return await stack.enter_async_context(connect(url, compression=None, ping_interval=None, **options))


# --- handshake


@BOTH
async def test_hello_subscribe_say_and_hear(home: House, thread: str, stack: AsyncExitStack, subprotocol: str) -> None:
    client = await stack.enter_async_context(await Client.open(home.url, subprotocol=subprotocol))
    assert client.socket.subprotocol == subprotocol
    assert client.welcome["identity"] == {"id": "anonymous"}
    view = await client.subscribe(thread)
    await client.say(thread, "hallo ✓ 🙂")
    await client.until(lambda: len(view.state["messages"]) == 1)
    assert view.state["messages"][0]["parts"][0]["text"] == "hallo ✓ 🙂"  # type: ignore[typeddict-item]


async def test_a_client_that_names_no_subprotocol_speaks_json(home: House, stack: AsyncExitStack) -> None:
    socket = await raw(home.url, stack, subprotocols=None)
    await socket.send('{"type":"hello"}')
    assert json.loads(await socket.recv())["type"] == "welcome"


async def test_a_client_that_speaks_only_other_subprotocols_is_told_by_code(home: House, stack: AsyncExitStack) -> None:
    socket = await raw(home.url, stack, subprotocols=["waitpoint.v9.json", "other"])
    assert socket.subprotocol == "waitpoint.v9.json"  # a browser would not show the code without one of its own
    assert await closed(socket) == Close.VERSION


async def test_the_first_subprotocol_that_is_spoken_here_is_chosen(home: House, stack: AsyncExitStack) -> None:
    socket = await raw(home.url, stack, subprotocols=["waitpoint.v9.json", "waitpoint.v1.msgpack", "waitpoint.v1.json"])
    assert socket.subprotocol == "waitpoint.v1.msgpack"


async def test_a_page_of_another_origin_is_told_by_code(home: House, stack: AsyncExitStack) -> None:
    foreign = await raw(home.url, stack, origin="https://evil.example")
    assert await closed(foreign) == Close.ORIGIN
    own = await raw(home.url, stack, origin=f"http://127.0.0.1:{home.port}")
    await own.send('{"type":"hello"}')
    assert json.loads(await own.recv())["type"] == "welcome"


async def test_no_hello_in_time_closes(redis_url: str, stack: AsyncExitStack) -> None:
    home = await stack.enter_async_context(house(redis_url, limits=Limits(hello_timeout=0.1)))
    assert await closed(await raw(home.url, stack)) == Close.HELLO_TIMEOUT


async def test_a_frame_before_hello_closes(home: House, stack: AsyncExitStack) -> None:
    socket = await raw(home.url, stack)
    await socket.send('{"type":"subscribe","thread":"t"}')
    assert await closed(socket) == Close.HELLO_EXPECTED


async def test_more_connections_than_allowed_are_told_by_code(redis_url: str, stack: AsyncExitStack) -> None:
    home = await stack.enter_async_context(house(redis_url, max_connections=1))
    first = await stack.enter_async_context(await Client.open(home.url))
    assert await closed(await raw(home.url, stack)) == Close.TOO_MANY_CONNECTIONS
    await first.close()
    async with asyncio.timeout(5):
        while home.hub.connections:
            await asyncio.sleep(0.01)
    await stack.enter_async_context(await Client.open(home.url))


# --- who


def _people(connection: Connection, hello: Hello) -> Identity | None:
    return Identity(hello.token, hello.token.title()) if hello.token in ("ann", "bob") else None


def _own_threads(identity: Identity, verb: str, thread: str, action: Any) -> bool:
    if thread.startswith("hall-"):
        return verb in ("subscribe", "read")
    return thread.startswith(identity.id)


async def test_the_hook_says_who_it_is_and_others_are_refused(redis_url: str, stack: AsyncExitStack) -> None:
    home = await stack.enter_async_context(house(redis_url, guard=Guard(_people)))
    ann = await stack.enter_async_context(await Client.open(home.url, hello={"token": "ann"}))
    assert ann.welcome["identity"] == {"id": "ann", "name": "Ann"}
    stranger = await raw(home.url, stack)
    await stranger.send('{"type":"hello","token":"eve"}')
    assert await closed(stranger) == Close.UNAUTHENTICATED


async def test_a_foreign_thread_answers_like_one_that_is_not_there(redis_url: str, stack: AsyncExitStack) -> None:
    home = await stack.enter_async_context(house(redis_url, guard=Guard(_people, _own_threads)))
    await home.writer("ann-1").say("secret")
    bob = await stack.enter_async_context(await Client.open(home.url, hello={"token": "bob"}))
    refused = []
    for thread in ("ann-1", "ann-nothing"):
        for ask in (
            lambda t: bob.subscribe(t),
            lambda t: bob.say(t, "x"),
            lambda t: bob.submit(t, "a1", True),
            lambda t: bob.command("cancel", thread=t, action="a1"),
            lambda t: bob.command("stop", thread=t),
            lambda t: bob.command("history", thread=t, before=10, limit=10),
            lambda t: bob.subscribe(t, {"log": "x", "seq": 1, "tag": "y"}),
        ):
            with pytest.raises(Refusal) as refusal:
                await ask(thread)
            frame = {k: v for k, v in refusal.value.frame.items() if k not in ("id", "thread")}
            refused.append(frame)
    assert all(frame == refused[0] for frame in refused)
    assert refused[0]["code"] == "not-found"
    assert home.desk.handled == []
    assert not [f for f in bob.frames if f["type"] in ("snapshot", "events", "live")]


async def test_who_may_read_but_not_write_is_told_forbidden(redis_url: str, stack: AsyncExitStack) -> None:
    home = await stack.enter_async_context(house(redis_url, guard=Guard(_people, _own_threads)))
    bob = await stack.enter_async_context(await Client.open(home.url, hello={"token": "bob"}))
    await bob.subscribe("hall-1")
    with pytest.raises(Refusal) as refusal:
        await bob.say("hall-1", "x")
    assert refusal.value.code == "forbidden"


async def test_a_fresh_token_keeps_the_connection_and_another_identity_ends_it(
    redis_url: str, stack: AsyncExitStack
) -> None:
    home = await stack.enter_async_context(house(redis_url, guard=Guard(_people)))
    ann = await stack.enter_async_context(await Client.open(home.url, hello={"token": "ann"}))
    await ann.send({"type": "auth", "token": "ann"})
    await ann.say("t", "still here")
    await ann.send({"type": "auth", "token": "bob"})
    assert (await ann.wait_closed())[0] == Close.FORBIDDEN


# --- threads


async def test_threads_named_in_hello_are_live_without_another_round_trip(
    home: House, thread: str, stack: AsyncExitStack
) -> None:
    await home.writer(thread).say("one")
    client = await stack.enter_async_context(
        await Client.open(home.url, hello={"subscribe": [{"thread": thread}, {"thread": f"{thread}-2"}]})
    )
    await client.until(lambda: all(v.live for v in client.views.values()) and len(client.views) == 2)
    assert client.views[thread].cursor["seq"] == 1


async def test_being_offline_costs_exactly_what_was_missed(home: House, thread: str, stack: AsyncExitStack) -> None:
    """Cases 37 and 63: offline with news, offline without, five times."""
    client = await stack.enter_async_context(await Client.open(home.url))
    view = await client.subscribe(thread)
    for number in range(1, 6):
        await home.writer(thread).title(str(number))
    await client.until(lambda: view.cursor["seq"] == 5)
    await client.cut()
    for number in range(6, 11):
        await home.writer(thread).title(str(number))
    for round in range(5):
        again = await Client.open(home.url)
        assert await again.resume(thread, client) is view
        await again.until(lambda: view.cursor["seq"] == 10, "what was missed, of which the last may follow live")
        events = [f for f in again.frames if f["type"] in ("events", "snapshot")]
        assert [f["seq"] for f in events] == ([6, 7, 8, 9, 10] if round == 0 else [])
        await again.cut()
    assert view.state["title"] == "10"


async def test_leaving_a_thread_ends_its_events_and_coming_back_works(client: Client, home: House, thread: str) -> None:
    view = await client.subscribe(thread)
    await client.command("unsubscribe", thread=thread)
    heard = len(client.frames)
    await client.command("message", thread=thread, parts=[{"type": "text", "text": "unheard"}])
    assert [f["type"] for f in client.frames[heard:]] == ["ack"]
    assert home.hub.subscriptions == 0
    again = await client.subscribe(thread, dict(view.cursor))
    # Live says "up to this cursor"; what was committed a moment ago may follow it.
    await client.until(lambda: len(again.state["messages"]) == 1, "what was missed")


async def test_subscribing_twice_starts_anew_and_repeats_nothing(client: Client, home: House, thread: str) -> None:
    await home.writer(thread).say("one")
    await client.subscribe(thread)
    view = await client.subscribe(thread)
    await home.writer(thread).say("two")
    await client.until(lambda: view.cursor["seq"] == 2)
    assert home.hub.subscriptions == 1


async def test_history_gives_pages_backwards(client: Client, home: House, thread: str) -> None:
    finished = [message(str(n)) for n in range(7)]
    await home.writer(thread).write(e.ThreadUpdated(title="x"), messages=finished)
    page = (await client.command("history", thread=thread, before=7, limit=3))["page"]
    assert (page["before"], page["messages"]) == (4, finished[4:7])
    page = (await client.command("history", thread=thread, before=2, limit=50))["page"]
    assert (page["before"], page["messages"]) == (0, finished[:2])
    page = (await client.command("history", thread=f"{thread}-none", before=9, limit=3))["page"]
    assert page["messages"] == []


async def test_a_page_of_very_large_messages_has_fewer_of_them(client: Client, home: House, thread: str) -> None:
    finished = [message("x" * 200_000) for _ in range(5)]
    await home.writer(thread).write(e.ThreadUpdated(title="x"), messages=finished)
    page = (await client.command("history", thread=thread, before=5, limit=5))["page"]
    assert (page["before"], len(page["messages"])) == (3, 2)


async def test_two_instances_tell_the_same_story(
    redis_url: str, home: House, thread: str, stack: AsyncExitStack
) -> None:
    other = await stack.enter_async_context(house(redis_url))
    here = await stack.enter_async_context(await Client.open(home.url))
    there = await stack.enter_async_context(await Client.open(other.url))
    mine, theirs = await here.subscribe(thread), await there.subscribe(thread)
    await here.say(thread, "to all")
    await there.until(lambda: theirs.cursor["seq"] == 1)
    await here.until(lambda: mine.cursor["seq"] == 1)
    assert theirs.state == mine.state


# --- bad input


@pytest.mark.parametrize("text", ["{", "", "nonsense", "[1,", '{"type":"hello"}{}'])
async def test_what_cannot_be_parsed_is_refused_and_closed(client: Client, text: str) -> None:
    await client.send_raw(text)
    assert (await client.wait_closed())[0] == Close.BAD_FRAME
    assert client.frames[-1]["code"] == "bad-frame"


@pytest.mark.parametrize("subprotocol", ["waitpoint.v1.json", "waitpoint.v1.msgpack"])
async def test_the_wrong_kind_of_message_is_refused_and_closed(
    home: House, stack: AsyncExitStack, subprotocol: str
) -> None:
    client = await stack.enter_async_context(await Client.open(home.url, subprotocol=subprotocol))
    await client.send_raw(json.dumps({"type": "pong"}) if client.binary else msgpack.packb({"type": "pong"}))
    assert (await client.wait_closed())[0] == Close.BAD_FRAME


@pytest.mark.parametrize(
    ("text", "code", "id"),
    [
        ('{"type":"submit","id":"x1","thread":"t"}', "bad-frame", "x1"),
        ('{"type":"submit","id":"x2","thread":"t","action":"a","data":1,"extra":1}', "bad-frame", "x2"),
        ('{"type":"submit","id":"x3","thread":7,"action":"a","data":1}', "bad-frame", "x3"),
        ('{"type":"dance","id":"x4"}', "bad-frame", "x4"),
        ('{"type":"submit","id":"x5","thread":"t","action":"a","data":1e400}', "bad-frame", "x5"),
        ('{"type":"submit","id":"x6","thread":"t","action":"a","data":NaN}', "bad-frame", "x6"),
        ('{"type":"submit","id":"x7","thread":"t","action":"a","data":9007199254740993}', "bad-frame", "x7"),
        ('{"type":"submit","id":"x8","thread":"t","action":"a","data":"\\ud800"}', "bad-frame", "x8"),
        ('{"type":"submit","id":"x9","thread":"t","action":"a","data":{"\\udc00":1}}', "bad-frame", "x9"),
        (
            '{"type":"submit","id":"xa","thread":"t","action":"a","data":' + "[" * 70_000 + "]" * 70_000 + "}",
            "bad-frame",
            "xa",
        ),
        ('{"type":"submit","id":"xb","thread":"t","action":"a","data":"' + "é" * 150_000 + '"}', "too-large", "xb"),
        ("[]", "bad-frame", None),
        ("7", "bad-frame", None),
        ("null", "bad-frame", None),
        ("[" + ",".join(['{"type":"pong"}'] * 300) + "]", "bad-frame", None),
    ],
    ids=lambda value: value[:24] if isinstance(value, str) else str(value),
)
async def test_what_is_no_frame_is_refused_by_name_and_the_connection_kept(
    client: Client, home: House, text: str, code: str, id: str | None
) -> None:
    await client.send_raw(text)
    await client.until(lambda: client.frames[-1]["type"] == "reject")
    assert client.frames[-1]["code"] == code
    assert client.frames[-1].get("id") == id
    assert await client.submit("t", "a1", True)
    assert [id for _, id in home.desk.handled] != []
    assert client.closed is None


async def test_one_bad_frame_among_good_ones_is_refused_in_its_place(client: Client, thread: str) -> None:
    good = {"type": "submit", "thread": thread, "action": "a", "data": 1}
    await client.send([{**good, "id": "g1"}, {**good, "id": "b1", "data": 1, "x": 1}, {**good, "id": "g2"}])
    await client.until(lambda: {f.get("id") for f in client.frames} >= {"g1", "b1", "g2"})
    assert {f["id"]: f["type"] for f in client.frames if "id" in f} == {"g1": "ack", "b1": "reject", "g2": "ack"}


async def test_a_message_over_four_mebibytes_closes_with_too_big(client: Client) -> None:
    with contextlib.suppress(ConnectionClosed):  # the answer may come while it is still being sent
        await client.send_raw("x" * (4_194_304 + 1))
    assert (await client.wait_closed())[0] == Close.TOO_BIG


async def test_a_hostile_client_changes_nothing_for_another(
    home: House, client: Client, thread: str, stack: AsyncExitStack
) -> None:
    view = await client.subscribe(thread)
    hostile = await stack.enter_async_context(await Client.open(home.url))
    for _ in range(20):
        await hostile.send_raw("[" * 100_000)
    await hostile.until(lambda: [f.get("code") for f in hostile.frames].count("bad-frame") == 20)
    await client.say(thread, "fine")
    await client.until(lambda: view.cursor["seq"] == 1)


async def test_a_flood_is_refused_and_then_closed(redis_url: str, stack: AsyncExitStack) -> None:
    home = await stack.enter_async_context(house(redis_url, limits=Limits(rate=5, burst=10, patience=30)))
    client = await stack.enter_async_context(await Client.open(home.url))
    for number in range(60):
        if client.closed:
            break
        await client.send({"type": "unsubscribe", "id": f"u{number}", "thread": "t"})
    assert (await client.wait_closed())[0] == Close.FLOODING
    answers = [f["type"] for f in client.frames if "id" in f]
    assert answers[:10] == ["ack"] * 10
    limited = [f for f in client.frames if f.get("code") == "rate-limited"]
    assert limited
    assert all(f["retryMs"] > 0 for f in limited)


async def test_more_commands_in_flight_than_allowed_are_busy(redis_url: str, stack: AsyncExitStack) -> None:
    home = await stack.enter_async_context(house(redis_url, limits=Limits(in_flight=3)))
    home.desk.hold = asyncio.Event()
    client = await stack.enter_async_context(await Client.open(home.url))
    for number in range(4):
        await client.send({"type": "submit", "id": f"s{number}", "thread": "t", "action": "a", "data": 1})
    await client.until(lambda: client.frames[-1]["type"] == "reject")
    assert (client.frames[-1]["code"], client.frames[-1]["id"]) == ("busy", "s3")
    home.desk.hold.set()
    await client.until(lambda: {f["id"] for f in client.frames if f["type"] == "ack"} == {"s0", "s1", "s2"})


async def test_plain_http_is_told_to_upgrade(home: House) -> None:
    import httpx

    async with httpx.AsyncClient() as http:
        reply = await http.get(f"http://127.0.0.1:{home.port}/ws")
    assert reply.status_code == 426


# --- streams


async def test_reloading_in_the_middle_of_a_stream_gives_the_text_once(
    home: House, thread: str, stack: AsyncExitStack
) -> None:
    """Case 36: five quick reloads; the text is the writer's, each event applied once."""
    writer = home.writer(thread)
    await writer.write(e.MessageStart(message_id="m", at=AT), e.TextStart(id="p", step=1))
    words = [f"{number} " for number in range(400)]

    async def stream() -> None:
        for word in words:
            await writer.write(e.TextDelta(id="p", delta=word))
        await writer.write(e.TextEnd(id="p"), e.MessageFinish(message_id="m", reason="stop"))

    streaming = asyncio.create_task(stream())
    last: Client | None = None
    for reload in range(6):
        client = await stack.enter_async_context(await Client.open(home.url))
        # Alternately a tab that remembers where it was, and one that knows nothing.
        view = await (client.subscribe(thread) if last is None or reload % 2 else client.resume(thread, last))
        known = len(view.text)
        await client.until(lambda view=view, known=known: len(view.text) > known or view.idle)  # type: ignore[misc]
        if reload < 5:
            await client.cut()
        last = client
    await streaming
    assert last is not None
    view = last.views[thread]
    await last.until(lambda: view.state["messages"][-1]["status"] == "final")
    assert view.text == "".join(words)


async def test_messages_keep_their_order_though_the_hook_takes_longer_for_the_first(
    redis_url: str, thread: str, stack: AsyncExitStack
) -> None:
    delays = iter([0.1, 0.05, 0.0])

    async def may(identity: Identity, verb: str, thread: str, action: Any) -> bool:
        if verb == "send":
            await asyncio.sleep(next(delays))
        return True

    home = await stack.enter_async_context(house(redis_url, guard=Guard(_people, may)))
    ann = await stack.enter_async_context(await Client.open(home.url, hello={"token": "ann"}))
    view = await ann.subscribe(thread)
    for text in ("one", "two", "three"):
        parts = [{"type": "text", "text": text}]
        await ann.send({"type": "message", "id": text, "thread": thread, "parts": parts})
    await ann.until(lambda: view.cursor["seq"] == 3)
    assert [m["parts"][0]["text"] for m in view.state["messages"]] == ["one", "two", "three"]  # type: ignore[typeddict-item]
