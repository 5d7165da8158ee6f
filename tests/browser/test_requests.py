"""A question that no tool asked, on the page: a card of its own, answered like any, gone when it is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from support.browser import Demo, Tabs

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    server = Demo(tmp_path_factory.mktemp("requests"), "support.request_page_chat:chat")
    try:
        yield server.start()
    finally:
        server.stop()


def say(page: Page, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


def test_the_application_asks_and_the_page_shows_it_until_somebody_answers(
    tabs: Tabs, thread: str, shot: Callable[[Page, str], None]
) -> None:
    page, other = tabs.open(thread), tabs.open(thread)
    say(page, "ask")
    card = page.locator("#requests .tool[data-tool=payInvoice]")
    expect(card).to_contain_text("Pay invoice 7?")
    expect(page.locator("#log")).to_have_attribute("data-status", "idle")
    say(page, "meanwhile")
    expect(page.locator(".message[data-role=assistant]").last).to_contain_text("Heard: meanwhile")
    expect(card).to_contain_text("Pay invoice 7?")
    shot(page, "request")
    page.reload()
    expect(page.locator("#requests .tool")).to_have_count(1)
    theirs = other.locator("#requests .tool[data-tool=payInvoice]")
    theirs.get_by_text("Yes", exact=True).click()
    theirs.get_by_role("button", name="Send answer").click()
    for tab in (page, other):
        expect(tab.locator("#requests .tool")).to_have_count(0)
        expect(tab.locator(".message[data-role=assistant]").last).to_contain_text("Heard: paid")
