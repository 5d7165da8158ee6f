"""The index, the semantics and the migration page: their code runs, their numbers hold, their links lead somewhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from docs.test_pages import DOCS, files, load
from waitpoint import Refusal, Settings, tool
from waitpoint.testing import ChatTester
from waitpoint.testing import Refusal as Refused
from waitpoint.thread import Rules

ROOT = DOCS.parent
PAGES = sorted([*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "examples" / "README.md"])
GUIDES = ("README.md", "semantics.md", "migrating.md")
LINK = re.compile(r"\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The places within a page that a link may name."""
    lines = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL).splitlines()
    headings = [line.lstrip("# ").lower() for line in lines if line.startswith("#")]
    return {re.sub(r"[^\w -]", "", heading).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_link_within_the_repository_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{page.name}: {link}"


def test_the_index_names_every_page() -> None:
    index = (DOCS / "README.md").read_text()
    for page in DOCS.glob("*.md"):
        assert page.name == "README.md" or f"]({page.name}" in index


@pytest.mark.parametrize("page", GUIDES)
def test_every_python_block_is_python(page: str) -> None:
    blocks = BLOCK.findall((DOCS / page).read_text())
    assert blocks
    for block in blocks:
        compile(block, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_every_block_that_names_its_file_is_run_here() -> None:
    assert files("README.md").keys() == {"location_chat.py", "payment_chat.py", "invoice_chat.py"}
    assert files("semantics.md").keys() == {"refund_chat.py"}
    assert files("migrating.md").keys() == {"database_chat.py", "form_chat.py", "inline_form_chat.py"}


async def test_the_client_tool_waits_for_a_page_and_holds_it_to_its_output(tmp_path: Path) -> None:
    async with ChatTester(load("README.md", "location_chat.py", tmp_path).chat) as t:
        await t.say("Where am I?")
        [action] = t.pending
        assert (action["kind"], action["input"]) == ("client-tool", {"accuracy": "fine"})
        assert "expiresAt" in action
        with pytest.raises(Refused) as refused:
            await t.answer({"latitude": 91.0, "longitude": 0.0})
        assert refused.value.code == "invalid"
        await t.answer({"latitude": 48.2, "longitude": 16.4})
        assert t.text == "Thank you."


async def test_the_external_tool_is_answered_by_the_application(tmp_path: Path) -> None:
    async with ChatTester(load("README.md", "payment_chat.py", tmp_path).chat) as t:
        await t.say("Pay")
        [action] = t.pending
        await t.server.submit(t.state["thread"], action["id"], {"paid": True}, id="order-7")
        await t.settled()
        assert t.tool("collectPayment")["output"] == {"paid": True}
        again = await t.server.submit(t.state["thread"], action["id"], {"paid": True}, id="order-7")
        assert again.dup
        with pytest.raises(Refusal):
            await t.server.submit(t.state["thread"], action["id"], {"paid": False}, id="order-8")


class Till:
    """Pays invoices."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    async def pay(self, number: int, *, key: str) -> None:
        assert key
        self.paid.append(number)


async def test_the_application_asks_outside_of_tools_and_goes_on_with_the_answer(tmp_path: Path) -> None:
    till = Till()
    module = load("README.md", "invoice_chat.py", tmp_path)
    module.chat.deps = till
    async with ChatTester(module.chat) as t:
        await t.say("hello")
        for _ in range(2):  # a webhook that comes twice
            await module.on_invoice(t.state["thread"], 7)
        await t.until(lambda: len(t.pending) == 1, "the question")
        with pytest.raises(Refused) as refused:
            await t.answer({"approved": True})
        assert refused.value.code == "forbidden"
        assert till.paid == []
        await t.as_("boss").answer({"approved": True})
        await t.until(lambda: t.text == "Noted: Invoice 7: paid", "the continuation")
        assert till.paid == [7]


class Bank:
    """Pays once per key."""

    def __init__(self) -> None:
        self.paid: dict[str, tuple[int, int]] = {}
        self.mails: list[str] = []

    async def pay(self, order: int, euros: int, *, key: str) -> str:
        self.paid[key] = (order, euros)
        return f"receipt {len(self.paid)}"

    def mail(self, text: str) -> None:
        self.mails.append(text)


async def test_the_refund_pays_under_a_key_of_its_own_and_mails_once(tmp_path: Path) -> None:
    bank = Bank()
    async with ChatTester(load("semantics.md", "refund_chat.py", tmp_path).chat, deps=bank) as t:
        await t.say("Refund it")
        assert bank.paid == {}
        await t.restart()
        await t.answer(40)
        assert t.tool("refund")["output"] == "receipt 1"
        assert list(bank.paid.values()) == [(7, 40)]
        assert bank.mails == ["Refunded 40: receipt 1"]


async def test_the_tool_that_came_from_timbal_asks_and_is_held_to_its_schema(tmp_path: Path) -> None:
    async with ChatTester(load("migrating.md", "database_chat.py", tmp_path).chat) as t:
        await t.say("Set up my database")
        assert (t.pending[0]["kind"], t.pending[0]["name"]) == ("ask_user", "choose_database.ask_user")
        with pytest.raises(Refused) as refused:
            await t.answer("oracle")
        assert refused.value.code == "invalid"
        await t.answer("postgres")
        assert t.tool("choose_database")["output"] == "postgres"


@pytest.mark.parametrize(
    ("name", "wrong", "right"), [("form_chat.py", {"age": 131}, {"age": 40}), ("inline_form_chat.py", 131, 40)]
)
async def test_the_forms_that_came_from_langgraph_ask_twice(tmp_path: Path, name: str, wrong: Any, right: Any) -> None:
    async with ChatTester(load("migrating.md", name, tmp_path).chat) as t:
        await t.say("The form, please")
        with pytest.raises(Refused) as refused:
            await t.answer(wrong)
        assert refused.value.code == "invalid"
        await t.answer(right)
        assert "40" in str(t.pending[0]["input"]) or t.pending[0]["input"]["age"] == 40
        await t.answer(False)
        assert t.tool("fill_form")["output"] == {"sent": False, "age": 40}


def test_the_numbers_are_the_ones_that_hold() -> None:
    said = " ".join((DOCS / "semantics.md").read_text().split())

    @tool
    async def any_tool() -> None:
        """Has defaults."""

    assert f"{Settings().lease // 1000} s by default" in said
    assert f"`max_attempts` times ({any_tool.max_attempts} unless" in said
    assert f"asked again, {Rules().model_attempts} times in all" in said
    assert any_tool.on_crash == "retry"
