"""First come, first served, also when somebody gives up."""

from __future__ import annotations

import asyncio

from waitpoint.turns import Turns


async def test_those_who_ask_later_wait_for_those_before() -> None:
    turns = Turns()
    order: list[str] = []
    gates = {name: asyncio.Event() for name in "abc"}

    async def go(name: str) -> None:
        async with turns.of("key"):
            await gates[name].wait()
        order.append(name)

    tasks = [asyncio.create_task(go(name)) for name in "abc"]
    for name in "cba":
        gates[name].set()
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert order == ["a", "b", "c"]
    assert len(turns) == 0


async def test_other_keys_do_not_wait() -> None:
    turns = Turns()
    async with turns.of("one"), asyncio.timeout(1), turns.of("two"):
        assert len(turns) == 2


async def test_somebody_who_gives_up_lets_nobody_overtake() -> None:
    turns = Turns()
    order: list[str] = []
    gate = asyncio.Event()

    async def go(name: str) -> None:
        async with turns.of("key"):
            if name == "a":
                await gate.wait()
        order.append(name)

    a, b, c = (asyncio.create_task(go(name)) for name in "abc")
    await asyncio.sleep(0)
    b.cancel()
    await asyncio.gather(b, return_exceptions=True)
    for _ in range(3):
        await asyncio.sleep(0)
    assert order == []
    gate.set()
    await asyncio.gather(a, c)
    assert order == ["a", "c"]


async def test_a_failure_ends_the_turn() -> None:
    turns = Turns()

    async def fail() -> None:
        async with turns.of("key"):
            raise KeyError("x")

    await asyncio.gather(fail(), return_exceptions=True)
    async with asyncio.timeout(1), turns.of("key"):
        pass
    assert len(turns) == 0
