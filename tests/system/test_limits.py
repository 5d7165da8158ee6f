"""Promises 9 and 12 over a real server: limits have names, big things arrive whole, and history costs nothing."""

from __future__ import annotations

import asyncio
import json
import secrets
import statistics
import time
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest
import redis

from support.client import Client, Refusal, View
from support.servers import RedisServer
from support.standing import StandingServer, standing
from system.conversations import SOON, outcome, play, wait_for_actions


@pytest.fixture(scope="module")
def odd(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandingServer]:
    with standing("support.odd_chat:chat", redis_server.url, tmp_path_factory.mktemp("limits")) as server:
        yield server


@pytest.mark.parametrize("subprotocol", ["waitpoint.v1.json", "waitpoint.v1.msgpack"])
async def test_an_answer_of_three_megabytes_is_refused_by_name_and_the_next_one_taken(  # type: ignore[no-untyped-def]
    connect, odd, thread, subprotocol
) -> None:
    client = await connect(odd, subprotocol=subprotocol)
    (action,) = await wait_for_actions(client, thread, [["ask", {}]])
    with pytest.raises(Refusal) as refused:
        await client.submit(thread, action, "x" * 3_000_000, id="large")
    assert refused.value.code == "too-large"
    assert str(client.welcome["limits"]["frameBytes"]) in refused.value.frame["message"]
    assert [pending["id"] for pending in client.views[thread].pending] == [action]
    await client.submit(thread, action, True, id="large")


