"""Claim, renew, release: one live fence per thread, crashes counted, nothing lost between them."""

from __future__ import annotations

import asyncio
from typing import Any

from support.commits import LOG, NEVER, NOW, append, begin, claim
from support.servers import RedisServer
from waitpoint.store import Busy, Claimed, Commit, Committed, Due, Fenced, NotDue, RedisStore


async def past(store: RedisStore, thread: str, moment: int) -> None:
    """Wait until the store's clock is past a moment."""
    async with asyncio.timeout(5):
        while (await store.head(thread)).now <= moment:
            await asyncio.sleep(0.005)


async def test_only_a_due_thread_is_claimed(store: RedisStore, thread: str) -> None:
    async def attempt() -> Any:
        return await store.claim(thread, owner="a", nonce="n", lease=1000)

    assert await attempt() == NotDue()  # no such thread
    await begin(store, thread)
    assert await attempt() == NotDue()  # never due
    await append(store, thread, due=Due((await store.head(thread)).now + 60_000))
    assert await attempt() == NotDue()  # later
    await append(store, thread, due=NOW)
    assert isinstance(await attempt(), Claimed)


async def test_claim_of_a_missing_thread_clears_its_appointment(
    store: RedisStore, server: RedisServer, thread: str
) -> None:
    server.client().zadd(store.keys.of(thread).due, {thread: 1})
    assert await store.claim(thread, owner="a", nonce="n", lease=1000) == NotDue()
    assert thread not in await store.due(limit=1000)


async def test_claim_returns_the_head_with_the_lease(store: RedisStore, thread: str) -> None:
    await begin(store, thread, due=NOW)
    claimed = await claim(store, thread, owner="me", lease=7000)
    head = claimed.head
    assert (head.log, head.seq, head.control, head.owner) == (LOG, 1, b"c1", "me")
    assert head.lease_until == head.now + 7000
    assert head.fence > 0
    assert claimed.crashes == 0


async def test_leased_thread_is_busy_for_everybody_else(store: RedisStore, thread: str) -> None:
    await begin(store, thread, due=NOW)
    head = (await claim(store, thread, owner="a")).head
    assert await store.claim(thread, owner="b", nonce="other", lease=1000) == Busy("a", head.lease_until)
    # A process of the same name is still somebody else: the nonce is what counts.
    assert isinstance(await store.claim(thread, owner="a", nonce="other", lease=1000), Busy)


async def test_repeated_claim_gets_the_same_fence(store: RedisStore, thread: str) -> None:
    await begin(store, thread, due=NOW)
    first = await claim(store, thread, nonce="n1")
    result = await store.commit(
        Commit(thread=thread, log=LOG, tag="d", fence=first.head.fence, batch=1, count=1, body=b"[2]")
    )
    assert isinstance(result, Committed)
    again = await claim(store, thread, nonce="n1")
    assert (again.head.fence, again.crashes) == (first.head.fence, 0)
    # ... and the batch numbers go on.
    repeated = await store.commit(
        Commit(thread=thread, log=LOG, tag="d", fence=first.head.fence, batch=1, count=1, body=b"[2]")
    )
    assert isinstance(repeated, Committed)
    assert repeated.repeated


async def test_repeated_claim_of_a_lease_that_ran_out_is_no_crash(store: RedisStore, thread: str) -> None:
    await begin(store, thread, due=NOW)
    first = await claim(store, thread, nonce="n1", lease=1)
    await past(store, thread, first.head.lease_until)
    again = await claim(store, thread, nonce="n1", lease=5000)
    assert (again.head.fence, again.crashes) == (first.head.fence, 0)
    assert again.head.lease_until == again.head.now + 5000


async def test_nonce_of_a_released_lease_claims_nothing(store: RedisStore, thread: str) -> None:
    await begin(store, thread, due=NOW)
    fence = (await claim(store, thread, nonce="n1")).head.fence
    await store.release(thread, fence=fence, rev=1, due=NEVER)
    assert await store.claim(thread, owner="a", nonce="n1", lease=1000) == NotDue()


async def test_lease_that_ran_out_makes_the_thread_due_by_itself(store: RedisStore, thread: str) -> None:
    await begin(store, thread, due=NOW)
    head = (await claim(store, thread, lease=30)).head
    assert thread not in await store.due(limit=1000)
    await past(store, thread, head.lease_until)
    assert thread in await store.due(limit=1000)


async def test_crashes_count_up_until_a_release(store: RedisStore, thread: str) -> None:
    await begin(store, thread, due=NOW)
    fences = []
    for crashes in range(3):
        claimed = await claim(store, thread, lease=1)
        assert claimed.crashes == crashes
        fences.append(claimed.head.fence)
        await past(store, thread, claimed.head.lease_until)
    assert fences == sorted(set(fences))

    last = await claim(store, thread)
    assert last.crashes == 3
    assert await store.release(thread, fence=last.head.fence, rev=1, due=NOW) is None
    assert (await claim(store, thread)).crashes == 0


