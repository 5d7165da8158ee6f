"""Real store servers for tests: the bundled Valkey and the system's Redis, started, killed and restarted by pid.

A server that cannot be found fails the test; nothing is skipped.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import redis

from waitpoint.store.embedded import find_server

__all__ = ["KINDS", "Kind", "RedisServer", "free_port", "start_server", "wait_until"]

Kind = Literal["valkey", "redis7"]
KINDS: tuple[Kind, ...] = ("valkey", "redis7")


def free_port() -> int:
    """A TCP port of the loopback that nobody uses right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(condition: Any, *, timeout: float = 10.0, what: str = "the condition") -> None:
    """Block until ``condition()`` is true; fail after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {timeout:g} s")
        time.sleep(0.01)


def program(kind: Kind) -> str:
    """The path of a server program."""
    if kind == "valkey":
        return str(find_server())
    found = shutil.which("redis-server")
    if found is None:
        raise AssertionError("redis-server (7.0 or newer) is not installed; these tests need it")
    return found


class RedisServer:
    """One server process on a loopback port, with its data in ``directory``. AOF is on, always fsynced."""

    def __init__(self, kind: Kind, directory: Path, *, options: Sequence[str] = ()) -> None:
        self.kind = kind
        self.directory = directory
        self.port = free_port()
        self._options = list(options)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def start(self) -> None:
        """Start and wait until it answers."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for attempt in range(3):
            log = self.directory / "server.log"
            command = [
                program(self.kind),
                "--port",
                str(self.port),
                "--bind",
                "127.0.0.1",
                "--dir",
                str(self.directory),
            ]
            command += ["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--loglevel", "warning"]
            with log.open("ab") as output:
                self._process = subprocess.Popen(
                    [*command, *self._options], stdin=subprocess.DEVNULL, stdout=output, stderr=output
                )
            try:
                wait_until(self._ready, what=f"{self.kind} answering")
                return
            except AssertionError:
                self.kill()
                if attempt == 2:
                    raise AssertionError(f"{self.kind} did not start:\n{log.read_text()[-2000:]}") from None

    def _ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError("exited")
        try:
            return bool(self.run("PING"))
        except redis.AuthenticationError:
            return True  # it answers; whoever uses it knows the password
        except redis.RedisError:
            return False

    def stop(self) -> None:
        """SIGTERM, and wait."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGCONT)
            for _ in range(25):
                # Redis refuses to exit while it rewrites its log, and forgets that it was asked.
                self._process.terminate()
                try:
                    self._process.wait(0.2)
                    break
                except subprocess.TimeoutExpired:
                    continue
            else:
                self._process.kill()
                self._process.wait()
            self._process = None

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """SIGKILL and start again, on the same port and data."""
        self.kill()
        self.start()

    def freeze(self) -> None:
        """SIGSTOP: it keeps its sockets and says nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def client(self) -> redis.Redis:
        """A plain client, to look and to meddle."""
        return redis.Redis(port=self.port, single_connection_client=False, retry=None, protocol=2)

    def run(self, *command: Any) -> Any:
        """Run one command over a connection of its own."""
        client = self.client()
        try:
            return client.execute_command(*command)
        finally:
            client.close()


@contextlib.contextmanager
def start_server(kind: Kind, directory: Path, *, options: Sequence[str] = ()) -> Iterator[RedisServer]:
    """A running server that is stopped at the end."""
    server = RedisServer(kind, directory, options=options)
    server.start()
    try:
        yield server
    finally:
        server.stop()
