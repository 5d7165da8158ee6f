"""Threads over plain HTTP: say, answer, stop, read. The same commands through the same gate as on the WebSocket.

Knows requests, bodies and statuses. Decides nothing: a body is a frame whose type, id and thread stand in the path and
the headers, and a refusal is the ``reject`` it would be on a socket, under a status that says its kind.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from waitpoint_protocol import frames
from waitpoint_protocol.codec import BadFrame, to_frames
from waitpoint_protocol.codes import RefusalCode
from waitpoint_protocol.text import dump_json, read_json
from waitpoint_protocol.values import Unfit, ValueRefused

from ..auth import AuthUnavailable, Connection, Identity, read_connection

__all__ = ["MAX_REQUESTS", "STATUSES", "House", "action_routes"]

logger = logging.getLogger(__name__)

STATUSES: Mapping[RefusalCode, int] = {
    "bad-frame": 400,
    "forbidden": 403,
    "not-found": 404,
    "unknown-action": 404,
    "already-resolved": 409,
    "waiting": 409,
    "busy": 409,
    "expired": 410,
    "tool-unavailable": 410,
    "too-large": 413,
    "invalid": 422,
    "id-conflict": 422,
    "rate-limited": 429,
    "unavailable": 503,
}
"""The status of each refusal. The code in the body is what programs go by."""

MAX_REQUESTS = 256
"""Requests carried out at once; more are told to come back (``unavailable``)."""

DISCARDED = 4 * 1024 * 1024
"""Bytes over the limit that are read and dropped: most clients read no answer before all they have to say was taken. A
body beyond that is cut off."""

BODY_TIMEOUT = 10.0
"""Seconds in which a body must have arrived."""


class Gate(Protocol):
    """The way to a thread; answers everything."""

    async def command(
        self, command: frames.Command, identity: Identity, connection: str
    ) -> frames.Ack | frames.Reject: ...
    async def history(self, history: frames.History, identity: Identity) -> frames.Ack | frames.Reject: ...
    async def view(self, thread: str, identity: Identity) -> frames.Snapshot | frames.Reject: ...


class Guard(Protocol):
    """Who is this, and is its page ours."""

    def origin_allowed(self, connection: Connection) -> bool: ...
    async def identify(self, connection: Connection, hello: frames.Hello) -> Identity | None: ...


class Limits(Protocol):
    """What a client may send."""

    @property
    def frame_bytes(self) -> int: ...


class House(Protocol):
    """What requests need of their instance."""

    @property
    def gate(self) -> Gate: ...
    @property
    def guard(self) -> Guard: ...
    @property
    def limits(self) -> Limits: ...


class _Refused(Exception):
    """Ends a request with this status and body."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        self.status = status
        self.body = {"code": code, "message": message}
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        super().__init__(message)


def action_routes(house: Callable[[], House]) -> list[Route]:
    """Routes under ``/threads``; ``house`` is asked for at each request, since it is made at start-up."""
    requests = _Requests(house)
    post, get = ["POST"], ["GET"]
    thread, action = "/threads/{thread}", "/threads/{thread}/actions/{action}"
    return [
        Route(thread, requests.state, methods=get),
        Route(f"{thread}/messages", requests.history, methods=get),
        Route(f"{thread}/messages", requests.command("message"), methods=post),
        Route(f"{thread}/stop", requests.command("stop"), methods=post),
        *(Route(f"{action}/{verb}", requests.command(verb), methods=post) for verb in ("submit", "cancel", "fail")),
    ]


Handler = Callable[[Request], Awaitable[Response]]


