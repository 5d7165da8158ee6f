"""The command line: ``waitpoint serve MODULE:CHAT``, ``waitpoint demo`` and ``waitpoint valkey``.

Knows click, uvicorn and signals. Waitpoint owns SIGTERM: uvicorn would close every socket at once, before anybody was
told or anything was handed over.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import signal
import socket
import sys
import traceback
import webbrowser
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import click
import uvicorn

from . import __version__
from .app import Chat, Server
from .auth import check_bind
from .errors import ConfigurationError, WaitpointError
from .settings import Settings
from .store.embedded import find_server

__all__ = ["main"]

MAX_MESSAGE = 4 * 1024 * 1024
"""Bytes of a WebSocket message beyond which the socket is closed with 1009 instead of refusing the frame."""

_options = [
    click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
    click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one."),
    click.option("--redis-url", default=None, help="Outside Redis or Valkey [WAITPOINT_REDIS_URL]; else embedded."),
    click.option("--data-dir", default=None, help="Data of the embedded Valkey [WAITPOINT_DATA_DIR; .waitpoint]."),
    click.option(
        "--log-level",
        default="info",
        show_default=True,
        type=click.Choice(["debug", "info", "warning", "error"]),
        help="What is logged.",
    ),
    click.option("--open", "open_page", is_flag=True, help="Open the page in a browser."),
]


def _with_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(_options):
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="waitpoint")
def main() -> None:
    """A WebSocket chat backend whose tools can stop and wait for people."""


@main.command()
@click.argument("target", metavar="MODULE:CHAT")
@_with_options
def serve(target: str, **options: object) -> None:
    """Serve a chat of yours.

    MODULE:CHAT says where it is: `waitpoint serve shop.assistant:chat` serves the `chat` of shop/assistant.py, in this
    directory or on the Python path. Everything else is set by WAITPOINT_... variables, which the README lists.
    """
    _run(_load(target), **options)  # type: ignore[arg-type]


@main.command()
@_with_options
def demo(**options: object) -> None:
    """Serve the demo chat: tools that ask, with no key and no network."""
    from .demo import chat

    _run(chat, **options)  # type: ignore[arg-type]


@main.command()
@click.option("--port", default=6379, show_default=True, type=click.IntRange(1, 65535), help="Port to listen on.")
@click.option("--data-dir", default=".waitpoint-valkey", show_default=True, help="Where its data is kept.")
def valkey(port: int, data_dir: str) -> None:
    """Run the bundled Valkey for several servers.

    It listens on loopback only. Start the servers with WAITPOINT_REDIS_URL=redis://127.0.0.1:PORT.
    """
    try:
        program = find_server()
    except WaitpointError as error:
        raise click.ClickException(str(error)) from error
    directory = Path(data_dir)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chdir(directory)
    except OSError as error:
        text = f"cannot keep data in {directory.absolute()}: {error.strerror}. Choose another --data-dir"
        raise click.ClickException(text) from None
    options = {"bind": "127.0.0.1", "appendonly": "yes", "maxmemory-policy": "noeviction", "loglevel": "warning"}
    arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
    # The server takes this process's place, so signals and exit codes are its own.
    os.execv(program, [str(program), "--port", str(port), *arguments])


def _load(target: str) -> Chat:
    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        raise click.UsageError(f"{target!r} is not MODULE:CHAT, for example shop.assistant:chat")
    if "/" in module_name or module_name.endswith(".py"):
        dotted = module_name.removeprefix("./").removesuffix(".py").replace("/", ".").lstrip(".")
        raise click.UsageError(f"{module_name!r} is a file and not a module; did you mean {dotted}:{attribute}?")
    sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise _cannot_import(module_name, error) from None
        raise click.ClickException(f"there is no module {error.name!r} in {os.getcwd()} or on the path") from None
    except WaitpointError as error:
        raise click.ClickException(f"{module_name}: {error}") from error
    except Exception as error:
        raise _cannot_import(module_name, error) from None
    try:
        chat = getattr(module, attribute)
    except AttributeError:
        names = [name for name, value in vars(module).items() if isinstance(value, Chat)]
        hint = f"; did you mean {module_name}:{names[0]}?" if names else " and no other waitpoint.Chat either"
        raise click.ClickException(f"module {module_name!r} has no {attribute!r}{hint}") from None
    if not isinstance(chat, Chat):
        raise click.ClickException(f"{target} is of type {type(chat).__name__}, not a waitpoint.Chat")
    return chat


def _cannot_import(module_name: str, error: Exception) -> click.ClickException:
    """The error of an application's module, with the lines that lead to it and none of ours or of the import system."""
    trace = traceback.TracebackException.from_exception(error)
    frames = list(trace.stack)
    while frames and (frames[0].filename == __file__ or "importlib" in frames[0].filename):
        frames.pop(0)
    trace.stack = traceback.StackSummary.from_list(frames)
    lines = [line for line in trace.format() if frames or not line.startswith("Traceback")]
    return click.ClickException(f"{module_name} cannot be imported:\n{''.join(lines).rstrip()}")


