"""Client tools in real tabs: what the browser knows is the output, one tab runs a call, a reload offers it again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from support.browser import Demo, Tabs

pytestmark = pytest.mark.browser

LOCATE = json.dumps([[["getLocation", {"accuracy": "fine"}]]])

# A page of an application: its own client on the thread, and a handler that asks the browser where it is.
SERVE = """async ({ thread, hold }) => {
  const { WaitpointClient } = await import("/client/index.js");
  const client = new WaitpointClient("/ws");
  window.runs = [];
  client.tools({
    getLocation: (input, { signal, action }) => {
      const run = { input, id: action.id, aborted: () => signal.aborted };
      window.runs.push(run);
      return new Promise((resolve, reject) => {
        if (hold) return;
        navigator.geolocation.getCurrentPosition(
          ({ coords: { latitude, longitude } }) => resolve({ latitude, longitude }),
          ({ message }) => reject(new Error(`no position: ${message}`)),
        );
      });
    },
  });
  window.thread = client.thread(thread);
  window.thread.subscribe(() => {});
  window.say = (text) => window.thread.send(text);
}"""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    server = Demo(tmp_path_factory.mktemp("bodiless"), "support.bodiless_chat:chat")
    try:
        yield server.start()
    finally:
        server.stop()


def until(page: Page, expression: str, within: float = 20.0) -> Any:
    """Wait for something in the page. Playwright's own way evaluates text, which the page's policy forbids."""
    deadline = time.monotonic() + within
    while not (found := page.evaluate(expression)):
        assert time.monotonic() < deadline, f"not within {within} s: {expression}"
        page.wait_for_timeout(50)
    return found


TOOL = "thread.getState().messages.at(-1)?.parts.find(({ type }) => type === 'tool')"


def test_what_the_browser_knows_is_the_output(tabs: Tabs, thread: str) -> None:
    here = {"latitude": 47.5, "longitude": 8.25}
    page = tabs.open(thread, permissions=["geolocation"], geolocation=here)
    page.evaluate(SERVE, {"thread": thread, "hold": False})
    page.evaluate("text => say(text)", LOCATE)
    until(page, f"{TOOL}?.state === 'output-available'")
    assert page.evaluate(f"{TOOL}.output") == here
    assert page.evaluate("runs.map(({ input }) => input)") == [{"accuracy": "fine"}]


def test_what_the_browser_refuses_is_the_error(tabs: Tabs, thread: str) -> None:
    page = tabs.open(thread)  # nobody granted it the right to know where it is
    page.evaluate(SERVE, {"thread": thread, "hold": False})
    page.evaluate("text => say(text)", LOCATE)
    until(page, f"{TOOL}?.state === 'output-error'", 30)
    assert "no position" in page.evaluate(f"{TOOL}.errorText")


def test_one_of_two_tabs_runs_the_call_and_a_reload_offers_it_to_the_other(
    browser: Browser, tabs: Tabs, thread: str
) -> None:
    """Case 55."""
    here = {"latitude": 1.5, "longitude": 2.5}
    one = tabs.open(thread)
    one.evaluate(SERVE, {"thread": thread, "hold": True})
    one.evaluate("text => say(text)", LOCATE)
    until(one, "runs.length === 1")
    two = tabs.open(thread, permissions=["geolocation"], geolocation=here)
    two.evaluate(SERVE, {"thread": thread, "hold": False})
    until(two, "thread.getState().live && thread.getState().pending.length === 1")
    holder = until(two, "thread.getState().pending[0].claim?.connection")
    two.wait_for_timeout(300)  # long enough to run it, if it did
    assert two.evaluate("runs.length") == 0
    assert two.evaluate("thread.getState().pending[0].claim.connection") == holder
    one.reload()
    until(two, f"{TOOL}?.state === 'output-available'")
    assert two.evaluate(f"{TOOL}.output") == here
    assert two.evaluate("runs.length") == 1


def test_a_tab_that_reloads_alone_runs_the_call_again(tabs: Tabs, thread: str) -> None:
    here = {"latitude": 3.5, "longitude": 4.5}
    page = tabs.open(thread, permissions=["geolocation"], geolocation=here)
    page.evaluate(SERVE, {"thread": thread, "hold": True})
    page.evaluate("text => say(text)", LOCATE)
    first = until(page, "runs[0]?.id")
    page.reload()
    page.evaluate(SERVE, {"thread": thread, "hold": False})
    until(page, f"{TOOL}?.state === 'output-available'")
    assert page.evaluate("runs.map(({ id }) => id)") == [first]
    assert page.evaluate(f"{TOOL}.output") == here


def test_a_person_cancels_what_a_tab_runs_and_the_tab_hears_of_it(tabs: Tabs, thread: str) -> None:
    page = tabs.open(thread)
    page.evaluate(SERVE, {"thread": thread, "hold": True})
    page.evaluate("text => say(text)", LOCATE)
    until(page, "runs.length === 1 && thread.getState().pending[0]?.claim !== undefined")
    other = tabs.open(thread)
    card = other.locator(".tool[data-tool=getLocation]")
    card.get_by_role("button", name="Cancel…").click()
    card.get_by_role("button", name="Cancel without an answer").click()
    until(page, "runs[0].aborted()")
    until(page, f"{TOOL}?.state === 'output-error'")
