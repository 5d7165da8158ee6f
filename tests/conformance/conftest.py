"""One server process per chat, and one node process with the JavaScript client, for all transcripts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from conformance.watcher import Watcher
from support.process import ServerProcess

Serve = Callable[[str], Awaitable[ServerProcess]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def serve(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Serve]:
    """Give the server of a chat of ``conformance.chats``; each has its own embedded store."""
    running: dict[str, ServerProcess] = {}

    async def serve(chat: str) -> ServerProcess:
        if chat not in running:
            server = ServerProcess(f"conformance.chats:{chat}", "", tmp_path_factory.mktemp(chat), name=chat)
            running[chat] = await server.start()
        return running[chat]

    yield serve
    for server in running.values():
        await server.stop()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def watcher() -> AsyncIterator[Watcher]:
    """The JavaScript client."""
    started = await Watcher.start()
    yield started
    await started.stop()
