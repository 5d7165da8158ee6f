"""A subscriber is a place in a thread's log: it gets there from anywhere, and misses and repeats nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgpack
import pytest

from support.client import View
from support.house import CountingStore, Writer, message
from waitpoint.hub.fanout import Fanout
from waitpoint.hub.follow import Follow
from waitpoint.hub.limits import Sizes
from waitpoint.store.follow import Follower
from waitpoint_protocol import events as e
from waitpoint_protocol.codec import JSON, MSGPACK, Codec
from waitpoint_protocol.frames import Cursor
from waitpoint_protocol.state import empty
from waitpoint_protocol.view import fold

SMALL = Sizes(ring_batches=8, replay_events=20, page=3, reuse=2)


class Reader:
    """A subscriber without a socket: takes what it is offered unless it is told to be slow."""

    def __init__(self, fanout: Fanout, thread: str, codec: Codec = JSON, budget: int = 262_144) -> None:
        self.codec = codec
        self.view = View(thread)
        self.frames: list[dict[str, Any]] = []
        self.raw: list[bytes] = []
        self.slow = False
        self._fanout = fanout
        self._budget = budget
        self._offered = False
        self._changed = asyncio.Event()
        self.follow = fanout.follow(thread, self)

    async def begin(self, cursor: Cursor | dict[str, Any] | None = None) -> Reader:
        if cursor is not None:
            self.view.cursor = dict(cursor)
        await self.follow.begin(Cursor(**cursor) if isinstance(cursor, dict) else cursor)
        return self

    def mark(self, follow: Follow) -> None:
        self._offered = True
        if not self.slow:
            asyncio.get_running_loop().call_soon(self.catch_up)

    def catch_up(self) -> None:
        self.slow = False
        while self._offered:
            frames, self._offered = self.follow.take(self._budget)
            for raw in frames:
                frame = msgpack.unpackb(raw) if self.codec.binary else json.loads(raw)
                self.raw.append(raw)
                self.frames.append(frame)
                self.view.hear(frame)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def at(self, seq: int) -> None:
        await self.until(lambda: self.view.live and self.view.cursor["seq"] == seq)

    @property
    def kinds(self) -> list[str]:
        return [frame["type"] for frame in self.frames]

    def leave(self) -> None:
        self._fanout.leave(self.follow)


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[CountingStore]:
    opened = CountingStore(redis_url)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def follower(store: CountingStore) -> AsyncIterator[Follower]:
    started = Follower(store)
    await started.start()
    yield started
    await started.stop()


@pytest.fixture
async def fanout(store: CountingStore, follower: Follower) -> AsyncIterator[Fanout]:
    made = Fanout(follower, store)
    yield made
    made.close()


@pytest.fixture
async def small(store: CountingStore, follower: Follower) -> AsyncIterator[Fanout]:
    """A fanout that holds very little."""
    made = Fanout(follower, store, sizes=SMALL)
    yield made
    made.close()


@pytest.fixture
def writer(store: CountingStore, thread: str) -> Writer:
    return Writer(store, thread)


# --- from a snapshot


@pytest.mark.parametrize("codec", [JSON, MSGPACK], ids=["json", "msgpack"])
async def test_a_new_subscriber_gets_a_snapshot_then_live_then_what_happens(
    fanout: Fanout, writer: Writer, codec: Codec
) -> None:
    await writer.say("one")
    reader = await Reader(fanout, writer.thread, codec).begin()
    await reader.at(1)
    assert reader.kinds == ["snapshot", "live"]
    assert [m["parts"][0]["text"] for m in reader.view.state["messages"]] == ["one"]  # type: ignore[typeddict-item]

    await writer.write(e.MessageAdded(message=message("zwei ✓ 🙂")), e.ThreadUpdated(title="T"))
    await reader.at(3)
    assert reader.kinds == ["snapshot", "live", "events"]
    assert reader.view.state["title"] == "T"


async def test_a_thread_in_which_nothing_happened_can_be_followed_from_its_first_event(
    fanout: Fanout, writer: Writer
) -> None:
    reader = await Reader(fanout, writer.thread).begin()
    await reader.until(lambda: reader.view.live)
    assert reader.view.state == empty(writer.thread)
    assert reader.view.cursor == {"log": "", "seq": 0, "tag": ""}
    await writer.say("first")
    await reader.at(1)
    assert len(reader.view.state["messages"]) == 1


async def test_a_snapshot_is_checkpoint_page_and_tail(small: Fanout, writer: Writer) -> None:
    finished = [message(f"old {n}") for n in range(10)]
    state = empty(writer.thread)
    state["title"] = "from the checkpoint"
    fold(state, [e.MessageStart(message_id="open", at=finished[0]["at"])])
    await writer.write(e.ThreadUpdated(title="x"), view=state, messages=finished)
    await writer.write(e.TextStart(id="p", step=1), e.TextDelta(id="p", delta="after"))
    reader = await Reader(small, writer.thread).begin()
    await reader.at(3)
    view = reader.view.state
    assert view["title"] == "from the checkpoint"
    assert [m["id"] for m in view["messages"][:-1]] == [m["id"] for m in finished[-3:]]
    assert view["before"] == 7
    assert view["messages"][-1]["id"] == "open"
    assert view["messages"][-1]["parts"][0]["text"] == "after"  # type: ignore[typeddict-item]


async def test_finished_messages_beyond_a_page_are_counted_and_left_out(small: Fanout, writer: Writer) -> None:
    first = await Reader(small, writer.thread).begin()
    for number in range(7):
        await writer.say(f"m{number}")
    await first.at(7)
    late = await Reader(small, writer.thread).begin()
    await late.at(7)
    assert late.view.state["before"] == 4
    assert late.view.state["messages"] == first.view.state["messages"][-3:]


async def test_a_large_snapshot_comes_in_parts_that_make_the_view(
    store: CountingStore, follower: Follower, writer: Writer
) -> None:
    fanout = Fanout(follower, store, sizes=Sizes(part_bytes=1000))
    for number in range(12):
        await writer.say(f"{number} " + "é" * 200)
    reader = await Reader(fanout, writer.thread, budget=1).begin()
    await reader.at(12)
    parts = [frame["part"] for frame in reader.frames if frame["type"] == "snapshot"]
    assert len(parts) > 3
    assert parts == [{"index": n, "of": len(parts)} for n in range(1, len(parts) + 1)]
    assert [m["parts"][0]["text"].split()[0] for m in reader.view.state["messages"]] == [str(n) for n in range(12)]  # type: ignore[typeddict-item]
    fanout.close()


async def test_a_snapshot_is_spelled_once_for_everybody(fanout: Fanout, writer: Writer) -> None:
    await writer.say("one")
    readers = [await Reader(fanout, writer.thread).begin() for _ in range(3)]
    for reader in readers:
        await reader.at(1)
    await writer.say("two")
    for reader in readers:
        await reader.at(2)
    assert readers[0].raw[0] is readers[1].raw[0] is readers[2].raw[0]
    assert readers[0].raw[-1] is readers[1].raw[-1] is readers[2].raw[-1]


async def test_a_view_that_is_kept_equals_one_that_is_read_anew(
    fanout: Fanout, store: CountingStore, follower: Follower, writer: Writer
) -> None:
    reader = await Reader(fanout, writer.thread).begin()
    for number in range(100):
        await writer.say(str(number))
    await reader.at(100)
    kept = await Reader(fanout, writer.thread).begin()
    await kept.at(100)
    other = Fanout(follower, store)
    anew = await Reader(other, writer.thread).begin()
    await anew.at(100)
    assert kept.view.state == anew.view.state
    other.close()


# --- from a cursor


async def test_a_cursor_gets_exactly_what_follows_it(fanout: Fanout, writer: Writer) -> None:
    before = await Reader(fanout, writer.thread).begin()
    await writer.say("one")
    await before.at(1)
    before.leave()
    cursor = before.view.cursor
    await writer.say("two")
    await writer.say("three")
    again = await Reader(fanout, writer.thread).begin(cursor)
    await again.at(3)
    # What was committed a moment ago may arrive after "live"; the view checks that nothing is missed or repeated.
    assert sorted(again.kinds) == ["events", "events", "live"]


async def test_a_cursor_at_the_head_gets_live_and_nothing_else(fanout: Fanout, writer: Writer) -> None:
    first = await Reader(fanout, writer.thread).begin()
    await writer.say("one")
    await first.at(1)
    for _ in range(5):
        again = await Reader(fanout, writer.thread).begin(first.view.cursor)
        await again.at(1)
        assert again.kinds == ["live"]
        again.leave()


async def test_the_cursor_of_an_empty_thread_gets_everything(fanout: Fanout, writer: Writer) -> None:
    await writer.say("one")
    await writer.say("two")
    reader = await Reader(fanout, writer.thread).begin({"log": "", "seq": 0, "tag": ""})
    await reader.at(2)
    assert reader.kinds == ["events", "events", "live"]


async def test_a_cursor_older_than_the_ring_is_served_from_the_store(small: Fanout, writer: Writer) -> None:
    first = await Reader(small, writer.thread).begin()
    await writer.say("one")
    await first.at(1)
    old = first.view.cursor
    for number in range(15):
        await writer.title(str(number))
    await first.at(16)
    again = await Reader(small, writer.thread).begin(old)
    await again.at(16)
    assert again.kinds == ["events"] * 15 + ["live"]


async def test_a_cursor_too_far_behind_is_reset_to_a_snapshot(small: Fanout, writer: Writer) -> None:
    first = await Reader(small, writer.thread).begin()
    await writer.say("one")
    await first.at(1)
    old = first.view.cursor
    for number in range(40):
        await writer.title(str(number))
    await first.at(41)
    again = await Reader(small, writer.thread).begin(old)
    await again.at(41)
    assert again.kinds[:2] == ["reset", "snapshot"]
    assert again.kinds[-1] == "live"
    assert again.view.resets == ["lagged"]
    assert again.view.state == first.view.state


async def test_a_cursor_from_before_the_trim_is_gone(small: Fanout, writer: Writer) -> None:
    first = await Reader(small, writer.thread).begin()
    await writer.say("one")
    await first.at(1)
    old = first.view.cursor
    for number in range(30):
        await writer.title(str(number))
    await first.at(31)
    await writer.write(e.ThreadUpdated(title="z"), view=first.view.state, keep=4)
    await first.at(32)
    again = await Reader(small, writer.thread).begin(old)
    await again.at(32)
    assert again.view.resets == ["gone"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"tag": "other"}, "forked"),
        ({"seq": 99}, "forked"),
        ({"log": "other"}, "log-lost"),
        ({"log": "other", "seq": 0, "tag": ""}, "log-lost"),
    ],
)
async def test_a_crafted_cursor_is_reset(fanout: Fanout, writer: Writer, change: dict[str, Any], why: str) -> None:
    first = await Reader(fanout, writer.thread).begin()
    await writer.say("one")
    await writer.say("two")
    await first.at(2)
    again = await Reader(fanout, writer.thread).begin({**first.view.cursor, **change})
    await again.at(2)
    assert again.view.resets == [why]
    assert again.view.state == first.view.state


async def test_a_cursor_of_another_thread_is_reset_on_this_one_only(fanout: Fanout, store: CountingStore) -> None:
    mine, theirs = Writer(store, "mine-x"), Writer(store, "theirs-x")
    await mine.say("mine")
    await theirs.say("theirs")
    reader = await Reader(fanout, "theirs-x").begin()
    await reader.at(1)
    crossed = await Reader(fanout, "mine-x").begin(reader.view.cursor)
    await crossed.at(1)
    assert crossed.view.resets == ["log-lost"]
    assert crossed.view.state["messages"][0]["parts"][0]["text"] == "mine"  # type: ignore[typeddict-item]
    assert reader.view.resets == []


# --- slow, lost, reset


async def test_a_subscriber_that_leaves_the_ring_is_told_so_and_gets_a_snapshot(small: Fanout, writer: Writer) -> None:
    fast = await Reader(small, writer.thread).begin()
    slow = await Reader(small, writer.thread).begin()
    await writer.say("one")
    await slow.at(1)
    slow.slow = True
    for number in range(60):
        await writer.title(str(number))
    await fast.at(61)
    assert slow.view.cursor["seq"] == 1
    slow.catch_up()
    await slow.at(61)
    assert slow.view.resets == ["lagged"]
    assert slow.view.state == fast.view.state
    assert fast.view.resets == []


async def test_a_subscriber_a_little_off_the_ring_gets_the_events_it_missed(small: Fanout, writer: Writer) -> None:
    fast = await Reader(small, writer.thread).begin()
    slow = await Reader(small, writer.thread).begin()
    await writer.say("one")
    await slow.at(1)
    slow.slow = True
    for number in range(15):
        await writer.title(str(number))
    await fast.at(16)
    slow.catch_up()
    await slow.at(16)
    assert slow.view.resets == []
    assert slow.view.state == fast.view.state


async def test_a_store_that_was_emptied_resets_everybody(
    store: CountingStore, follower: Follower, writer: Writer, redis_server: Any
) -> None:
    fanout = Fanout(follower, store)
    readers = [await Reader(fanout, writer.thread).begin() for _ in range(2)]
    for number in range(3):
        await writer.title(str(number))
    for reader in readers:
        await reader.at(3)
    await store.delete(writer.thread)
    writer.forget()
    for number in range(5):
        await writer.title(f"new {number}")
    for reader in readers:
        await reader.until(lambda reader=reader: reader.view.live and reader.view.state.get("title") == "new 4")  # type: ignore[misc]
        assert set(reader.view.resets) == {"log-lost"}
    fanout.close()


async def test_leaving_while_joining_takes_nothing_from_the_others(fanout: Fanout, writer: Writer) -> None:
    await writer.say("one")
    leaving = Reader(fanout, writer.thread)
    joining = asyncio.create_task(leaving.begin())
    staying = Reader(fanout, writer.thread)
    await asyncio.sleep(0)
    leaving.leave()
    joining.cancel()
    await asyncio.gather(joining, return_exceptions=True)
    await staying.begin()
    await staying.at(1)
    assert leaving.frames == []
    assert fanout.subscriptions == 1


async def test_a_channel_outlives_its_last_subscriber_a_little_and_then_goes(
    store: CountingStore, follower: Follower, writer: Writer
) -> None:
    fanout = Fanout(follower, store, linger=0.05)
    await writer.say("one")
    reader = await Reader(fanout, writer.thread).begin()
    await reader.at(1)
    joins = store.joins
    reader.leave()
    again = await Reader(fanout, writer.thread).begin()
    await again.at(1)
    assert store.joins == joins
    again.leave()
    async with asyncio.timeout(5):
        while fanout.threads:
            await asyncio.sleep(0.01)
    fanout.close()


async def test_many_at_once_share_one_join_and_all_see_the_same(
    fanout: Fanout, store: CountingStore, writer: Writer
) -> None:
    """Case 61: 200 subscribers at once under load, each twice and with an unsubscribe between."""
    await writer.say("one")
    store.joins = 0
    stop = asyncio.Event()

    async def produce() -> int:
        written = 1
        while not stop.is_set():
            await writer.title(str(written))
            written += 1
        return written

    producing = asyncio.create_task(produce())

    async def come() -> Reader:
        first = Reader(fanout, writer.thread)
        entering = asyncio.create_task(first.begin())
        await asyncio.sleep(0)
        first.leave()
        entering.cancel()
        await asyncio.gather(entering, return_exceptions=True)
        return await Reader(fanout, writer.thread).begin()

    async with asyncio.timeout(10):
        readers = await asyncio.gather(*(come() for _ in range(200)))
        for reader in readers:
            await reader.until(lambda reader=reader: reader.view.live)  # type: ignore[misc]
    assert store.joins == 1
    stop.set()
    written = await producing
    for reader in readers:
        await reader.at(written)
        assert reader.view.resets == []
        assert reader.view.state == readers[0].view.state
    assert fanout.subscriptions == 200
