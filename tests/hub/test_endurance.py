"""Peers that are slow, silent, gone or too many cost bounded memory and nobody else anything."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from websockets.asyncio.client import connect

from support.client import Client, Refusal, View
from support.house import House, house
from support.servers import start_server
from waitpoint.hub import Limits, Sizes
from waitpoint.hub.heartbeat import Clock, Heartbeat
from waitpoint_protocol.codes import Close


class Frozen:
    """A tab that says hello, subscribes and then reads nothing until it is thawed. A plain TCP socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    @classmethod
    async def open(cls, port: int, thread: str) -> Frozen:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # little room, as on a bad mobile link
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(sock, ("127.0.0.1", port))
        request = (
            f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Protocol: waitpoint.v1.json\r\n\r\n"
        )
        await loop.sock_sendall(sock, request.encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += await loop.sock_recv(sock, 1)
        hello = json.dumps({"type": "hello", "subscribe": [{"thread": thread}]}).encode()
        await loop.sock_sendall(sock, b"\x81" + bytes([0x80 | len(hello)]) + b"\0\0\0\0" + hello)  # mask of zeros
        return cls(sock)

    async def thaw(self, until: Callable[[list[dict[str, Any]]], bool] | None = None) -> Heard:
        """Read on: until a condition on the frames holds, or until a close frame or the end of the stream."""
        loop = asyncio.get_running_loop()
        stream = bytearray()
        heard = Heard([], None)
        async with asyncio.timeout(20):
            while heard.code is None and not (until and until(heard.frames)):
                try:
                    chunk = await loop.sock_recv(self.sock, 262_144)
                except ConnectionError:
                    break
                if not chunk:
                    break
                stream += chunk
                heard.read(stream)
        return heard

    def close(self) -> None:
        self.sock.close()


@dataclass
class Heard:
    """The frames of a server's byte stream, and its close code."""

    frames: list[dict[str, Any]]
    code: int | None

    def read(self, stream: bytearray) -> None:
        """Take the whole WebSocket messages at the front of ``stream``."""
        while len(stream) >= 2:
            size, start = stream[1] & 0x7F, 2
            if size == 126:
                size, start = int.from_bytes(stream[2:4], "big"), 4
            elif size == 127:
                size, start = int.from_bytes(stream[2:10], "big"), 10
            if len(stream) < start or len(stream) < start + size:
                return
            payload = bytes(stream[start : start + size])
            if stream[0] == 0x88:
                self.code = int.from_bytes(payload[:2], "big")
            else:
                message = json.loads(payload)
                self.frames.extend(message if isinstance(message, list) else [message])
            del stream[: start + size]

    def view(self, thread: str) -> View:
        """What a client that heard this would show; fails on a hole or a repeat."""
        view = View(thread)
        for frame in self.frames:
            if frame["type"] in ("snapshot", "events", "reset", "live"):
                view.hear(frame)
        return view


async def test_a_frozen_tab_is_closed_and_the_others_notice_nothing(
    redis_url: str, thread: str, stack: AsyncExitStack
) -> None:
    """Case 96, and faults 13: one frozen among healthy tabs."""
    sizes = Sizes(ring_batches=64, ring_bytes=262_144)
    home = await stack.enter_async_context(
        house(redis_url, send_buffer=65_536, limits=Limits(send_timeout=0.5), sizes=sizes)
    )
    healthy = [await stack.enter_async_context(await Client.open(home.url)) for _ in range(20)]
    views = [await client.subscribe(thread) for client in healthy]
    frozen = await Frozen.open(home.port, thread)
    stack.callback(frozen.close)
    async with asyncio.timeout(10):
        while home.hub.subscriptions != 21:
            await asyncio.sleep(0.01)

    slowest = 0.0
    written = 0
    async with asyncio.timeout(60):
        while home.hub.subscriptions == 21:
            started = time.perf_counter()
            await home.writer(thread).title("x" * 20_000)
            written += 1
            await healthy[0].until(lambda: views[0].cursor["seq"] == written)
            slowest = max(slowest, time.perf_counter() - started)
    for client, view in zip(healthy, views, strict=True):
        await client.until(lambda view=view: view.cursor["seq"] == written)  # type: ignore[misc]
        assert view.resets == []
    assert slowest < 1.0, "nobody waits for the frozen one"

    heard = await frozen.thaw()
    assert heard.code == Close.SLOW
    again = await stack.enter_async_context(await Client.open(home.url))
    assert again.views.setdefault(thread, heard.view(thread)) is await again.subscribe(
        thread, heard.view(thread).cursor
    )
    assert again.views[thread].state == views[0].state


async def test_a_slow_reader_that_reads_on_is_not_taken_for_a_frozen_one(
    redis_url: str, thread: str, stack: AsyncExitStack
) -> None:
    limits = Limits(send_timeout=0.3)
    home = await stack.enter_async_context(house(redis_url, send_buffer=8_192, limits=limits))
    for number in range(40):
        await home.writer(thread).say(f"{number}" + "x" * 25_000)
    slow = await Frozen.open(home.port, thread)
    stack.callback(slow.close)
    started = time.monotonic()
    heard = Heard([], None)
    stream = bytearray()
    while not heard.frames or heard.frames[-1]["type"] != "live":
        await asyncio.sleep(0.03)  # the speed of a bad link, at which a message takes longer than the timeout
        chunk = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(slow.sock, 16_384), 10)
        assert chunk, "closed on a reader that reads on"
        stream += chunk
        heard.read(stream)
    assert time.monotonic() - started > 2 * limits.send_timeout
    assert heard.code is None
    assert len(heard.view(thread).state["messages"]) == 40


