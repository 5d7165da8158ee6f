"""Fixtures of the hub's tests: one real store per module, instances on it, and clients over real sockets."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest

from support.client import Client
from support.house import House, house
from support.servers import RedisServer, start_server


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with start_server("valkey", tmp_path_factory.mktemp("store")) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    return redis_server.url


@pytest.fixture
def thread() -> str:
    """A thread of this test's own."""
    return f"t-{secrets.token_hex(6)}"


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    """Closes what a test opened, last first."""
    async with AsyncExitStack() as opened:
        yield opened


@pytest.fixture
async def home(redis_url: str) -> AsyncIterator[House]:
    """One instance with default limits."""
    async with house(redis_url) as instance:
        yield instance


@pytest.fixture
async def client(home: House, stack: AsyncExitStack) -> Client:
    """A greeted client of that instance."""
    return await stack.enter_async_context(await Client.open(home.url))