def _run(
    chat: Chat,
    host: str,
    port: int,
    redis_url: str | None,
    data_dir: str | None,
    log_level: str,
    open_page: bool,
) -> None:
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        settings = Settings.from_environment(redis_url=redis_url, data_dir=data_dir)
        for words in Settings.doubtful():
            logging.getLogger(__name__).warning(words)
        check_bind(host, chat.authenticate)
        listener = _listen(host, port)
        with contextlib.closing(listener):
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(_serve(chat, settings, listener, host, open_page))
    except WaitpointError as error:
        raise click.ClickException(str(error)) from error


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # not made for this platform: asyncio's own loop serves as well, only slower
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigurationError(f"cannot listen on {host}:{port}: {error.strerror}. Choose another --port") from None
    listener.set_inheritable(True)
    return listener


class _Uvicorn(uvicorn.Server):
    """uvicorn without its signal handlers."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(chat: Chat, settings: Settings, listener: socket.socket, host: str, open_page: bool) -> None:
    server = Server(chat, settings)
    await server.start()
    config = uvicorn.Config(
        server.asgi(),
        loop="none",
        lifespan="off",
        ws="websockets-sansio",
        ws_max_size=MAX_MESSAGE,
        ws_per_message_deflate=False,
        ws_ping_interval=None,
        timeout_graceful_shutdown=3,
        backlog=2048,
        log_config=None,
        access_log=False,
        server_header=False,
    )
    web = _Uvicorn(config)
    leaving = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, _on_signal, leaving, web)
    port = listener.getsockname()[1]
    here = ("127.0.0.1", "::1", "0.0.0.0", "::")  # the last two: every address of this machine, and nobody's to open
    shown = "localhost" if host in here else f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{port}/"
    serving = asyncio.create_task(web.serve(sockets=[listener]))
    waiting = asyncio.create_task(leaving.wait())
    while not web.started and not serving.done():
        await asyncio.sleep(0.01)
    if web.started:
        where = "outside store" if settings.redis_url else f"embedded Valkey, data in {Path(settings.data_dir)}"
        click.echo(f"Waitpoint is at {url}  ({where}; stop with Ctrl+C)")
        if open_page and _has_display():
            await asyncio.to_thread(webbrowser.open, url)
    await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
    if not serving.done():
        async with _deadline(settings.grace / 1000):
            await server.drain()
        web.should_exit = True
        await serving
    waiting.cancel()
    await server.stop()


@contextlib.asynccontextmanager
async def _deadline(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        logging.getLogger(__name__).warning("the drain took longer than the grace period; leaving now")


def _has_display() -> bool:
    """Whether opening a browser shows anybody a window; without one a text browser would take the terminal over."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _on_signal(leaving: asyncio.Event, web: uvicorn.Server) -> None:
    if leaving.is_set():
        web.force_exit = True  # asked twice: do not wait for anybody
        web.should_exit = True
    leaving.set()


if __name__ == "__main__":
    main()