async def test_a_tab_that_thaws_in_time_is_told_that_it_lagged(
    redis_url: str, thread: str, stack: AsyncExitStack
) -> None:
    """Case 70: a stalled socket leaves the ring."""
    sizes = Sizes(ring_batches=8, ring_bytes=65_536, replay_events=4)
    home = await stack.enter_async_context(house(redis_url, send_buffer=65_536, sizes=sizes))
    frozen = await Frozen.open(home.port, thread)
    stack.callback(frozen.close)
    watching = await stack.enter_async_context(await Client.open(home.url))
    watched = await watching.subscribe(thread)
    for number in range(400):
        await home.writer(thread).title(f"{number}" + "x" * 20_000)
    await watching.until(lambda: watched.cursor["seq"] == 400)

    heard = await frozen.thaw(until=lambda frames: any(f.get("cursor", {}).get("seq") == 400 for f in frames))
    view = heard.view(thread)
    assert view.resets
    assert set(view.resets) == {"lagged"}
    assert view.state == watched.state


async def test_a_silent_peer_is_closed_and_a_living_one_kept(redis_url: str, stack: AsyncExitStack) -> None:
    home = await stack.enter_async_context(house(redis_url, limits=Limits(heartbeat=0.2, grace=0.3)))
    living = await stack.enter_async_context(await Client.open(home.url))
    silent = await stack.enter_async_context(connect(home.url, compression=None, ping_interval=None))
    await silent.send('{"type":"hello"}')
    async with asyncio.timeout(10):
        await silent.wait_closed()
    assert silent.close_code == Close.NO_PONG
    await living.until(lambda: sum(f["type"] == "ping" for f in living.frames) >= 4)
    assert living.closed is None


async def test_time_in_which_nobody_could_be_heard_is_no_silence() -> None:
    now = 100.0
    clock = Clock(lambda: now)
    ticks: list[float] = []
    beat = Heartbeat(clock, ticks.append, interval=0.01)
    beat.start()
    async with asyncio.timeout(5):
        while not ticks:
            await asyncio.sleep(0.005)
        now += 30.0  # the loop was blocked for half a minute
        heard = len(ticks)
        while len(ticks) == heard:
            await asyncio.sleep(0.005)
    await beat.stop()
    assert ticks[-1] - ticks[0] < 1.0


