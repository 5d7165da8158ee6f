"""The chat page, used as people use it: in a real browser against a real server."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from support.browser import Demo, Tabs
from waitpoint.demo import STORY

pytestmark = pytest.mark.browser

Shot = Callable[[Page, str], None]


def say(page: Page, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


def tool(page: Page, name: str) -> Locator:
    return page.locator(f".tool[data-tool={name}]")


def visit(page: Page, state: str) -> Locator:
    return page.locator(f".visit[data-state={state}]")


def last_text(page: Page) -> Locator:
    return page.locator(".message[data-role=assistant]").last.locator(".text").last


def until(page: Page, expression: str, within: float = 20.0) -> None:
    """Wait for a condition in the page. Playwright's own way evaluates text, which the page's policy forbids."""
    deadline = time.monotonic() + within
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, f"not within {within} s: {expression}"
        page.wait_for_timeout(50)


def idle(page: Page) -> None:
    expect(page.locator("#log")).to_have_attribute("data-status", "idle")


def send(page: Locator) -> None:
    page.get_by_role("button", name="Send answer").click()


def test_a_wrong_answer_is_pointed_at_and_the_right_one_lets_the_tool_go_on(
    tabs: Tabs, thread: str, shot: Shot
) -> None:
    page = tabs.open(thread)
    say(page, "report")
    card = tool(page, "collectReportDetails")
    expect(card).to_have_attribute("data-state", "waiting")
    audience = card.get_by_label("Audience")

    card.get_by_label("Deadline").fill("Friday")
    send(card)
    expect(audience).to_have_attribute("aria-invalid", "true")
    expect(audience).to_be_focused()
    error = card.locator(f"#{(audience.get_attribute('aria-describedby') or '').split()[-1]}")
    expect(error).to_be_visible()
    expect(error).to_contain_text("required")
    expect(card).to_have_attribute("data-state", "waiting")
    expect(card.get_by_label("Deadline")).to_have_value("Friday")
    shot(page, "field-error")

    audience.fill("Product team")
    send(card)
    expect(card).to_have_attribute("data-state", "output-available")
    expect(visit(page, "submitted")).to_contain_text("Answered by")
    expect(visit(page, "submitted")).to_contain_text("Product team")
    expect(last_text(page)).to_have_text("Noted: the report is for Product team, due Friday. Thank you!")
    idle(page)
    expect(card.get_by_role("button", name="Send answer")).to_have_count(0)
    shot(page, "report-done")


def test_three_waits_in_a_row_are_answered_one_after_the_other(tabs: Tabs, thread: str) -> None:
    page = tabs.open(thread)
    say(page, "draft")
    card = tool(page, "draftReport")
    card.get_by_label("Topic").fill("Third quarter")
    for point in ("growth", "costs"):
        card.get_by_role("button", name="Add to Points").click()
        page.keyboard.type(point)
    send(card)

    expect(card).to_contain_text("Third quarter, covering growth; costs.")
    expect(card.get_by_role("radio", name="Yes")).not_to_be_checked()
    expect(card.get_by_role("radio", name="No", exact=True)).not_to_be_checked()
    card.get_by_label("Yes").check()
    card.get_by_label("Comment").fill("Fine.\nSend it.")
    send(card)

    card.get_by_label("File Id").fill("F-2026-17")
    send(card)
    expect(last_text(page)).to_contain_text("with file F-2026-17 attached")
    expect(visit(page, "submitted")).to_have_count(3)
    expect(page.locator(".visit")).to_have_count(3)


def test_no_is_an_answer(tabs: Tabs, thread: str) -> None:
    page = tabs.open(thread)
    say(page, "approve")
    card = tool(page, "requestApproval")
    card.get_by_label("No", exact=True).check()
    send(card)
    expect(last_text(page)).to_contain_text("Not approved")
    expect(card).to_have_attribute("data-state", "output-available")


def test_a_required_yes_or_no_is_never_answered_by_default(tabs: Tabs, thread: str) -> None:
    page = tabs.open(thread)
    say(page, "approve")
    card = tool(page, "requestApproval")
    send(card)
    group = card.get_by_role("radiogroup")
    expect(group).to_have_attribute("aria-invalid", "true")
    expect(group.get_by_role("radio").first).to_be_focused()
    expect(card).to_have_attribute("data-state", "waiting")


def test_two_tools_wait_at_once_and_typing_in_one_is_undisturbed_by_the_other(tabs: Tabs, thread: str) -> None:
    page, other = tabs.open(thread), tabs.open(thread)
    say(page, "both")
    expect(page.locator("#notice-text")).to_have_text("2 answers are needed above.")
    expect(page).to_have_title("(2) Waitpoint demo")
    audience = tool(page, "collectReportDetails").get_by_label("Audience")
    audience.press_sequentially("Half a sen")
    audience.evaluate("element => { window.typedIn = element; }")

    approval = tool(other, "requestApproval")
    approval.get_by_label("Yes").check()
    send(approval)
    expect(tool(page, "requestApproval")).to_have_attribute("data-state", "output-available")
    expect(audience).to_be_focused()
    page.keyboard.type("tence")
    assert audience.evaluate("element => element === window.typedIn")
    expect(audience).to_have_value("Half a sentence")

    page.keyboard.press("Enter")
    expect(last_text(page)).to_contain_text("the report is for Half a sentence")
    expect(last_text(page)).to_contain_text("Approved. On its way!")
    idle(page)


def test_the_form_closes_in_the_other_tab_and_what_was_typed_there_stays_readable(
    tabs: Tabs, thread: str, shot: Shot
) -> None:
    page, other = tabs.open(thread), tabs.open(thread)
    say(page, "report")
    tool(other, "collectReportDetails").get_by_label("Audience").fill("My own idea")
    tool(page, "collectReportDetails").get_by_label("Audience").fill("Product team")
    send(tool(page, "collectReportDetails"))

    ended = visit(other, "submitted")
    expect(ended.locator(".outcome")).to_contain_text("Product team")
    expect(ended.get_by_role("button", name="Send answer")).to_have_count(0)
    expect(ended.locator(".unsent")).to_contain_text("My own idea")
    expect(visit(page, "submitted").locator(".unsent")).to_be_hidden()
    shot(other, "other-tab")
    ended.get_by_role("button", name="Dismiss").click()
    expect(ended.locator(".unsent")).to_be_hidden()


def test_a_reload_in_the_middle_of_a_stream_loses_and_repeats_nothing(tabs: Tabs, thread: str) -> None:
    page = tabs.open(thread)
    say(page, "story")
    paragraphs = page.locator(".message[data-role=assistant] .text p")
    expect(paragraphs.nth(1)).to_be_visible()
    assert page.locator("#log").get_attribute("data-status") == "running"
    page.reload()
    expect(page.locator(".message[data-role=assistant][data-status=final]")).to_have_count(1, timeout=60_000)
    assert "\n\n".join(paragraphs.all_text_contents()) == STORY
    expect(page.locator(".message")).to_have_count(2)


def test_the_page_follows_a_stream_only_while_the_reader_is_at_the_end(tabs: Tabs, thread: str) -> None:
    page = tabs.open(thread, viewport={"width": 420, "height": 520})
    say(page, "story")
    log = page.locator("#log")
    until(page, "document.querySelector('#log').scrollHeight > document.querySelector('#log').clientHeight + 250")
    assert log.evaluate("log => log.scrollHeight - log.scrollTop - log.clientHeight") < 60

    log.evaluate("log => log.scrollTo(0, 0)")
    expect(page.get_by_role("button", name="Jump to newest")).to_be_visible()
    height = log.evaluate("log => log.scrollHeight")
    until(page, f"document.querySelector('#log').scrollHeight > {height} + 60")
    assert log.evaluate("log => log.scrollTop") == 0

    page.get_by_role("button", name="Jump to newest").click()
    expect(page.get_by_role("button", name="Jump to newest")).to_be_hidden()
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".message[data-role=assistant] .why")).to_have_text("Stopped.")


def test_everything_can_be_done_from_the_keyboard(tabs: Tabs, thread: str) -> None:
    page = tabs.open(thread)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the message box")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.type("approve")
    page.keyboard.press("Enter")
    expect(page.locator("#notice-text")).to_have_text("An answer is needed above.")
    page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("button", name="Go to it")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("radio", name="Yes")).to_be_focused()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.type("With pleasure")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Send answer")).to_be_focused()
    page.keyboard.press("Enter")
    expect(last_text(page)).to_have_text("Approved (“With pleasure”). On its way!")
    expect(page.locator(".outcome")).to_be_focused()


def test_a_form_with_every_kind_of_field_takes_nested_errors_and_then_the_answer(
    tabs: Tabs, thread: str, shot: Shot
) -> None:
    page = tabs.open(thread, viewport={"width": 1000, "height": 1500})
    say(page, "form")
    card = tool(page, "planEvent")
    card.get_by_label("Title").fill("Summer party")
    card.get_by_label("Notes").fill("Bring a hat.\nAnd sun cream.")
    card.get_by_label("party").check()
    card.get_by_label("Yes").check()
    card.get_by_label("Seats").fill("501")
    card.get_by_label("Day").fill("2027-06-21")
    card.get_by_role("button", name="Add to Topics").click()
    page.keyboard.type("music")
    card.get_by_role("button", name="Add to Topics").click()
    page.keyboard.type("wrong")
    card.get_by_role("button", name="Remove Topics 2").click()
    card.get_by_role("group", name="Venue").get_by_label("City").fill("Aarhus")
    send(card)

    venue_name = card.get_by_role("group", name="Venue").get_by_label("Name")
    expect(venue_name).to_have_attribute("aria-invalid", "true")
    expect(card.get_by_label("Seats")).to_have_attribute("aria-invalid", "true")
    expect(card.get_by_label("Seats")).to_be_focused()
    expect(card.get_by_label("City")).not_to_have_attribute("aria-invalid", "true")
    shot(page, "form")

    card.get_by_label("Seats").fill("50")
    venue_name.fill("The harbour")
    send(card)
    expect(last_text(page)).to_have_text(
        "“Summer party” is a party for 50 at The harbour, Aarhus, open to everybody. Topics: music."
    )


def test_a_wait_can_be_cancelled_with_a_reason(tabs: Tabs, thread: str) -> None:
    page = tabs.open(thread)
    say(page, "report")
    card = tool(page, "collectReportDetails")
    card.get_by_role("button", name="Cancel…").click()
    expect(card.get_by_label("Reason")).to_be_focused()
    page.keyboard.press("Escape")
    expect(card.get_by_label("Reason")).to_be_hidden()
    card.get_by_role("button", name="Cancel…").click()
    card.get_by_label("Reason").fill("not needed")
    card.get_by_role("button", name="Cancel without an answer").click()
    expect(visit(page, "cancelled")).to_contain_text("Cancelled by")
    expect(visit(page, "cancelled")).to_contain_text("not needed")
    expect(card).to_have_attribute("data-state", "output-error")
    idle(page)


def test_stop_works_while_a_tool_waits(tabs: Tabs, thread: str) -> None:
    page = tabs.open(thread)
    say(page, "both")
    expect(visit(page, "pending")).to_have_count(2)
    page.get_by_role("button", name="Stop").click()
    idle(page)
    expect(visit(page, "pending")).to_have_count(0)
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()


def test_a_message_sent_during_a_turn_is_shown_as_queued_and_then_answered(tabs: Tabs, thread: str) -> None:
    page = tabs.open(thread)
    say(page, "story")
    expect(page.locator(".message[data-role=assistant] .text p").first).to_be_visible()
    say(page, "approve")
    expect(page.locator("#outgoing")).to_contain_text("Waits for the open turn to end.")
    expect(tool(page, "requestApproval")).to_have_attribute("data-state", "waiting", timeout=60_000)
    expect(page.locator("#outgoing .message")).to_have_count(0)


def test_unsent_words_survive_a_reload(tabs: Tabs, thread: str) -> None:
    page = tabs.open(thread)
    say(page, "report")
    tool(page, "collectReportDetails").get_by_label("Audience").fill("Nearly done")
    page.get_by_label("Message", exact=True).fill("and also\n")
    page.reload()
    expect(tool(page, "collectReportDetails").get_by_label("Audience")).to_have_value("Nearly done")
    expect(page.get_by_label("Message", exact=True)).to_have_value("and also\n")


def test_shift_enter_makes_a_new_line_and_markup_stays_text(tabs: Tabs, thread: str) -> None:
    page = tabs.open(thread)
    page.get_by_label("Message", exact=True).click()
    page.keyboard.type("<img src=x onerror=alert(1)>")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("second line")
    page.keyboard.press("Enter")
    bubble = page.locator(".message[data-role=user] .text").first
    expect(bubble).to_have_text("<img src=x onerror=alert(1)>\nsecond line")
    assert page.locator("#log img").count() == 0


def test_older_messages_come_on_demand_and_do_not_move_what_is_read(tabs: Tabs, thread: str) -> None:
    talker = tabs.open()
    talker.evaluate(
        """async name => {
          const { WaitpointClient } = await import("/client/index.js");
          const client = new WaitpointClient("/ws");
          const thread = client.thread(name);
          const calm = state => state.live && state.status === "idle";
          const idle = () => new Promise(done => {
            const stop = thread.subscribe(state => calm(state) && queueMicrotask(() => (stop(), done())));
          });
          for (let turn = 0; turn < 30; turn += 1) {
            await thread.send(`story ${turn}`);
            await thread.stop();
            await idle();
          }
          client.close();
        }""",
        thread,
    )
    page = tabs.open(thread)
    expect(page.locator(".message[data-role=user]").last).to_have_text(re.compile("story 29"))
    said = page.locator(".message[data-role=user] .text")
    assert 0 < said.count() < 30
    log, older = page.locator("#log"), page.get_by_role("button", name="Load older messages")
    log.evaluate("log => log.scrollTo(0, 0)")
    first = page.locator(".message").first
    name = first.get_attribute("data-id")
    before = first.bounding_box()
    older.click()
    expect(said).to_have_text([f"story {turn}" for turn in range(30)])
    after = page.locator(f".message[data-id='{name}']").bounding_box()
    assert before is not None
    assert after is not None
    assert abs(after["y"] - before["y"]) < 3
    expect(older).to_be_hidden()


def test_a_new_thread_is_empty_and_back_leads_to_the_old_one(tabs: Tabs, shot: Shot) -> None:
    page = tabs.open()
    page.wait_for_url("**/?thread=*")
    first = page.url
    shot(page, "empty")
    page.get_by_role("button", name="approve").click()
    expect(tool(page, "requestApproval")).to_have_attribute("data-state", "waiting")

    page.get_by_role("button", name="New thread").click()
    assert page.url != first
    expect(page.locator(".message")).to_have_count(0)
    expect(page.get_by_text("Ask something")).to_be_visible()
    expect(page.locator("#notice")).to_be_hidden()
    page.go_back()
    expect(tool(page, "requestApproval")).to_have_attribute("data-state", "waiting")
    assert page.url == first


def test_a_killed_server_comes_back_and_the_half_filled_form_is_still_good(
    tabs: Tabs, own_demo: Demo, thread: str
) -> None:
    page = tabs.open(thread, address=own_demo.url)
    say(page, "report")
    card = tool(page, "collectReportDetails")
    card.get_by_label("Audience").fill("The board")
    own_demo.kill()
    expect(page.locator("#status")).to_have_text("Reconnecting…")
    expect(page.locator("#notice-text")).to_contain_text("Reconnecting")
    send(card)
    own_demo.start()
    expect(page.locator("#status")).to_have_text("Connected", timeout=60_000)
    expect(last_text(page)).to_contain_text("the report is for The board", timeout=60_000)
    expect(visit(page, "submitted")).to_have_count(1)


def test_every_control_has_a_name_and_ids_are_unique(tabs: Tabs, thread: str) -> None:
    page = tabs.open(thread)
    say(page, "form")
    expect(tool(page, "planEvent")).to_have_attribute("data-state", "waiting")
    page.get_by_role("button", name="Add to Topics").click()
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("input, textarea, select, button, a, [role=radiogroup], [role=group]")]
          .filter(one => one.checkVisibility())
          .filter(one => !(one.labels?.length || one.getAttribute("aria-label") || one.getAttribute("aria-labelledby")
            || one.textContent.trim() || one.querySelector("legend")))
          .map(one => one.outerHTML)"""
    )
    assert nameless == []
    dangling = page.evaluate(
        """() => [...document.querySelectorAll("[for], [aria-describedby], [aria-labelledby]")]
          .flatMap(one => ["for", "aria-describedby", "aria-labelledby"].flatMap(name =>
            (one.getAttribute(name) ?? "").split(" ").filter(Boolean)))
          .filter(id => document.querySelectorAll(`#${CSS.escape(id)}`).length !== 1)"""
    )
    assert dangling == []