class _Requests:
    """Takes requests one by one."""

    def __init__(self, house: Callable[[], House]) -> None:
        self._house = house
        self._running = 0

    def command(self, type: str) -> Handler:
        """The handler of a command of this type."""

        async def handle(request: Request) -> Response:
            return await self._answer(request, lambda house, identity: self._command(house, identity, request, type))

        return handle

    async def state(self, request: Request) -> Response:
        """The view of a thread, and its cursor."""

        async def read(house: House, identity: Identity) -> Response:
            # A subscription is what names a thread without an id; its name is checked like any other.
            named = _frame({"type": "subscribe", "thread": request.path_params["thread"]})
            assert isinstance(named, frames.Subscribe)
            reply = await house.gate.view(named.thread, identity)
            return _refusal(reply) if isinstance(reply, frames.Reject) else _json(200, reply)

        return await self._answer(request, read)

    async def history(self, request: Request) -> Response:
        """A page of finished messages."""

        async def read(house: House, identity: Identity) -> Response:
            asked: dict[str, Any] = {"thread": request.path_params["thread"]}
            for name, value in request.query_params.items():
                if name not in ("before", "limit"):
                    raise _Refused(400, "bad-frame", "a page is asked for with before and limit")
                asked[name] = int(value) if value.isascii() and value.isdigit() and len(value) < 16 else value
            frame = _frame({"type": "history", "id": _new_id(), **asked})
            assert isinstance(frame, frames.History)
            reply = await house.gate.history(frame, identity)
            if isinstance(reply, frames.Reject):
                return _refusal(reply)
            assert reply.page is not None
            return _json(200, reply.page)

        return await self._answer(request, read)

    async def _command(self, house: House, identity: Identity, request: Request, type: str) -> Response:
        id = _command_id(request)
        body = await _body(request, house.limits.frame_bytes)
        fixed = {"type": type, "id": id, **request.path_params}
        if taken := fixed.keys() & body.keys():
            raise _Refused(400, "bad-frame", f"{', '.join(sorted(taken))} is said by the path and the headers")
        frame = _frame({**fixed, **body})
        assert isinstance(frame, frames.Command)
        # Nobody claims over HTTP, so a request counts as a connection of its own that holds no claim.
        reply = await house.gate.command(frame, identity, f"http_{_new_id()}")
        return _refusal(reply, id) if isinstance(reply, frames.Reject) else _json(200, reply, id)

    async def _answer(self, request: Request, work: Callable[[House, Identity], Awaitable[Response]]) -> Response:
        if self._running >= MAX_REQUESTS:
            return _say(_Refused(503, "unavailable", "too many requests at once", retry_after="1"))
        self._running += 1
        try:
            house = self._house()
            return await work(house, await _identify(house.guard, request))
        except _Refused as refused:
            return _say(refused)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except Exception:
            logger.exception("%s %s could not be handled", request.method, request.url.path)
            return _say(_Refused(503, "unavailable", "it could not be handled; send it again under the same key"))
        finally:
            self._running -= 1


async def _identify(guard: Guard, request: Request) -> Identity:
    connection = read_connection(request.scope)
    if not guard.origin_allowed(connection):
        raise _Refused(403, "forbidden", "pages of this origin are not allowed here")
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    try:
        hello = frames.Hello(token=token.strip() if scheme.lower() == "bearer" else None)
        identity = await guard.identify(connection, hello)
    except AuthUnavailable:
        raise _Refused(
            503, "unavailable", "who you are could not be checked; try again later", retry_after="1"
        ) from None
    if identity is None:
        raise _Refused(401, "unauthenticated", "not authenticated", www_authenticate="Bearer")
    return identity


def _command_id(request: Request) -> str:
    """The command's id: a quoted or a bare ``Idempotency-Key``, or a new one that nobody can repeat."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return _new_id()
    return key[1:-1] if len(key) > 1 and key[0] == key[-1] == '"' else key


def _new_id() -> str:
    return secrets.token_hex(16)


async def _body(request: Request, limit: int) -> dict[str, Any]:
    """The request's object. An empty body is an empty object."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # A page of a stranger may post text or a form without being asked whether it may; JSON it may not.
    if kind != "application/json":
        raise _Refused(415, "bad-frame", "send application/json")
    body, size = bytearray(), 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            async for chunk in request.stream():
                size += len(chunk)
                if size <= limit:
                    body += chunk
                elif size > limit + DISCARDED:
                    raise _Refused(413, "too-large", f"the limit is {limit} bytes", connection="close")
    except TimeoutError:
        text = f"the body did not arrive within {BODY_TIMEOUT:g} s"
        raise _Refused(408, "bad-frame", text, connection="close") from None
    if size > limit:
        raise _Refused(413, "too-large", f"body of {size} bytes; the limit is {limit}")
    if not body:
        return {}
    try:
        value = read_json(bytes(body))
    except ValueRefused as refused:
        raise _Refused(400, "bad-frame", refused.message) from None
    if isinstance(value, Unfit):
        raise _Refused(400, "bad-frame", value.message)
    if not isinstance(value, dict):
        raise _Refused(400, "bad-frame", "the body is an object")
    return value


def _frame(spelled: dict[str, Any]) -> frames.ClientFrame:
    [frame] = to_frames(spelled)
    if not isinstance(frame, BadFrame):
        return frame
    refused = _Refused(STATUSES[frame.code], frame.code, str(frame))
    if frame.errors:
        refused.body["errors"] = [error.model_dump() for error in frame.errors]  # type: ignore[assignment]
    raise refused


def _refusal(reject: frames.Reject, id: str | None = None) -> Response:
    headers = {} if reject.retry_ms is None else {"retry-after": str(max(1, -(-reject.retry_ms // 1000)))}
    return _json(STATUSES[reject.code], reject, id, **headers)


def _json(
    status: int,
    shape: frames.Ack | frames.Reject | frames.Page | frames.Snapshot,
    id: str | None = None,
    **headers: str,
) -> Response:
    return _respond(status, shape.model_dump_json(exclude={"type"}), id, headers)


def _say(refused: _Refused) -> Response:
    return _respond(refused.status, dump_json(refused.body), None, refused.headers)


def _respond(status: int, body: str, id: str | None, headers: Mapping[str, str]) -> Response:
    keyed = {} if id is None else {"idempotency-key": id}
    return Response(body, status, {"cache-control": "no-store", **keyed, **headers}, "application/json")
