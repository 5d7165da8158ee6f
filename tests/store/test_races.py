"""Two instances, one thread: each race has exactly one winner and the log no hole."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from support.commits import LOG, NOW, begin, claim
from waitpoint.store import Commit, Committed, Conflict, Known, RedisStore
from waitpoint.store.feed import contiguous


async def test_of_200_commits_on_one_rev_one_wins(store: RedisStore, make_store: Any, thread: str) -> None:
    other = await make_store()
    await begin(store, thread)
    for rev in range(1, 6):
        results = await asyncio.gather(
            *(
                (store, other)[n % 2].commit(
                    Commit(
                        thread=thread,
                        log=LOG,
                        tag=f"r{rev}-{n}",
                        rev=rev,
                        control=f"{n}".encode(),
                        count=1,
                        body=b"[0]",
                    )
                )
                for n in range(200)
            )
        )
        winners = [result for result in results if isinstance(result, Committed)]
        assert len(winners) == 1
        head = await store.head(thread)
        assert (head.rev, head.seq, head.tag) == (rev + 1, rev + 1, winners[0].tag)
        # Every loser was told the state that won.
        losers = [result for result in results if isinstance(result, Conflict)]
        assert len(losers) == 199
        assert {(loser.head.rev, loser.head.control) for loser in losers} == {(head.rev, head.control)}


async def test_of_200_outcomes_of_one_name_one_is_written(store: RedisStore, make_store: Any, thread: str) -> None:
    other = await make_store()
    await begin(store, thread)

    async def answer(n: int) -> str:
        at = (store, other)[n % 2]
        rev = 1
        while True:
            result = await at.commit(
                Commit(
                    thread=thread,
                    log=LOG,
                    tag=f"a{n}",
                    rev=rev,
                    control=b"c",
                    count=1,
                    body=b"[0]",
                    outcomes={"a:1": f"by {n}".encode()},
                )
            )
            match result:
                case Conflict(head):
                    rev = head.rev
                case Known(_, outcome):
                    return outcome.decode()
                case Committed():
                    return f"by {n}"
                case _:
                    raise AssertionError(result)

    said = Counter(await asyncio.gather(*(answer(n) for n in range(200))))
    assert len(said) == 1
    assert (await store.head(thread)).seq == 2


async def test_answers_do_not_collide_with_a_streaming_driver(store: RedisStore, make_store: Any, thread: str) -> None:
    other = await make_store()
    await begin(store, thread, due=NOW)
    fence = (await claim(store, thread)).head.fence

    async def stream() -> int:
        for batch in range(1, 301):
            result = await store.commit(
                Commit(thread=thread, log=LOG, tag=f"d{batch}", fence=fence, batch=batch, count=2, body=b"[0,0]")
            )
            assert isinstance(result, Committed), result
        return 300

    async def decide() -> int:
        conflicts = 0
        for rev in range(1, 51):
            result = await other.commit(
                Commit(thread=thread, log=LOG, tag=f"p{rev}", rev=rev, control=b"c", count=1, body=b"[0]")
            )
            conflicts += isinstance(result, Conflict)
        return conflicts

    _, conflicts = await asyncio.gather(stream(), decide())
    assert conflicts == 0
    joined = await store.join(thread, page=1)
    assert joined.head.seq == 1 + 600 + 50
    assert contiguous(joined)


async def test_two_makers_of_one_thread_agree_on_its_log(store: RedisStore, make_store: Any, thread: str) -> None:
    other = await make_store()
    results = await asyncio.gather(
        *(
            (store, other)[n % 2].commit(
                Commit(thread=thread, log="", new_log=f"L{n}", tag=f"m{n}", rev=0, control=b"c", count=1, body=b"[0]")
            )
            for n in range(50)
        )
    )
    [winner] = [result for result in results if isinstance(result, Committed)]
    assert {result.head.log for result in results if isinstance(result, Conflict)} == {winner.log}