async def test_release_by_commit_resets_the_crash_count(store: RedisStore, thread: str) -> None:
    await begin(store, thread, due=NOW)
    head = (await claim(store, thread, lease=1)).head
    await past(store, thread, head.lease_until)
    second = await claim(store, thread)
    assert second.crashes == 1
    await append(store, thread, fence=second.head.fence, batch=1, release=True, due=NOW)
    assert (await claim(store, thread)).crashes == 0


async def test_stale_driver_is_refused_everything(store: RedisStore, thread: str) -> None:
    await begin(store, thread, due=NOW)
    stale = (await claim(store, thread, owner="a", lease=1)).head
    await past(store, thread, stale.lease_until)
    fresh = (await claim(store, thread, owner="b")).head
    assert fresh.fence > stale.fence

    write = Commit(thread=thread, log=LOG, tag="x", fence=stale.fence, batch=1, count=1, body=b"[2]")
    assert await store.commit(write) == Fenced(fresh.fence)
    assert await store.renew(thread, fence=stale.fence, lease=1000) is False
    assert await store.release(thread, fence=stale.fence, rev=1, due=NEVER) is None
    head = await store.head(thread)
    assert (head.owner, head.seq, head.lease_until) == ("b", 1, fresh.lease_until)


async def test_lease_that_ran_out_but_was_not_claimed_is_still_good_to_write(store: RedisStore, thread: str) -> None:
    await begin(store, thread, due=NOW)
    head = (await claim(store, thread, lease=1)).head
    await past(store, thread, head.lease_until)
    await append(store, thread, fence=head.fence, batch=1)
    assert await store.renew(thread, fence=head.fence, lease=5000) is True
    assert thread not in await store.due(limit=1000)


async def test_renew_moves_the_lease_end_and_the_appointment(
    store: RedisStore, server: RedisServer, thread: str
) -> None:
    await begin(store, thread, due=NOW)
    head = (await claim(store, thread, lease=1000)).head
    assert await store.renew(thread, fence=head.fence, lease=50_000) is True
    renewed = await store.head(thread)
    assert renewed.lease_until > head.lease_until + 40_000
    assert server.client().zscore(store.keys.of(thread).due, thread) == renewed.lease_until


async def test_release_sets_the_next_appointment(store: RedisStore, thread: str) -> None:
    await begin(store, thread, due=NOW)
    head = (await claim(store, thread)).head
    assert await store.release(thread, fence=head.fence, rev=head.rev, due=NOW) is None
    assert thread in await store.due(limit=1000)
    released = await store.head(thread)
    assert (released.owner, released.lease_until, released.fence) == ("", 0, head.fence)


async def test_release_is_not_done_if_somebody_decided_meanwhile(store: RedisStore, thread: str) -> None:
    await begin(store, thread, due=NOW)
    head = (await claim(store, thread)).head
    await append(store, thread, rev=1, control=b"answered", due=NOW)

    moved = await store.release(thread, fence=head.fence, rev=head.rev, due=NEVER)

    assert moved is not None
    assert (moved.rev, moved.control, moved.owner) == (2, b"answered", "a")
    assert await store.release(thread, fence=head.fence, rev=2, due=NEVER) is None


async def test_repeated_release_does_not_undo_what_came_after_the_first(store: RedisStore, thread: str) -> None:
    await begin(store, thread, due=NOW)
    head = (await claim(store, thread)).head
    assert await store.release(thread, fence=head.fence, rev=1, due=NEVER) is None
    await append(store, thread, due=NOW)
    assert await store.release(thread, fence=head.fence, rev=1, due=NEVER) is None
    assert thread in await store.due(limit=1000)


async def test_due_threads_come_longest_waiting_first_and_no_more_than_asked_for(
    store: RedisStore, server: RedisServer, thread: str
) -> None:
    names = [f"{thread}-{n}" for n in range(20)]
    for n, name in enumerate(names):
        await begin(store, name, due=Due(100 + n))
    assert (await store.due(limit=20))[: len(names)] == names
    assert await store.due(limit=5) == names[:5]
    for name in names:
        await append(store, name, due=NEVER)


async def test_of_many_claims_at_once_one_wins(store: RedisStore, make_store: Any, thread: str) -> None:
    other = await make_store()
    await begin(store, thread, due=NOW)
    results = await asyncio.gather(
        *((store, other)[n % 2].claim(thread, owner=f"o{n}", nonce=f"n{n}", lease=10_000) for n in range(100))
    )
    winners = [result for result in results if isinstance(result, Claimed)]
    assert len(winners) == 1
    assert {result.owner for result in results if isinstance(result, Busy)} == {winners[0].head.owner}
