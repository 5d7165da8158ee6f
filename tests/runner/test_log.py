"""The driver's side of the log on a real store: exact whoever writes between, bounded whatever is emitted."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from support.servers import RedisServer, start_server
from waitpoint.auth import Identity
from waitpoint.desk import Desk, Driven
from waitpoint.runner.log import MAX_BUFFERED, DriverLog, TooMuch
from waitpoint.store import Claimed, RedisStore
from waitpoint.thread import CloseTurn, FinishStep, StartStep
from waitpoint.thread.snapshot import build
from waitpoint_protocol import events as e
from waitpoint_protocol import frames
from waitpoint_protocol.state import ThreadState
from waitpoint_protocol.view import fold

ANN = Identity("ann")


async def yes(*_: object) -> bool:
    return True


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with start_server("valkey", tmp_path_factory.mktemp("log")) as running:
        yield running


class Scene:
    """A thread that this instance drives, and the desk of another instance."""

    def __init__(self, store: RedisStore) -> None:
        self.store = store
        self.thread = f"t-{secrets.token_hex(4)}"
        self.desk = Desk(store, check_answer=lambda *_: (), may_answer=yes)
        self.elsewhere = Desk(store, check_answer=lambda *_: (), may_answer=yes)
        self.log: DriverLog
        self.foreign = 0

    async def say(self, desk: Desk, text: str) -> None:
        frame = frames.SendMessage(id=secrets.token_hex(4), thread=self.thread, parts=[frames.UserText(text=text)])
        reply = await desk.handle(self.thread, frame, ANN, "conn")
        assert isinstance(reply, frames.Ack), reply

    async def drive(self) -> None:
        claimed = await self.store.claim(self.thread, owner="me", nonce=secrets.token_hex(4), lease=60_000)
        assert isinstance(claimed, Claimed)
        self.log = DriverLog(
            self.store,
            self.desk,
            await self.store.join(self.thread, page=1),
            thread=self.thread,
            fence=claimed.head.fence,
            alive=lambda: True,
            on_foreign=self._seen,
        )

    def _seen(self) -> None:
        self.foreign += 1

    async def do(self, command: Any, **options: Any) -> Driven:
        driven = await self.log.command(command, **options)
        assert isinstance(driven, Driven)
        return driven

    async def stored_view(self) -> ThreadState:
        joined = await self.store.join(self.thread, page=1)
        state = build(self.thread, joined.checkpoint, joined.messages, joined.messages_before)
        for batch in joined.batches:
            fold(state, e.decode_events(batch.body))
        return state

    def close(self) -> CloseTurn:
        message = self.log.finished_message()
        assert message is not None
        return CloseTurn(self.log.fence, message)


@pytest.fixture
async def scene(server: RedisServer) -> AsyncIterator[Scene]:
    store = RedisStore(server.url)
    await store.open()
    scene = Scene(store)
    await scene.say(scene.desk, "first")
    await scene.drive()
    yield scene
    with contextlib.suppress(AttributeError):
        await scene.log.close()
    await store.close()


async def test_a_commit_without_events_notices_what_somebody_else_wrote_before_it(scene: Scene) -> None:
    fence = scene.log.fence
    await scene.do(StartStep(fence))
    await scene.do(FinishStep(fence, 0, "stop"))
    await scene.do(scene.close)
    await scene.say(scene.elsewhere, "second")
    await scene.desk.refresh(scene.thread)
    started = await scene.do(StartStep(fence))
    assert started.events == ()
    opened = scene.log.open_message()
    assert opened is not None
    turn = started.snapshot.thread.turn
    assert turn is not None
    assert opened["id"] == turn.message
    assert scene.foreign == 1


async def test_checkpoints_go_on_after_somebody_else_wrote_and_stay_exact(scene: Scene) -> None:
    await scene.do(StartStep(scene.log.fence))
    await scene.log.emit(e.TextStart(id="p1", step=0))
    await scene.say(scene.elsewhere, "queued")
    for n in range(1_000):
        await scene.log.emit(e.TextDelta(id="p1", delta=f"{n} "))
        if n % 50 == 0:
            await scene.log.sync(await scene.desk.current(scene.thread))
    await scene.log.sync(await scene.desk.current(scene.thread))
    joined = await scene.store.join(scene.thread, page=1)
    assert joined.head.seq - joined.checkpoint_seq < 400
    state = await scene.stored_view()
    assert [message["parts"][0]["text"] for message in state["queued"]] == ["queued"]  # type: ignore[typeddict-item]
    assert scene.log.open_message() == state["messages"][-1]
    text: Any = state["messages"][-1]["parts"][0]
    assert text["text"] == "".join(f"{n} " for n in range(1_000))


async def test_a_command_waits_for_what_was_emitted_before_it_and_for_no_more(scene: Scene) -> None:
    fence = scene.log.fence
    await scene.do(StartStep(fence))

    async def chatter() -> None:
        n = 0
        while True:
            await scene.log.emit(e.DataEvent(id=f"d{n % 10}", name="n", data=n))
            n += 1
            await asyncio.sleep(0)

    chatting = asyncio.create_task(chatter())
    try:
        async with asyncio.timeout(3):
            await scene.do(FinishStep(fence, 0, "stop"))
    finally:
        chatting.cancel()
        await asyncio.gather(chatting, return_exceptions=True)


async def test_of_a_calls_progress_only_the_newest_waits_for_the_store(scene: Scene) -> None:
    before = scene.log.cursor.seq
    for n in range(100_000):
        scene.log.emit_nowait(e.ToolProgress(tool_call_id="a", progress={"message": str(n)}))
        if n % 1000 == 0:
            scene.log.emit_nowait(e.ToolProgress(tool_call_id="b", progress={"message": str(n)}))
    await scene.log.sync(await scene.desk.current(scene.thread))
    assert scene.log.cursor.seq == before + 2
    joined = await scene.store.join(scene.thread, page=1)
    (last,) = [e.decode_events(batch.body) for batch in joined.batches[-1:]]
    assert [event.model_dump()["progress"]["message"] for event in last] == ["99999", "99000"]


async def test_who_emits_without_waiting_is_refused_before_memory_runs_out(scene: Scene) -> None:
    for n in range(MAX_BUFFERED):
        scene.log.emit_nowait(e.DataEvent(id=f"d{n}", name="n", data=n))
    with pytest.raises(TooMuch, match=str(MAX_BUFFERED)):
        scene.log.emit_nowait(e.DataEvent(id="more", name="n", data=1))
    await scene.log.sync(await scene.desk.current(scene.thread))
    scene.log.emit_nowait(e.DataEvent(id="later", name="n", data=1))  # there is room again
