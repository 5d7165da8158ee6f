"""The demo server in a process of its own, and tabs of a real browser on it.

Knows processes and Playwright; nothing of what a test looks at.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

ROOT = Path(__file__).resolve().parents[2]
READY_WITHIN = 30.0


class Demo:
    """`waitpoint demo` in a process of its own, with its own data; can be killed and started again on the same port.

    With ``target`` it serves another chat, given as ``MODULE:CHAT`` under ``tests/`` or ``examples/``.
    """

    def __init__(self, directory: Path, target: str | None = None) -> None:
        self.directory = directory
        self.target = target
        self.log = directory / "demo.log"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Demo:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("WAITPOINT_")}
        environment["PYTHONPATH"] = os.pathsep.join(str(ROOT / folder) for folder in ("tests", "examples"))
        serving = ["demo"] if self.target is None else ["serve", self.target]
        command = [sys.executable, "-m", "waitpoint.cli", *serving, "--port", str(self.port)]
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [*command, "--data-dir", str(self.directory / "data")],
                cwd=self.directory,
                env=environment,
                stdout=output,
                stderr=output,
            )
        deadline = time.monotonic() + READY_WITHIN
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"the demo exited with {self.process.returncode}:\n{self.output()}")
            if self._ready():
                return self
            time.sleep(0.05)
        raise AssertionError(f"the demo was not ready within {READY_WITHIN} s:\n{self.output()}")

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=2) as reply:
                return bool(reply.status == 200)
        except (OSError, urllib.error.HTTPError):
            return False

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def stop(self) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(25)
        except subprocess.TimeoutExpired:
            self.kill()

    def output(self) -> str:
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""


class Tabs:
    """Opens tabs of separate people: nothing is shared between them but the server."""

    def __init__(self, browser: Browser, demo: Demo) -> None:
        self.browser = browser
        self.demo = demo
        self.complaints: list[str] = []
        self._contexts: list[BrowserContext] = []

    def open(self, thread: str | None = None, *, address: str | None = None, **options: Any) -> Page:
        """A new tab on a thread; without one, on the bare address."""
        context = self.browser.new_context(**{"viewport": {"width": 1000, "height": 900}, **options})
        self._contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(f"exception: {error}"))
        page.on("console", self._console)
        page.goto(f"{address or self.demo.url}/{f'?thread={thread}' if thread else ''}")
        expect(page.locator("#status")).to_have_text("Connected")
        return page

    def _console(self, message: ConsoleMessage) -> None:
        # A refused or cut connection is reported by the browser itself; tests that cut it expect that.
        if message.type in ("error", "warning") and "WebSocket connection" not in message.text:
            self.complaints.append(f"{message.type}: {message.text}")

    def close(self) -> None:
        for context in self._contexts:
            context.close()
