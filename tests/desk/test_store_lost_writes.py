"""The desk beside a store that went back in time, as a failover that lost acknowledged writes leaves it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator

import pytest
import redis

from support.servers import RedisServer, start_server
from waitpoint.auth import Identity
from waitpoint.desk import Desk
from waitpoint.store import RedisStore
from waitpoint_protocol import frames

ANN = Identity("ann")


async def yes(*_: object) -> bool:
    return True


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with start_server("valkey", tmp_path_factory.mktemp("desk")) as running:
        yield running


@pytest.fixture
async def store(server: RedisServer) -> AsyncIterator[RedisStore]:
    opened = RedisStore(server.url)
    await opened.open()
    yield opened
    await opened.close()


class TimeMachine:
    """Puts every key of a thread back to what it was."""

    def __init__(self, server: RedisServer, thread: str) -> None:
        self._redis = redis.Redis.from_url(server.url)
        self._thread = thread
        self._kept: dict[bytes, bytes] = {}

    def _keys(self) -> list[bytes]:
        return list(self._redis.scan_iter(f"wp:*:*:{self._thread}"))

    def keep(self) -> None:
        self._kept = {key: self._redis.dump(key) for key in self._keys()}  # type: ignore[misc]

    def go_back(self) -> None:
        self._redis.delete(*self._keys())
        for key, dumped in self._kept.items():
            self._redis.restore(key, 0, dumped)
        self._redis.close()


async def send(desk: Desk, thread: str, text: str) -> frames.Ack | frames.Reject:
    frame = frames.SendMessage(id=secrets.token_hex(4), thread=thread, parts=[frames.UserText(text=text)])
    return await asyncio.wait_for(desk.handle(thread, frame, ANN, "conn"), 3)


async def test_a_desk_that_remembers_lost_writes_believes_the_store(store: RedisStore, server: RedisServer) -> None:
    thread = f"t-{secrets.token_hex(4)}"
    desk = Desk(store, check_answer=lambda *_: (), may_answer=yes)
    machine = TimeMachine(server, thread)
    assert isinstance(await send(desk, thread, "kept"), frames.Ack)
    machine.keep()
    for n in range(3):
        assert isinstance(await send(desk, thread, f"lost {n}"), frames.Ack)
    await asyncio.to_thread(machine.go_back)
    assert isinstance(await send(desk, thread, "after"), frames.Ack)
    queued = (await desk.refresh(thread)).thread.queue
    assert [message.message["parts"][0]["text"] for message in queued] == ["after"]  # type: ignore[typeddict-item]


async def test_a_read_that_is_younger_and_yet_behind_replaces_what_is_remembered(
    store: RedisStore, server: RedisServer
) -> None:
    thread = f"t-{secrets.token_hex(4)}"
    desk = Desk(store, check_answer=lambda *_: (), may_answer=yes)
    machine = TimeMachine(server, thread)
    await send(desk, thread, "kept")
    machine.keep()
    await send(desk, thread, "lost")
    await asyncio.to_thread(machine.go_back)
    async with asyncio.timeout(3):
        while (await desk.refresh(thread)).thread.queue:  # only a clock tick of the store later can it tell
            pass


async def test_a_slower_read_does_not_undo_what_a_commit_has_taught(store: RedisStore) -> None:
    thread = f"t-{secrets.token_hex(4)}"
    desk = Desk(store, check_answer=lambda *_: (), may_answer=yes)
    await send(desk, thread, "one")
    old = await store.head(thread)
    await send(desk, thread, "two")
    assert len(desk.observe(thread, old).thread.queue) == 1