async def test_the_limit_counts_bytes_of_utf8(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    limit = client.welcome["limits"]["frameBytes"]
    frame = {"type": "message", "id": "m", "thread": thread, "parts": [{"type": "text", "text": ""}]}
    room = limit - len(json.dumps(frame, ensure_ascii=False).encode())

    def sized(size: int, id: str) -> str:
        text = "\U0001f600" * (size // 4) + "x" * (size % 4)
        return json.dumps({**frame, "id": id, "parts": [{"type": "text", "text": text}]}, ensure_ascii=False)

    await client.send_raw(sized(room, "f"))
    await client.send_raw(sized(room + 1, "g"))
    replies: dict[str, Any] = {}

    def both() -> bool:
        replies.update({f["id"]: f for f in client.frames if f["type"] in ("ack", "reject") and f.get("id") in "fg"})
        return len(replies) == 2

    await client.until(both, "two replies")
    assert replies["f"]["type"] == "ack"
    assert replies["g"]["code"] == "too-large"


@pytest.mark.parametrize("subprotocol", ["waitpoint.v1.json", "waitpoint.v1.msgpack"])
async def test_bad_frames_among_good_ones_are_refused_in_their_place(connect, odd, thread, subprotocol) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd, subprotocol=subprotocol)
    good = {"type": "message", "thread": thread, "parts": [{"type": "text", "text": "hi"}]}
    frames: list[Any] = [
        {**good, "id": "g1"},
        {**good, "id": "b1", "extra": 1},
        7,
        {"type": "nonsense", "id": "b2"},
        {**good, "id": "b3", "parts": []},
        {"type": "submit", "id": "b4", "thread": thread, "action": "a", "data": 2**60},
        {"type": "stop", "id": "b5", "thread": "no such/thread"},
        {**good, "id": "g2"},
    ]
    await client.send(frames)
    await client.until(lambda: sum(f["type"] in ("ack", "reject") for f in client.frames) == 8, "eight replies")
    replies = [frame for frame in client.frames if frame["type"] in ("ack", "reject")]
    assert {frame["id"] for frame in replies if frame["type"] == "ack"} == {"g1", "g2"}
    bad = [frame for frame in replies if frame["type"] == "reject"]
    assert {frame.get("id") for frame in bad} == {"b1", "b2", "b3", "b4", "b5", None}
    assert {frame["code"] for frame in bad} == {"bad-frame"}
    assert client.closed is None


async def test_text_that_no_string_can_hold_is_refused_and_the_connection_kept(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    for n, text in enumerate((r"\ud800", r"\udc00x", r"ok \ud83d")):
        await client.send_raw(
            f'{{"type":"message","id":"s{n}","thread":"{thread}","parts":[{{"type":"text","text":"{text}"}}]}}'
        )
        await client.until(lambda n=n: any(frame.get("id") == f"s{n}" for frame in client.frames), "a reply")
        (reply,) = [frame for frame in client.frames if frame.get("id") == f"s{n}"]
        assert (reply["type"], reply["code"]) == ("reject", "bad-frame")
        assert reply["errors"][0]["code"] == "bad-unicode"
    await client.say(thread, "fine \U0001f600")


async def test_the_sixty_fifth_command_in_flight_is_busy_and_none_is_unanswered(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await client.subscribe(thread)
    stops = [{"type": "stop", "id": f"stop{n}", "thread": thread} for n in range(200)]
    await client.send(stops)
    await client.until(lambda: sum(f["type"] in ("ack", "reject") for f in client.frames) == 200, "200 replies")
    replies = [frame for frame in client.frames if frame["type"] in ("ack", "reject")]
    acks = [frame for frame in replies if frame["type"] == "ack"]
    refusals = [frame for frame in replies if frame["type"] == "reject"]
    assert len(acks) >= 64
    assert {frame["code"] for frame in refusals} <= {"busy"}
    assert all(frame["retryMs"] > 0 for frame in refusals)
    await client.say(thread, "still here")
    await client.until(lambda: view.idle, "idle", deadline=SOON)


async def test_the_hundred_and_first_subscription_is_refused_until_one_is_left(connect, odd) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    names = [f"many-{secrets.token_hex(4)}" for _ in range(101)]
    for name in names[:100]:
        await client.subscribe(name)
    with pytest.raises(Refusal) as refused:
        await client.subscribe(names[100])
    assert refused.value.code == "forbidden"
    assert "100" in refused.value.frame["message"]
    await client.subscribe(names[0])  # again, not more
    await client.command("unsubscribe", thread=names[1])
    await client.subscribe(names[100])


async def test_messages_that_wait_for_their_turn_are_bounded_and_all_answered(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await client.subscribe(thread)
    await client.say(thread, json.dumps([{"odd": "silent"}]))
    replies = [await outcome(client.say(thread, f"queued {n}")) for n in range(20)]
    assert [type(reply) is Refusal for reply in replies] == [False] * 16 + [True] * 4
    assert {reply.code for reply in replies[16:]} == {"busy"}
    await client.command("stop", thread=thread)
    await client.until(lambda: view.idle, "idle", deadline=SOON)
    users = [message["parts"][0]["text"] for message in view.state["messages"] if message["role"] == "user"]
    assert users[1:] == [f"queued {n}" for n in range(16)]


async def test_an_accepted_message_stays_accepted_when_its_repeat_would_be_refused(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    """Its outcome has left the control state, and the queue is full by now: the first reply counts all the same."""
    client = await connect(odd)
    await client.subscribe(thread)
    first = await client.say(thread, json.dumps([{"odd": "silent"}]), id="first")
    for n in range(16):
        await client.say(thread, f"queued {n}")
    again = await client.command(
        "message", "first", thread=thread, parts=[{"type": "text", "text": json.dumps([{"odd": "silent"}])}]
    )
    assert again["dup"] is True
    assert again["message"] == first["message"]
    await client.command("stop", thread=thread)


async def test_history_pages_are_bounded_and_join_without_hole_or_repeat(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await client.subscribe(thread)
    for n in range(12):
        await client.say(thread, f"m{n} " + "é" * 40_000)
        await client.until(lambda n=n: view.idle and f"m{n} " in view.text, "the answer", deadline=SOON)
    for limit in (0, 201, -1):
        with pytest.raises(Refusal) as refused:
            await client.command("history", thread=thread, before=10, limit=limit)
        assert refused.value.code == "bad-frame"
    pages: list[Any] = []
    before = 10**6
    while before > 0:
        page = (await client.command("history", thread=thread, before=before, limit=200))["page"]
        assert page["messages"]
        assert len(json.dumps(page, ensure_ascii=False).encode()) < 700_000
        pages = [*page["messages"], *pages]
        before = page["before"]
    assert pages == view.state["messages"]
    assert (await client.command("history", thread=thread, before=0))["page"] == {"messages": [], "before": 0}


@pytest.mark.parametrize("subprotocol", ["waitpoint.v1.json", "waitpoint.v1.msgpack"])
async def test_a_large_thread_comes_in_parts_that_are_the_whole(connect, odd, subprotocol) -> None:  # type: ignore[no-untyped-def]
    thread = f"large-{secrets.token_hex(4)}"
    client = await connect(odd)
    view = await client.subscribe(thread)
    for n in range(8):
        await client.say(thread, f"m{n} " + "x" * 120_000)
        await client.until(lambda n=n: view.idle and f"m{n} " in view.text, "the answer", deadline=SOON)
    # An open message that is larger than a part, with a pending action behind it.
    await wait_for_actions(client, thread, [["give", {"what": "large-ish"}], ["ask", {}]], waits=1)
    await client.until(lambda: view.state["status"] == "waiting", "waiting")
    fresh = await connect(odd, subprotocol=subprotocol)
    seen = await fresh.subscribe(thread)
    parts = [frame for frame in fresh.frames if frame["type"] == "snapshot"]
    assert [frame["part"]["index"] for frame in parts] == list(range(1, len(parts) + 1))
    assert len(parts) > 1
    assert seen.state == view.state
    await fresh.submit(thread, seen.pending[0]["id"], True)
    await fresh.until(lambda: seen.idle, "idle", deadline=SOON)


async def test_json_and_msgpack_clients_see_one_state_and_one_order(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(odd), await connect(odd, subprotocol="waitpoint.v1.msgpack")
    first, second = await one.subscribe(thread), await two.subscribe(thread)
    await play(one, thread, [["give", {"what": "fine"}], ["quick", {"label": "\U0001f600 é \u0000"}]], "text é")
    await two.until(lambda: second.cursor == first.cursor, "the same place")
    assert second.events == first.events
    assert second.state == first.state
    packed = await (await connect(odd, subprotocol="waitpoint.v1.msgpack")).subscribe(thread)
    assert packed.state == first.state
    assert json.loads(json.dumps(msgpack.unpackb(msgpack.packb(packed.state)))) == first.state


async def fill(client: Client, thread: str, until: int, view: View) -> None:
    while view.state["before"] + len(view.state["messages"]) < until:
        # One opens a turn, the others queue and are answered together in the next.
        await asyncio.gather(*(client.say(thread, f"hello {n}") for n in range(16)))
        await client.until(lambda: view.idle, "idle", deadline=SOON)


async def test_the_thousandth_message_costs_what_the_tenth_did(connect, odd, thread, redis_server) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await client.subscribe(thread)
    store = redis.Redis.from_url(redis_server.url)

    async def costs() -> dict[str, float]:
        joins, answers = [], []
        for _ in range(7):
            began = time.perf_counter()
            fresh = await Client.open(odd.url)
            joined = await fresh.subscribe(thread)
            joins.append(time.perf_counter() - began)
            assert len(joined.state["messages"]) < 80
            await fresh.close()
            (action,) = await wait_for_actions(client, thread, [["ask", {}]])
            began = time.perf_counter()
            await client.submit(thread, action, True)
            answers.append(time.perf_counter() - began)
            await client.until(lambda: view.idle, "idle", deadline=SOON)
        (key,) = store.scan_iter(f"wp:*:t:{thread}")
        control = store.hstrlen(key, "control")
        return {"join": statistics.median(joins), "answer": statistics.median(answers), "control": float(control)}

    await fill(client, thread, 50, view)
    young = await costs()
    await fill(client, thread, 1_000, view)
    old = await costs()
    # Generous factors: the machine is shared. What grew with history would be twenty times as much.
    assert old["control"] <= young["control"] * 1.1
    assert old["answer"] <= young["answer"] * 3 + 0.005
    assert old["join"] <= young["join"] * 3 + 0.01
    (log,) = store.scan_iter(f"wp:*:log:{thread}")
    assert store.xlen(log) < 1_200, "the log is trimmed behind the checkpoint"
    store.close()


async def test_nothing_of_a_turn_stays_in_the_store_but_its_messages(connect, odd, thread, redis_server) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await client.subscribe(thread)
    actions = await wait_for_actions(
        client,
        thread,
        [["ask", {"label": "1"}], ["ask", {"label": "2"}], ["quick", {}], ["nonsense", {}], ["quick", {"wrong": 1}]],
        [["nonsense", {}], ["quick", {"label": 5}]],
        [["give", {"what": "nan"}]],
        waits=2,
    )
    await client.submit(thread, actions[0], True)
    await client.command("cancel", thread=thread, action=actions[1])
    await client.until(lambda: view.idle, "idle", deadline=SOON)
    await wait_for_actions(client, thread, [["ask", {}]])
    await client.command("stop", thread=thread)
    await client.until(lambda: view.idle, "idle", deadline=SOON)
    store = redis.Redis.from_url(redis_server.url)
    try:
        kinds = {key.decode().split(":")[2] for key in store.scan_iter(f"wp:*:*:{thread}")}
        assert kinds == {"t", "log", "msg", "done"}
        pending = [name for key in store.scan_iter("wp:*:pending") for name in store.hkeys(key)]
        assert not {action.encode() for action in actions} & set(pending)
        due = [name for key in store.scan_iter("wp:*:due") for name in store.zrange(key, 0, -1)]
        assert thread.encode() not in due
    finally:
        store.close()


async def test_a_client_that_comes_and_goes_a_thousand_times_leaves_nothing(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    """Half of them without a close handshake, a quarter in the middle of joining."""

    async def visit(n: int) -> None:
        client = await Client.open(odd.url)
        if n % 4 == 0:
            await client.send({"type": "subscribe", "thread": f"{thread}-{n % 50}"})
        else:
            await client.subscribe(f"{thread}-{n % 50}")
        await (client.cut() if n % 2 else client.close())

    async def rush(count: int) -> None:
        for start in range(0, count, 25):
            await asyncio.gather(*(visit(n) for n in range(start, start + 25)))

    await rush(250)
    before = odd.memory()
    await rush(1_000)
    assert odd.memory() - before < 20_000_000
    assert "Traceback" not in odd.output()
