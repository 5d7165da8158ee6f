"""What goes wrong in a chaos run: chosen by a seeded generator, done to real processes and real connections.

Each fault heals by itself; :meth:`Faults.stop` waits until the last one has. Two faults may overlap, but one instance
or the store suffers one of a kind at a time.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import redis
from websockets.asyncio.client import connect

from support.process import ServerProcess
from support.proxy import CutProxy
from support.servers import RedisServer

from .history import Fault, History
from .tab import LOST

__all__ = ["Faults"]


class Faults:
    """Does faults to ``servers`` (each with its own proxy to the store) and to ``store`` until stopped.

    ``lease`` is in seconds; a paused instance sleeps through more than one.
    """

    def __init__(
        self,
        servers: list[ServerProcess],
        proxies: list[CutProxy],
        store: RedisServer,
        history: History,
        *,
        lease: float,
        threads: list[str],
        every: float = 1.2,
    ) -> None:
        self._servers = servers
        self._proxies = proxies
        self._store = store
        self._history = history
        self._lease = lease
        self._threads = threads
        self._every = every
        self._random = random.Random(f"{history.seed} faults")
        self._instances = [asyncio.Lock() for _ in servers]
        self._links = [asyncio.Lock() for _ in servers]
        self._storing = asyncio.Lock()
        self._under_way: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name="faults")

    async def stop(self) -> None:
        """Do nothing more; returns when everything is whole again. Raises what went wrong with a fault itself."""
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        await asyncio.gather(*self._under_way)
        for server in self._servers:
            await self._ensure_up(server)

    async def _run(self) -> None:
        kinds: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self._kill, 6),
            (self._pause, 5),
            (self._drain, 2),
            (self._kill_all, 1),
            (self._restart_store, 3),
            (self._pause_store, 2),
            (self._cut_links, 6),
            (self._cut_reply, 8),
            (self._freeze_link, 3),
            (self._slow_link, 3),
            (self._deafen, 5),
            (self._flush_scripts, 4),
            (self._slow_reader, 4),
        ]
        doers, weights = [doer for doer, _ in kinds], [weight for _, weight in kinds]
        while True:
            await asyncio.sleep(self._random.expovariate(1 / self._every))
            doer = self._random.choices(doers, weights)[0]
            task = asyncio.ensure_future(doer())
            self._under_way.add(task)
            await asyncio.sleep(0)

    # --- instances

    async def _kill(self) -> None:
        index = self._pick(self._instances)
        if index is None:
            return
        async with self._instances[index]:
            await self._kill_and_restart(index, self._random.uniform(0, self._lease))

    async def _kill_and_restart(self, index: int, down: float) -> None:
        server = self._servers[index]
        fault = self._began("kill", index, server.pid)
        await server.kill()
        await asyncio.sleep(down)
        await self._ensure_up(server)
        self._ended(fault)

    async def _kill_all(self) -> None:
        if any(lock.locked() for lock in self._instances):
            return
        for lock in self._instances:
            await lock.acquire()
        try:
            down = self._random.uniform(0, 1)
            await asyncio.gather(*(self._kill_and_restart(index, down) for index in range(len(self._servers))))
        finally:
            for lock in self._instances:
                lock.release()

    async def _pause(self) -> None:
        index = self._pick(self._instances)
        if index is None:
            return
        async with self._instances[index]:
            server = self._servers[index]
            fault = self._began("pause", index, server.pid)
            server.signal(signal.SIGSTOP)
            await asyncio.sleep(self._lease * self._random.uniform(0.5, 2.5))
            server.signal(signal.SIGCONT)
            self._ended(fault)

    async def _drain(self) -> None:
        index = self._pick(self._instances)
        if index is None:
            return
        async with self._instances[index]:
            server = self._servers[index]
            fault = self._began("drain", index, server.pid)
            await server.stop()
            if server.returncode != 0:
                self._history.complaints.append(f"instance {index} left with {server.returncode} when it was drained")
            await self._ensure_up(server)
            self._ended(fault)

    async def _ensure_up(self, server: ServerProcess) -> None:
        """Start it, again and again: the store may be away just now, and a supervisor does not give up either."""
        for _ in range(20):
            if server.returncode is None:
                return
            with suppress(AssertionError):
                await server.start()
        raise AssertionError(f"instance {server.name} does not come up:\n{server.output()}")

    # --- the store

    async def _restart_store(self) -> None:
        if self._storing.locked():
            return
        async with self._storing:
            fault = self._began("store-restart", None)
            await asyncio.to_thread(self._store.kill)
            await asyncio.sleep(self._random.choice((0, 0.2, 1.0, 3.0)))
            await asyncio.to_thread(self._store.start)
            self._ended(fault)

    async def _pause_store(self) -> None:
        if self._storing.locked():
            return
        async with self._storing:
            fault = self._began("store-pause", None)
            self._store.freeze()
            await asyncio.sleep(self._random.uniform(0.3, 2.5))
            self._store.thaw()
            self._ended(fault)

    async def _deafen(self) -> None:
        self._tell_store("pubsub-kill", "CLIENT", "KILL", "TYPE", "pubsub")

    async def _flush_scripts(self) -> None:
        self._tell_store("script-flush", "SCRIPT", "FLUSH")

    def _tell_store(self, kind: str, *command: str) -> None:
        if self._storing.locked():
            return
        fault = self._began(kind, None)
        with suppress(redis.RedisError):
            self._store.run(*command)
        self._ended(fault)

    # --- links between an instance and the store

    async def _cut_links(self) -> None:
        index = self._random.randrange(len(self._proxies))
        fault = self._began("link-cut", index)
        self._proxies[index].cut()
        self._ended(fault)

    async def _cut_reply(self) -> None:
        index = self._random.randrange(len(self._proxies))
        fault = self._began("reply-cut", index)
        direction = self._random.choice((self._proxies[index].down, self._proxies[index].down, self._proxies[index].up))
        direction.cut_after = self._random.randint(1, 3000)
        self._ended(fault)

    async def _freeze_link(self) -> None:
        index = self._pick(self._links)
        if index is None:
            return
        async with self._links[index]:
            fault = self._began("link-freeze", index)
            proxy = self._proxies[index]
            directions = self._random.choice(((proxy.up,), (proxy.down,), (proxy.up, proxy.down)))
            for direction in directions:
                direction.freeze()
            await asyncio.sleep(self._random.uniform(0.2, 3.0))
            for direction in directions:
                direction.thaw()
            self._ended(fault)

    async def _slow_link(self) -> None:
        index = self._pick(self._links)
        if index is None:
            return
        async with self._links[index]:
            fault = self._began("link-slow", index)
            self._proxies[index].down.delay = self._random.uniform(0.02, 0.3)
            await asyncio.sleep(self._random.uniform(0.5, 3.0))
            self._proxies[index].down.delay = 0.0
            self._ended(fault)

    # --- clients

    async def _slow_reader(self) -> None:
        """A socket that follows everything and reads nothing."""
        index = self._random.randrange(len(self._servers))
        fault = self._began("slow-reader", index)
        with suppress(*LOST):
            async with asyncio.timeout(20):
                async with connect(self._servers[index].url, compression=None, max_queue=1, open_timeout=4) as socket:
                    subscribe = [{"thread": thread} for thread in self._threads[:50]]
                    await socket.send(json.dumps({"type": "hello", "subscribe": subscribe}))
                    socket.transport.pause_reading()  # type: ignore[attr-defined]
                    await asyncio.sleep(self._random.uniform(2, 8))
                    socket.transport.abort()
        self._ended(fault)

    # ---

    def _pick(self, locks: list[asyncio.Lock]) -> int | None:
        """Something that is whole now, as long as another one is too."""
        whole = [index for index, lock in enumerate(locks) if not lock.locked()]
        return self._random.choice(whole) if len(whole) > 1 else None

    def _began(self, kind: str, instance: int | None, pid: int | None = None) -> Fault:
        fault = Fault(kind, instance, time.time(), pid=pid)
        self._history.faults.append(fault)
        return fault

    def _ended(self, fault: Fault) -> None:
        fault.ended = time.time()