def test_finished_messages_are_told_once_and_not_token_by_token(tabs: Tabs, thread: str) -> None:
    page = tabs.open(thread)
    page.evaluate(
        """() => { window.told = [];
          new MutationObserver(all => all.forEach(one => one.addedNodes.forEach(node => told.push(node.textContent))))
            .observe(document.querySelector("#announcer"), { childList: true }); }"""
    )
    say(page, "approve")
    card = tool(page, "requestApproval")
    card.get_by_label("Yes").check()
    send(card)
    idle(page)
    expect(page.locator("#announcer p").last).to_contain_text("Approved. On its way!")
    told = page.evaluate("told")
    assert told[0] == "Waiting for an answer: Send the quarterly report to all 120 customers?"
    assert len(told) == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1000])
def test_nothing_is_cut_off_on_narrow_screens(tabs: Tabs, thread: str, shot: Shot, scheme: str, width: int) -> None:
    page = tabs.open(thread, viewport={"width": width, "height": 800}, color_scheme=scheme)
    say(page, "approve")
    card = tool(page, "requestApproval")
    card.get_by_label("Yes").check()
    send(card)
    expect(last_text(page)).to_contain_text("On its way")
    say(page, "form")
    expect(tool(page, "planEvent")).to_have_attribute("data-state", "waiting")
    send(tool(page, "planEvent"))
    expect(page.locator("[aria-invalid=true]").first).to_be_visible()
    too_wide = page.evaluate(
        """() => [...document.querySelectorAll("body *")]
          .filter(one => one.checkVisibility() && !one.closest(".quiet, .label, .skip, pre"))
          .filter(one => one.getBoundingClientRect().right > innerWidth + 1 || one.getBoundingClientRect().left < -1)
          .map(one => one.outerHTML.slice(0, 120))"""
    )
    assert too_wide == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    shot(page, f"{scheme}-{width}")
