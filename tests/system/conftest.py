"""Fixtures of the system tests: one real store per test session, server processes A and B, a journal of effects."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from support.client import Client
from support.process import ServerProcess
from support.servers import RedisServer, start_server

CHAT = "support.chats:chat"


class Journal:
    """What tools did, over all processes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self, kind: str | None = None, **matching: Any) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        lines = [json.loads(line) for line in self.path.read_text().splitlines() if line.endswith("}")]
        return [
            line
            for line in lines
            if (kind is None or line["kind"] == kind) and all(line.get(key) == value for key, value in matching.items())
        ]

    def count(self, kind: str, **matching: Any) -> int:
        return len(self.entries(kind, **matching))


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with start_server("valkey", tmp_path_factory.mktemp("store")) as server:
        yield server


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.jsonl")


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    return redis_server.url


@pytest.fixture
def server(redis_url: str, tmp_path: Path, journal: Journal) -> Callable[..., ServerProcess]:
    """Make a server process (not started); all share the store and the journal."""

    def make(name: str = "a", target: str = CHAT, **environment: str) -> ServerProcess:
        # Tests talk faster than people; the limits themselves are tested where they live.
        defaults = {"WAITPOINT_RATE": "100000", "WAITPOINT_TEST_JOURNAL": str(journal.path)}
        return ServerProcess(target, redis_url, tmp_path, name=name, **{**defaults, **environment})

    return make


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    """Closes what a test opened, whatever happens."""
    async with AsyncExitStack() as opened:
        yield opened


@pytest.fixture
async def a(server: Callable[..., ServerProcess], stack: AsyncExitStack) -> ServerProcess:
    return await stack.enter_async_context(server("a"))


@pytest.fixture
async def b(server: Callable[..., ServerProcess], stack: AsyncExitStack) -> ServerProcess:
    return await stack.enter_async_context(server("b"))


@pytest.fixture
def connect(stack: AsyncExitStack) -> Callable[..., Any]:
    """Open a client that is closed with the test."""

    async def open_client(where: ServerProcess, **options: Any) -> Client:
        return await stack.enter_async_context(await Client.open(where.url, **options))

    return open_client


@pytest.fixture
def thread(request: pytest.FixtureRequest) -> str:
    """A thread name of this test's own."""
    import secrets

    return f"{request.node.name[:60].split('[')[0]}-{secrets.token_hex(4)}"
