"""Following threads live: joining without a race, and noticing whatever was missed.

Knows feeds, the subscriber and the store's reads; has no idea what an event means. A published batch is only a hint
that happens to carry the body: it is taken if it continues the chain, and everything else is settled by asking the
store. Lost messages are found by the chain, by comparing heads after each (re)subscription, and by a slow check.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import assert_never

from waitpoint_protocol.codes import ResetWhy

from ..errors import StoreError
from .feed import Feed, Listener, contiguous
from .redis import RedisStore
from .replies import published
from .subscriber import Subscriber
from .types import Batch, Forked, Gone, Joined, LogLost, Replay, StoreUnavailable

__all__ = ["Feed", "Follower", "Listener"]

logger = logging.getLogger(__name__)

CHECK_CHUNK = 256
"""Heads read together by the background check."""

DEAF_CHECKS = 2
"""Checks in a row that find missed batches before the subscriber connection is believed to be deaf and replaced."""

RETRY = (0.05, 0.1, 0.25, 0.5, 1.0)


class _Attached(Feed):
    """A feed with what the follower needs to keep it whole."""

    def __init__(self, thread: str, channel: bytes) -> None:
        super().__init__(thread)
        self.channel = channel
        self.holds = 0
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.mending: asyncio.Task[None] | None = None

    def fail(self, error: BaseException) -> None:
        if not self.ready.done():
            self.ready.set_exception(error)
            self.ready.exception()  # every waiter may have gone; then nobody else looks at it


class Follower:
    """Follows threads for one instance, over one subscriber connection.

    ``page`` finished messages come with each join. ``check`` is how often (s) heads are compared, ``probe`` how long a
    silent subscriber connection is trusted.
    """

    def __init__(self, store: RedisStore, *, page: int = 50, check: float = 3.0, probe: float = 3.0) -> None:
        self._store = store
        self._page = page
        self._check = check
        self._feeds: dict[bytes, _Attached] = {}
        self._subscriber = Subscriber(store.endpoint, on_message=self._on_message, on_gap=self._on_gap, probe=probe)
        self._look = asyncio.Event()
        self._checker: asyncio.Task[None] | None = None
        self._deaf_checks = 0

    @property
    def healthy(self) -> bool:
        """Whether the subscriber connection is up and hears every followed thread."""
        return self._subscriber.healthy

    @property
    def threads(self) -> int:
        """How many threads are followed."""
        return len(self._feeds)

    async def start(self) -> None:
        """Connect in the background; threads can be attached at once."""
        self._subscriber.start()
        self._checker = asyncio.create_task(self._check_for_ever(), name="follower check")

    async def stop(self) -> None:
        """Let go of every thread."""
        tasks = [feed.mending for feed in self._feeds.values() if feed.mending is not None]
        if self._checker is not None:
            tasks.append(self._checker)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for feed in self._feeds.values():
            feed.fail(StoreUnavailable("the follower was stopped"))
        self._feeds.clear()
        await self._subscriber.stop()

    async def attach(self, thread: str, listener: Listener) -> Feed:
        """Follow ``thread``: the returned feed stands at its head, and ``listener`` is told what comes after.

        Between the return of this coroutine and the next ``await`` nothing is delivered; await it directly (not as a
        task) to read the feed and start listening at the same place. Raises ``StoreUnavailable``.
        """
        channel = self._store.keys.of(thread).channel
        feed = self._feeds.get(channel)
        if feed is None:
            feed = self._feeds[channel] = _Attached(thread, channel)
            feed.mending = asyncio.create_task(self._open(feed), name=f"join {thread}")
        feed.holds += 1
        try:
            while not feed.ready.done():
                await asyncio.shield(feed.ready)
            feed.ready.result()
        except BaseException:
            self._let_go(feed)
            raise
        feed.add(listener)
        return feed

    def detach(self, thread: str, listener: Listener) -> None:
        """Stop telling ``listener``. The last one to go ends the following."""
        feed = self._feeds.get(self._store.keys.of(thread).channel)
        if feed is not None and feed.remove(listener):
            self._let_go(feed)

    def _let_go(self, feed: _Attached) -> None:
        feed.holds -= 1
        if feed.holds == 0 and self._feeds.get(feed.channel) is feed:
            del self._feeds[feed.channel]
            if feed.mending is not None:
                feed.mending.cancel()
            self._subscriber.unsubscribe(feed.channel)

    # --- what is published

    def _on_message(self, channel: bytes, message: bytes) -> None:
        feed = self._feeds.get(channel)
        if feed is None:
            return
        batch = published(message)
        if feed.mending is not None:
            feed.hold(batch)
            return
        match feed.verdict(batch):
            case "next":
                feed.deliver(batch)
            case "old":
                pass
            case "odd":
                self._mend(feed)

    def _on_gap(self) -> None:
        self._look.set()

    # --- joining

    async def _open(self, feed: _Attached) -> None:
        try:
            await self._subscriber.subscribe(feed.channel)
            feed.start(await self._join(feed.thread))
            feed.mending = None
            feed.ready.set_result(None)
            if self._take_in_held(feed, after_join=True):
                self._mend(feed)
        except asyncio.CancelledError:
            feed.fail(StoreUnavailable("nobody follows the thread any more"))
            raise
        except Exception as error:
            # The next attach starts over; those who waited are told and let go.
            if self._feeds.get(feed.channel) is feed:
                del self._feeds[feed.channel]
                self._subscriber.unsubscribe(feed.channel)
            feed.fail(error)

    async def _join(self, thread: str) -> Joined:
        for _ in range(2):
            joined = await self._store.join(thread, page=self._page)
            if contiguous(joined):
                return joined
        raise StoreError(f"thread {thread}: the stored log has a hole between its checkpoint and its head")

    def _take_in_held(self, feed: _Attached, *, after_join: bool = False) -> bool:
        """Deliver what arrived meanwhile; ``True`` if the store has to be asked (again)."""
        held, ask = feed.take_held()
        for batch in held:
            match feed.verdict(batch):
                case "next":
                    feed.deliver(batch)
                case "odd":
                    # Older than the join: the join is the truth about those positions, whatever this one said.
                    before_join = after_join and batch.log == feed.head.log and batch.last <= feed.joined.head.seq
                    ask = ask or not before_join
                case "old":
                    pass
        return ask

    # --- mending

    def _mend(self, feed: _Attached) -> None:
        if feed.mending is None:
            feed.mending = asyncio.create_task(self._mend_until_whole(feed), name=f"mend {feed.thread}")

    async def _mend_until_whole(self, feed: _Attached) -> None:
        failures = 0
        while True:
            try:
                whole = await self._mend_once(feed)
                failures = 0
            except Exception as error:
                # The feed stands still but stays right; what it missed is fetched as soon as the store answers.
                if isinstance(error, StoreUnavailable):
                    logger.info("thread %s: cannot catch up now: %s", feed.thread, error)
                else:
                    logger.exception("thread %s: catching up failed", feed.thread)
                await asyncio.sleep(RETRY[min(failures, len(RETRY) - 1)])
                failures += 1
                continue
            if whole:
                feed.mending = None
                return

    async def _mend_once(self, feed: _Attached) -> bool:
        result = await self._store.replay(feed.thread, feed.head)
        match result:
            case Replay():
                if not _follow_on(feed, result.batches):
                    await self._rejoin(feed, "forked")
                    return not self._take_in_held(feed, after_join=True)
                if result.head.seq == feed.head.seq == 0:
                    feed.head = result.head  # a log came to be, still without an entry
                return not result.more and not self._take_in_held(feed)
            case Gone():
                await self._rejoin(feed, "gone")
            case Forked():
                await self._rejoin(feed, "forked")
            case LogLost():
                await self._rejoin(feed, "log-lost")
            case _:
                assert_never(result)
        return not self._take_in_held(feed, after_join=True)

    async def _rejoin(self, feed: _Attached, why: ResetWhy) -> None:
        logger.info("thread %s: joining anew: %s", feed.thread, why)
        feed.start(await self._join(feed.thread))
        feed.announce_reset(why)

    # --- the slow check

    async def _check_for_ever(self) -> None:
        while True:
            try:
                # Not wait_for: before Python 3.12 it swallows a cancellation that meets the event.
                async with asyncio.timeout(self._check):
                    await self._look.wait()
                after_gap = True
            except TimeoutError:
                after_gap = False
            self._look.clear()
            try:
                behind = await self._compare_heads()
            except StoreUnavailable as error:
                logger.info("cannot compare heads now: %s", error)
                await asyncio.sleep(RETRY[2])
                self._look.set()
                continue
            except Exception:
                logger.exception("comparing heads failed")
                continue
            self._judge_hearing(behind, after_gap)

    async def _compare_heads(self) -> int:
        """Mend every feed that is not at its thread's head; returns how many there were."""
        behind = 0
        feeds = list(self._feeds.values())
        for start in range(0, len(feeds), CHECK_CHUNK):
            chunk = [(feed, feed.head) for feed in feeds[start : start + CHECK_CHUNK] if feed.mending is None]
            cursors = await self._store.cursors([feed.thread for feed, _ in chunk])
            for (feed, seen), cursor in zip(chunk, cursors, strict=True):
                # One that moved meanwhile is alive; comparing it would only find the race between two connections.
                if feed.head == seen != cursor and feed.mending is None and self._feeds.get(feed.channel) is feed:
                    behind += 1
                    self._mend(feed)
        return behind

    def _judge_hearing(self, behind: int, after_gap: bool) -> None:
        self._deaf_checks = self._deaf_checks + 1 if behind and not after_gap else 0
        if self._deaf_checks >= DEAF_CHECKS:
            logger.warning("batches of %d threads were not heard: replacing the subscriber connection", behind)
            self._deaf_checks = 0
            self._subscriber.rebuild()


def _follow_on(feed: Feed, batches: Sequence[Batch]) -> bool:
    for batch in batches:
        if feed.verdict(batch) != "next":
            return False
        feed.deliver(batch)
    return True
