"""A server process that stands for a whole test module: started and stopped without an event loop of its own.

Tests that need many small conversations share one; tests that kill, stop or reconfigure servers start their own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .process import ROOT, free_port
from .servers import wait_until

__all__ = ["StandingServer", "standing"]


class StandingServer:
    """``waitpoint serve`` in a process of its own; ``url`` is its WebSocket endpoint."""

    def __init__(self, target: str, redis_url: str, directory: Path, *, name: str = "s", **environment: str) -> None:
        self.port = free_port()
        self.log = directory / f"server-{name}.log"
        self._target = target
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT / "examples")]),
            "WAITPOINT_REDIS_URL": redis_url,
            # Tests talk faster than people; the limits themselves are tested where they live.
            "WAITPOINT_RATE": "100000",
            **environment,
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start and wait until it takes connections."""
        command = [sys.executable, "-m", "waitpoint.cli", "serve", self._target, "--port", str(self.port)]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                command, cwd=self.log.parent, env=self._environment, stdout=output, stderr=output
            )
        try:
            wait_until(self._ready, timeout=30, what="the server's readiness")
        except AssertionError as error:
            self.stop()
            raise AssertionError(f"{error}\n{self.output()}") from None

    def _ready(self) -> bool:
        assert self.alive, f"the server exited:\n{self.output()}"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=2) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    def stop(self) -> None:
        """SIGTERM, and SIGKILL when that does not help in time."""
        if self._process is None:
            return
        if self.alive:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(25)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def memory(self) -> int:
        """Resident bytes of the process."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")


@contextmanager
def standing(
    target: str, redis_url: str, directory: Path, *, name: str = "s", **environment: str
) -> Iterator[StandingServer]:
    """Start a server and stop it in the end."""
    server = StandingServer(target, redis_url, directory, name=name, **environment)
    server.start()
    try:
        yield server
    finally:
        server.stop()
