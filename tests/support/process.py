"""Real server processes for tests: start, wait until ready, stop, kill -9, restart; always by process id."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
import urllib.request
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[2]
READY_WITHIN = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class ServerProcess:
    """``waitpoint serve`` in a process of its own, its output in a file that a failing test shows."""

    def __init__(self, target: str, redis_url: str, log_dir: Path, *, name: str = "a", **environment: str) -> None:
        self.target = target
        self.name = name
        self.port = free_port()
        self.log = log_dir / f"server-{name}.log"
        self._environment = {
            **os.environ,
            # Whoever runs the tests on another copy of the code means its servers too.
            "PYTHONPATH": os.pathsep.join(
                [str(ROOT / "tests"), str(ROOT / "examples"), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
            "WAITPOINT_REDIS_URL": redis_url,
            **environment,
        }
        self._process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.returncode if self._process else None

    async def start(self) -> ServerProcess:
        with self.log.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "waitpoint.cli",
                "serve",
                self.target,
                "--port",
                str(self.port),
                cwd=self.log.parent,
                env=self._environment,
                stdout=output,
                stderr=output,
            )
        deadline = time.monotonic() + READY_WITHIN
        while time.monotonic() < deadline:
            if self._process.returncode is not None:
                raise AssertionError(f"the server exited with {self._process.returncode}:\n{self.output()}")
            if await asyncio.to_thread(self._ready):
                return self
            await asyncio.sleep(0.05)
        raise AssertionError(f"the server was not ready within {READY_WITHIN} s:\n{self.output()}")

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=2) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    def signal(self, signum: signal.Signals) -> None:
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(signum)

    async def wait(self, timeout: float = 30.0) -> int:
        assert self._process is not None
        return await asyncio.wait_for(self._process.wait(), timeout)

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL when that does not help in time."""
        if self._process is None or self._process.returncode is not None:
            return
        self.signal(signal.SIGTERM)
        try:
            await self.wait(25)
        except TimeoutError:
            self.signal(signal.SIGKILL)
            await self.wait()

    async def kill(self) -> None:
        """SIGKILL: no goodbye, no release."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGKILL)
        await self.wait()

    def output(self) -> str:
        return self.log.read_text(errors="replace")[-8000:] if self.log.exists() else ""

    async def __aenter__(self) -> ServerProcess:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        if error is not None:
            print(f"--- {self.log}\n{self.output()}")  # noqa: T201 - pytest shows it with the failure
