"""A provider on the loopback: speaks OpenAI's streams over real HTTP, well or badly, as a test says.

Each request gets the next reply of the plan. A reply is bytes (and pauses) to stream, or a status to refuse with. What
was asked is kept, and so is whether a client let go of a stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

__all__ = [
    "CUT",
    "DONE",
    "HANG",
    "FakeOpenAI",
    "Refuse",
    "answer",
    "calls",
    "chunk",
    "reasoning",
    "response_calls",
    "serve",
]

DONE = b"data: [DONE]\n\n"


class _Sign:
    """Something to do in the middle of a stream."""


CUT = _Sign()
"""Drop the connection."""

HANG = _Sign()
"""Say nothing more until the client goes."""


@dataclass(frozen=True)
class Refuse:
    """An error instead of a stream."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


Piece = bytes | float | _Sign
Reply = Refuse | list[Piece]


def chunk(
    delta: dict[str, Any] | None = None, *, finish: str | None = None, usage: dict[str, int] | None = None
) -> bytes:
    """One server-sent event of a stream."""
    body: dict[str, Any] = {"id": "cmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "fake"}
    body["choices"] = [] if usage else [{"index": 0, "delta": delta or {}, "finish_reason": finish}]
    if usage:
        body["usage"] = usage
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n".encode()


def answer(*texts: str, finish: str = "stop") -> list[Piece]:
    """A whole answer, one chunk for each text."""
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    return [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": text}) for text in texts),
        chunk(finish=finish),
        chunk(usage=usage),
        DONE,
    ]


def reasoning(*texts: str) -> list[Piece]:
    """Reasoning, as several compatible servers send it."""
    return [chunk({"reasoning_content": text}) for text in texts]


def calls(*made: tuple[str, str, str]) -> list[Piece]:
    """Parallel calls ``(id, tool, arguments as text)``, their arguments cut in two and sent in turn."""
    begun = [
        chunk({"tool_calls": [{"index": n, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}]})
        for n, (id, name, _) in enumerate(made)
    ]

    def half(n: int, text: str) -> bytes:
        return chunk({"tool_calls": [{"index": n, "function": {"arguments": text}}]})

    first = [half(n, text[: len(text) // 2]) for n, (_, _, text) in enumerate(made)]
    second = [half(n, text[len(text) // 2 :]) for n, (_, _, text) in enumerate(made)]
    return [*begun, *first, *second, chunk(finish="tool_calls"), DONE]


def response_calls(*made: tuple[str, str, str]) -> list[Piece]:
    """The same calls as the Responses API spells them; each comes whole before the next."""
    response = {"id": "resp-1", "object": "response", "created_at": 1, "model": "fake", "output": [], "tools": []}
    response |= {"parallel_tool_calls": True, "tool_choice": "auto"}
    pieces: list[Piece] = [_named("response.created", response={**response, "status": "in_progress"})]
    for n, (id, name, text) in enumerate(made):
        item = {"id": f"fc-{n}", "type": "function_call", "call_id": id, "name": name, "status": "in_progress"}
        place = {"item_id": f"fc-{n}", "output_index": n}
        pieces += [
            _named("response.output_item.added", output_index=n, item={**item, "arguments": ""}),
            _named("response.function_call_arguments.delta", **place, delta=text[:5]),
            _named("response.function_call_arguments.delta", **place, delta=text[5:]),
            _named("response.function_call_arguments.done", **place, arguments=text, name=name),
            _named("response.output_item.done", output_index=n, item={**item, "arguments": text}),
        ]
    usage = {"input_tokens": 5, "output_tokens": 6, "total_tokens": 11}
    usage |= {"input_tokens_details": {"cached_tokens": 2}, "output_tokens_details": {"reasoning_tokens": 0}}
    return [*pieces, _named("response.completed", response={**response, "status": "completed", "usage": usage})]


def _named(type: str, **more: Any) -> bytes:
    body = json.dumps({"type": type, "sequence_number": 0, **more})
    return f"event: {type}\ndata: {body}\n\n".encode()


class FakeOpenAI:
    """The provider. ``plan`` holds the replies to come, ``asked`` the bodies of the requests that came."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self.plan: list[Reply] = []
        self.asked: list[dict[str, Any]] = []
        self.let_go = 0

    def then(self, *replies: Reply) -> None:
        """Plan the next replies."""
        self.plan.extend(replies)

    async def complete(self, request: Request) -> Response:
        self.asked.append(await request.json())
        if not self.plan:
            return JSONResponse({"error": {"message": "the plan is empty"}}, 400)
        reply = self.plan.pop(0)
        if isinstance(reply, Refuse):
            error = reply.body or {"error": {"message": f"refused with {reply.status}", "type": "x", "code": None}}
            return JSONResponse(error, reply.status, headers=reply.headers)
        return StreamingResponse(self._stream(reply), media_type="text/event-stream")

    async def _stream(self, pieces: Iterable[Piece]) -> AsyncIterator[bytes]:
        try:
            for piece in pieces:
                if isinstance(piece, bytes):
                    yield piece
                elif isinstance(piece, float):
                    await asyncio.sleep(piece)
                elif piece is CUT:
                    raise ConnectionResetError("as planned")
                else:
                    await asyncio.Event().wait()
        except (asyncio.CancelledError, GeneratorExit):
            self.let_go += 1
            raise


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # signals are the test runner's


@contextlib.asynccontextmanager
async def serve() -> AsyncIterator[FakeOpenAI]:
    """A provider that runs until the block ends."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        fake = FakeOpenAI(listener.getsockname()[1])
        paths = ("/v1/chat/completions", "/v1/responses")
        app = Starlette(routes=[Route(path, fake.complete, methods=["POST"]) for path in paths])
        # Cuts are planned, so what uvicorn says about them is noise.
        config = uvicorn.Config(app, lifespan="off", log_level="critical", timeout_graceful_shutdown=1)
        server = _Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            if serving.done():
                serving.result()
            await asyncio.sleep(0.005)
        try:
            yield fake
        finally:
            server.should_exit = True
            await serving
