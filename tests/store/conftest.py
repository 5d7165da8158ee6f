"""Fixtures of the store's tests: each test runs on the bundled Valkey and on the system's Redis 7."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack

import pytest

from support.following import CountingStore, until
from support.proxy import CutProxy, cut_proxy
from support.servers import KINDS, RedisServer, start_server
from waitpoint.store import Follower, RedisStore

StoreMaker = Callable[..., Awaitable[RedisStore]]
FollowerMaker = Callable[..., Awaitable[Follower]]


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server that the tests of one module share; they must leave it running."""
    with start_server(request.param, tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.fixture
async def make_store(server: RedisServer) -> AsyncIterator[StoreMaker]:
    """Open further stores (other instances), by default on the shared server."""
    async with AsyncExitStack() as stack:

        async def make(url: str = "", **options: int | float) -> RedisStore:
            store = RedisStore(url or server.url, **options)  # type: ignore[arg-type]
            stack.push_async_callback(store.close)
            await store.open()
            return store

        yield make


@pytest.fixture
async def store(make_store: StoreMaker) -> RedisStore:
    return await make_store()


@pytest.fixture
async def proxy(server: RedisServer) -> AsyncIterator[CutProxy]:
    """A cut proxy in front of the shared server."""
    async with cut_proxy(server.port) as running:
        yield running


@pytest.fixture
def thread() -> str:
    """A thread of this test's own."""
    return f"t-{secrets.token_hex(6)}"


@pytest.fixture
async def counting(server: RedisServer) -> AsyncIterator[CountingStore]:
    store = CountingStore(server.url)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def follow() -> AsyncIterator[FollowerMaker]:
    """Start followers; by default one that never checks by itself, so that what is seen was published."""
    async with AsyncExitStack() as stack:

        async def start(store: RedisStore, *, check: float = 3600.0, probe: float = 3600.0) -> Follower:
            follower = Follower(store, check=check, probe=probe)
            await follower.start()
            stack.push_async_callback(follower.stop)
            await until(lambda: follower.healthy, "the follower is healthy")
            return follower

        yield start
