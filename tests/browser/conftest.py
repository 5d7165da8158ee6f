"""Real headless Chromium against a real `waitpoint demo` process.

The browser lives as long as one test module: Playwright's synchronous API keeps an event loop busy, and asynchronous
tests of other rooms must find none.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from support.browser import Demo, Tabs

SHOTS = Path(__file__).parent / "shots"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

expect.set_options(timeout=15_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert path is not None, "no Chromium on PATH; these tests do not pass without one"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    server = Demo(tmp_path_factory.mktemp("demo"))
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture
def own_demo(tmp_path: Path) -> Iterator[Demo]:
    """A demo of this test's own, to be killed."""
    server = Demo(tmp_path)
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture
def tabs(browser: Browser, demo: Demo) -> Iterator[Tabs]:
    """Opens tabs, and fails the test if one of them logged an error or broke the content security policy."""
    opened = Tabs(browser, demo)
    yield opened
    opened.close()
    assert opened.complaints == []


@pytest.fixture
def thread() -> str:
    return f"t-{secrets.token_hex(6)}"


@pytest.fixture
def shot() -> Callable[[Page, str], None]:
    """Keep a picture of a page to look at."""

    def take(page: Page, name: str) -> None:
        SHOTS.mkdir(exist_ok=True)
        page.screenshot(path=SHOTS / f"{name}.png")

    return take
