"""The chat and the server around it: the only module that knows every room.

``Chat`` is what an application declares. ``Server`` puts store, desk, runner, hub and pages together for one process.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send
from typing_extensions import TypeVar

from waitpoint_protocol.frames import FieldError
from waitpoint_protocol.values import Value

from .auth import Authenticate, Guard, Identity, May
from .desk import Desk
from .errors import ConfigurationError, DefinitionError
from .http import action_routes, health_routes
from .hub import Hub
from .hub.limits import Limits
from .inside import Inside
from .models import Model
from .runner import Runner
from .runner.driver import Chatter
from .settings import Settings
from .store import RedisStore, StoreUnavailable
from .store.embedded import EmbeddedValkey
from .store.follow import Follower
from .thread import Action, Rules
from .tools import Continuation, ContinuationContext, Tool, Toolbox, WaitPoint
from .tools.waitpoint import check_name

__all__ = ["Chat", "Server"]

logger = logging.getLogger(__name__)

_HERE = Path(__file__).parent

S = TypeVar("S")
R = TypeVar("R", default=Any)


class Chat:
    """A chat: a model, the tools it may call, and who may do what. ``waitpoint serve module:chat`` serves it.

    ``instructions`` go to the model with every request. ``deps`` is handed to tools as ``ctx.deps``.
    ``authenticate(connection, hello)`` says who a connection is and ``may(identity, verb, thread, action)`` what it may
    do; without them everybody is anonymous and may do everything, which is accepted on loopback only. ``origins`` lists
    pages of other hosts that may connect. ``step_cap`` bounds the model steps of one turn. ``history`` is how many
    finished messages the model is given. ``title`` and ``suggestions`` are for the bundled page.

    Raises :class:`~waitpoint.errors.DefinitionError` when two tools share a name, or the model is none.
    """

    def __init__(
        self,
        model: Model,
        tools: Sequence[Tool] = (),
        *,
        instructions: str | None = None,
        deps: Any = None,
        authenticate: Authenticate | None = None,
        may: May | None = None,
        origins: Iterable[str] = (),
        step_cap: int | None = None,
        history: int = 200,
        title: str = "Waitpoint",
        suggestions: Sequence[str] = (),
    ) -> None:
        if not callable(getattr(model, "stream", None)):
            raise DefinitionError(
                f"a {type(model).__name__} is no model for a chat: it has no stream(); "
                "pass PydanticAIModel(...), ScriptedModel(...) or a generator decorated with @agent"
            )
        self.model = model
        self.toolbox = Toolbox(tools)
        self.instructions = instructions
        self.deps = deps
        self.authenticate = authenticate
        self.may = may
        self.origins = tuple(origins)
        self.step_cap = step_cap
        self.history = history
        self.title = title
        self.suggestions = tuple(suggestions)
        self.continuations: dict[str, Continuation] = {}
        self._server: Server | None = None

    @property
    def server(self) -> Server:
        """The server of this process that serves the chat: the way for application code to say, answer and read.

        Raises ``RuntimeError`` while there is none.
        """
        if self._server is None:
            raise RuntimeError("this chat is not served in this process; start a Server, or its ASGI app, first")
        return self._server

    def continuation(
        self,
        name: str,
        point: WaitPoint[Any, R] | None = None,
        *,
        max_attempts: int = 3,
        unanswered: bool = False,
    ) -> Callable[[Callable[[ContinuationContext, R], Coroutine[Any, Any, None]]], Continuation]:
        """Register what goes on when a request was answered: decorate ``async def paid(ctx, answer)``.

        It runs on whichever instance takes the thread, under its lease: once per accepted answer, and again with
        ``ctx.attempt`` + 1 if that instance dies on the way, at most ``max_attempts`` times. With ``point`` the answer
        has that wait point's type, else it is a JSON value. ``unanswered=True``: it also runs, with ``None``, when the
        request was cancelled, failed or expired; ``ctx.how`` says so.

        Register it where the chat is defined, so that every instance knows it. Raises ``DefinitionError``.
        """
        check_name("continuation name", name)
        if name in self.continuations or name in self.toolbox:
            raise DefinitionError(f"there is a continuation or a tool named {name} already; give this one another name")

        def register(function: Callable[[ContinuationContext, R], Coroutine[Any, Any, None]]) -> Continuation:
            made = Continuation(name, function, point, max_attempts=max_attempts, unanswered=unanswered)
            self.continuations[name] = made
            return made

        return register

    async def request(
        self, thread: str, point: WaitPoint[S, Any], data: S, *, on_answer: str, id: str | None = None
    ) -> str:
        """Ask something in a thread outside any tool; ``on_answer`` names the continuation. Returns the action's id.

        The action is pending like any other, and survives everything; neither a message nor ``stop`` ends it. Of the
        point's options ``expires_in``, ``audience`` and ``redact`` apply. ``id`` is the command's id: repeating the
        request under it asks nothing anew. Raises ``Misfit`` for data that breaks the point's suspend type,
        ``DefinitionError`` for a continuation that is not registered, and :class:`~waitpoint.errors.Refusal`.
        """
        continuation = self.continuations.get(on_answer)
        if continuation is None:
            raise DefinitionError(f"there is no continuation {on_answer!r}; register it with @chat.continuation")
        return await self.server.request(thread, point, data, continuation, id=id)

    def asgi(self, settings: Settings | None = None) -> Starlette:
        """The chat as an ASGI app, for those who run their own server or mount it. Opens its store at start-up.

        Run it with uvicorn's ``--ws websockets-sansio --ws-ping-interval 0``; ``waitpoint serve`` sets all of it.
        """
        return Server(self, settings or Settings.from_environment()).asgi()


class Server(Inside):
    """One process that serves a chat: ``await start()``, serve ``asgi()``, ``await drain()``, ``await stop()``.

    Application code in the same process speaks to threads through it, see :class:`~waitpoint.inside.Inside`.
    """

    def __init__(self, chat: Chat, settings: Settings) -> None:
        self.chat = chat
        self.settings = settings
        self._embedded: EmbeddedValkey | None = None
        self._started = False
        self.store: RedisStore
        self.follower: Follower
        self.desk: Desk
        self.runner: Runner
        self.hub: Hub

    async def start(self) -> None:
        """Open the store and begin to work. Raises ``StoreError`` with a message for the operator."""
        if self._started:
            return
        settings, chat = self.settings, self.chat
        chat._server = self
        url = settings.redis_url
        if not url:
            self._embedded = EmbeddedValkey(settings.data_dir)
            url = await asyncio.to_thread(self._embedded.start)
        try:
            self.store = RedisStore(url, partitions=settings.partitions)
            await self._open_store()
        except BaseException:
            await self._stop_embedded()
            raise
        self.follower = Follower(self.store)
        await self.follower.start()
        guard = Guard(chat.authenticate, chat.may, chat.origins)

        async def may_answer(identity: Identity, thread: str, action: Action) -> bool:
            return await guard.may(identity, "answer", thread, action)

        self.desk = Desk(
            self.store,
            check_answer=self._check_answer,
            may_answer=may_answer,
            rules=Rules(step_cap=chat.step_cap or settings.step_cap, claim=settings.claim),
        )
        self.runner = Runner(
            self.store,
            self.desk,
            Chatter(
                chat.model,
                chat.toolbox,
                chat.instructions,
                chat.deps,
                chat.history,
                chat.continuations,
                self._say,
            ),
            follow=self.follower.attach,
            unfollow=self.follower.detach,
            lease=settings.lease,
            look=settings.look / 1000,
            max_runs=settings.max_runs,
        )
        self.desk.on_commit = self.runner.wake
        self.hub = Hub(
            self.store,
            self.follower,
            self.desk,
            guard,
            limits=Limits(
                frame_bytes=settings.frame_bytes,
                subscriptions=settings.subscriptions,
                rate=settings.rate,
                burst=settings.rate * 2,
                patience=settings.rate * 10,
                heartbeat=settings.heartbeat / 1000,
                drain_window=settings.drain_window / 1000,
                claim_renewal=settings.claim / 3000,
            ),
            max_connections=settings.connections,
        )
        await self.hub.start()
        self.runner.start()
        self._started = True
        # Start-up objects live for ever; a full collection over them would stall thousands of idle sockets.
        gc.collect()
        gc.freeze()

    async def _open_store(self) -> None:
        """Open the store; one that is just starting beside us gets a moment."""
        deadline = time.monotonic() + self.settings.store_wait / 1000
        said = False
        while True:
            try:
                await self.store.open()
                return
            except StoreUnavailable as error:
                if time.monotonic() >= deadline:
                    raise
                if not said:
                    logger.warning("waiting for the store: %s", error)
                    said = True
                await asyncio.sleep(0.5)

    async def _say(self, thread: str, text: str, id: str) -> None:
        await self.say(thread, text, id=id)

    def _check_answer(self, action: Action, data: Value) -> Sequence[FieldError]:
        continuation = self.chat.continuations.get(action.tool)
        if continuation is not None:
            return continuation.check_answer(action.schema, data)
        return self.chat.toolbox.check_answer(action.name, action.schema, data)

    async def drain(self) -> None:
        """Hand over everything this process does: runs first, then sockets, within the grace period."""
        grace = self.settings.grace / 1000
        window = min(self.settings.drain_window / 1000, grace / 2)
        logger.info("draining: %d runs, %d connections", self.runner.runs, self.hub.connections)
        await asyncio.gather(self.runner.drain(grace / 2), self.hub.drain(window))

    async def stop(self) -> None:
        """Stop; call :meth:`drain` first to lose no time anywhere."""
        if not self._started:
            return
        self._started = False
        if self.chat._server is self:
            self.chat._server = None
        await self.hub.stop()
        await self.runner.stop()
        await self.follower.stop()
        await self.store.close()
        await self._stop_embedded()

    async def _stop_embedded(self) -> None:
        if self._embedded is not None:
            await asyncio.to_thread(self._embedded.stop)
            self._embedded = None

    def asgi(self) -> Starlette:
        """The ASGI app of this server; its lifespan starts and stops it unless that was done before."""

        @contextlib.asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            await self.start()
            try:
                yield
            finally:
                await self.stop()

        async def config(_: Any) -> Response:
            page = {"title": self.chat.title, "suggestions": list(self.chat.suggestions), "wsPath": "/ws"}
            return JSONResponse(page)

        door = _Door(self)
        return Starlette(
            routes=[
                WebSocketRoute("/ws", door),
                Route("/ws", door),  # a plain request is told to upgrade
                *health_routes(self),
                *action_routes(lambda: self.hub),
                Route("/config.json", config),
                Mount("/client", app=_Modules(_client_directory())),
                Mount("/", app=_Pages(_HERE / "web", html=True)),
            ],
            lifespan=lifespan,
        )


class _Door:
    """The hub as a route's ASGI app; the hub itself is made at start-up."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._server.hub.endpoint(scope, receive, send)


class _Pages(StaticFiles):
    """Static files of the page: never stale after a deploy, and nothing but our own code may run in it."""

    def __init__(self, directory: Path, *, html: bool = False) -> None:
        super().__init__(directory=directory, html=html)

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(
            {
                "Cache-Control": "no-cache",
                "Content-Security-Policy": (
                    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
                    "connect-src 'self'; manifest-src 'self'; "
                    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
                ),
                "Referrer-Policy": "no-referrer",
                "X-Content-Type-Options": "nosniff",
            }
        )
        return response


class _Modules(_Pages):
    """The JS client's modules, and nothing else of its folder: in a checkout its tests and tools lie there too."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        if "/" in path or not path.endswith(".js"):
            raise HTTPException(404)
        return await super().get_response(path, scope)


def _client_directory() -> Path:
    """Where the JS client's modules are: inside the wheel, or beside ``server/`` in a checkout."""
    for candidate in (_HERE / "client_js", _HERE.parent.parent / "client_js"):
        if (candidate / "index.js").is_file():
            return candidate
    raise ConfigurationError(f"the JS client is missing beside {_HERE}; install waitpoint again")