async def test_clients_that_vanish_leave_no_error_and_nothing_behind(
    redis_url: str, thread: str, stack: AsyncExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    """Case 95: the client vanishes between check and send; half of them without a closing handshake."""
    home = await stack.enter_async_context(house(redis_url))
    stop = asyncio.Event()

    async def produce() -> None:
        while not stop.is_set():
            await home.writer(thread).title("x" * 200)

    producing = asyncio.create_task(produce())
    before = 0
    caplog.set_level(logging.WARNING)
    for round in range(50):
        clients = await asyncio.gather(
            *(Client.open(home.url, hello={"subscribe": [{"thread": thread}]}) for _ in range(20))
        )
        for number, client in enumerate(clients):
            await client.send({"type": "submit", "id": f"{round}-{number}", "thread": thread, "action": "a", "data": 1})
        await asyncio.gather(*(c.cut() if n % 2 else c.close() for n, c in enumerate(clients)))
        before = before or len(asyncio.all_tasks())
    async with asyncio.timeout(10):
        while home.hub.connections or home.hub.subscriptions:
            await asyncio.sleep(0.01)
    stop.set()
    await producing
    errors = [r for r in caplog.records if r.levelno >= logging.ERROR]
    assert not errors, errors[0].getMessage()
    async with asyncio.timeout(10):
        while len(asyncio.all_tasks()) > before:
            await asyncio.sleep(0.01)


async def test_a_socket_cut_at_any_byte_of_the_greeting_can_be_resumed(
    home: House, thread: str, stack: AsyncExitStack
) -> None:
    """Case 64: cut after each frame of hello, welcome, snapshot, live."""
    for number in range(3):
        await home.writer(thread).say(str(number))
    for frames_read in range(4):
        async with connect(home.url, compression=None, ping_interval=None) as half:
            if frames_read:
                await half.send(json.dumps({"type": "hello", "subscribe": [{"thread": thread}]}))
            seen = 0
            async with asyncio.timeout(5):
                while seen < frames_read:
                    heard = json.loads(await half.recv())
                    seen += len(heard) if isinstance(heard, list) else 1
            half.transport.abort()
        client = await stack.enter_async_context(await Client.open(home.url))
        view = await client.subscribe(thread)
        assert len(view.state["messages"]) == 3
    async with asyncio.timeout(5):
        while home.hub.connections != 4:
            await asyncio.sleep(0.01)


async def test_a_store_that_is_away_refuses_by_name_and_keeps_everybody(
    tmp_path: Any, thread: str, stack: AsyncExitStack
) -> None:
    with start_server("valkey", tmp_path) as server:
        home = await stack.enter_async_context(house(server.url))
        client = await stack.enter_async_context(await Client.open(home.url))
        view = await client.subscribe(thread)
        await asyncio.to_thread(server.stop)
        with pytest.raises(Refusal) as refusal:
            await client.subscribe(f"{thread}-other")
        assert refusal.value.code == "unavailable"
        assert refusal.value.frame["retryMs"] > 0
        with pytest.raises(Refusal) as refusal:
            await client.command("history", thread=thread, before=5, limit=5)
        assert refusal.value.code == "unavailable"
        assert client.closed is None
        await asyncio.to_thread(server.start)
        home.writer(thread).forget()
        async with asyncio.timeout(30):
            while True:
                try:
                    await home.writer(thread).say("back")
                    break
                except Exception:
                    await asyncio.sleep(0.1)
        await client.until(lambda: len(view.state["messages"]) == 1, deadline=30)


# --- leaving


async def test_a_drain_says_goodbye_lets_clients_leave_and_closes_the_rest(
    home: House, thread: str, stack: AsyncExitStack
) -> None:
    leaving = await stack.enter_async_context(await Client.open(home.url))
    staying = await stack.enter_async_context(await Client.open(home.url))
    view = await staying.subscribe(thread)
    draining = asyncio.create_task(home.hub.drain(0.5))
    await leaving.until(lambda: leaving.frames[-1]["type"] == "goodbye")
    assert leaving.frames[-1] == {"type": "goodbye", "reason": "draining", "reconnectWithin": 500}
    await leaving.close()
    await staying.say(thread, "still served")
    await staying.until(lambda: view.cursor["seq"] == 1)
    assert staying.closed is None
    assert (await staying.wait_closed())[0] == Close.DRAINING
    await draining
    assert home.hub.connections == 0
    late = await stack.enter_async_context(connect(home.url, compression=None))
    async with asyncio.timeout(5):
        await late.wait_closed()
    assert late.close_code == Close.DRAINING


async def test_a_drain_ends_as_soon_as_everybody_has_left(home: House, stack: AsyncExitStack) -> None:
    client = await stack.enter_async_context(await Client.open(home.url))
    draining = asyncio.create_task(home.hub.drain(30))
    await client.until(lambda: client.frames[-1]["type"] == "goodbye")
    await client.close()
    await asyncio.wait_for(draining, 5)


async def test_commands_in_flight_are_answered_before_the_close(home: House, stack: AsyncExitStack) -> None:
    home.desk.hold = asyncio.Event()
    client = await stack.enter_async_context(await Client.open(home.url))
    answer = asyncio.create_task(client.submit("t", "a1", True))
    async with asyncio.timeout(5):
        while not home.desk.handled:
            await asyncio.sleep(0.01)
    draining = asyncio.create_task(home.hub.drain(0.05))
    async with asyncio.timeout(5):
        code = None
        while (
            code is None
        ):  # until the window is over new commands are served; then they are safely repeatable elsewhere
            try:
                await client.say("t", "more")
            except Refusal as refusal:
                code = refusal.code
    assert code == "unavailable"
    assert client.closed is None
    home.desk.hold.set()
    assert (await answer)["type"] == "ack"
    assert (await client.wait_closed())[0] == Close.DRAINING
    await draining


async def test_who_never_answers_the_close_is_gone_by_the_deadline(
    redis_url: str, thread: str, stack: AsyncExitStack
) -> None:
    home = await stack.enter_async_context(house(redis_url))
    frozen = await Frozen.open(home.port, thread)
    stack.callback(frozen.close)
    async with asyncio.timeout(5):
        while not home.hub.subscriptions:
            await asyncio.sleep(0.01)
    for _ in range(300):
        await home.writer(thread).title("x" * 20_000)
    started = time.monotonic()
    await home.hub.drain(0.1, deadline=1.0)
    assert time.monotonic() - started < 2.0
    async with asyncio.timeout(1):
        while home.hub.connections:
            await asyncio.sleep(0.01)


async def test_everything_sent_before_a_close_arrives_before_the_code(
    home: House, thread: str, stack: AsyncExitStack
) -> None:
    """Case 94: a big send, then close, to a slow reader."""
    frozen = await Frozen.open(home.port, thread)
    stack.callback(frozen.close)
    watching = await stack.enter_async_context(await Client.open(home.url))
    watched = await watching.subscribe(thread)
    for number in range(40):
        await home.writer(thread).say(f"{number}" + "x" * 20_000)
    await watching.until(lambda: watched.cursor["seq"] == 40)
    draining = asyncio.create_task(home.hub.drain(0.0))
    await watching.wait_closed()
    heard = await frozen.thaw()
    assert heard.code == Close.DRAINING
    assert heard.view(thread).state == watched.state
    frozen.close()
    await draining
