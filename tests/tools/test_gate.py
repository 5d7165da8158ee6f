"""Approval gates: nothing of the tool runs before a yes, what was shown is what runs, and doubt asks."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, model_validator

from tools.calls import CallOf, failure, output, probe, suspended
from waitpoint import DefinitionError, suspend
from waitpoint.tools import (
    Failure,
    Initial,
    Misfit,
    Resume,
    Suspended,
    Tool,
    Toolbox,
    ToolContext,
    VisitData,
    WaitPoint,
    tool,
)


class Account(BaseModel):
    bank: str
    number: int = Field(ge=1)

    @model_validator(mode="after")
    def known(self) -> Account:
        if self.bank == "Lehman":
            raise ValueError("no such bank")
        return self


notes = itertools.count()


class Note(BaseModel):
    text: str = Field(default_factory=lambda: f"note {next(notes)}")


class Bank:
    """Where the effect would be seen."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def tool(self, **options: Any) -> Tool:
        def send(
            amount: Annotated[int, Field(ge=1, le=1000)],
            to: Account,
            note: str = "no note",
            cents: int = Field(0, ge=0),
        ) -> str:
            """Send money."""
            self.sent.append((amount, to.bank, to.number, note, cents))
            return f"sent {amount}"

        return tool(name="send", **{"approval": True, **options})(send)

    def call(self, **options: Any) -> CallOf:
        return CallOf(self.tool(**options), {"amount": 100, "to": {"bank": "First", "number": 7}})


SHOWN = {"amount": 100, "to": {"bank": "First", "number": 7}, "note": "no note", "cents": 0}


async def test_a_gated_call_is_shown_before_anything_of_it_runs() -> None:
    bank = Bank()
    call = bank.call()
    asked = await call.asks()
    assert (asked.wait_point, asked.kind, asked.style) == ("approval", "approval", "approval")
    assert asked.input == {"prompt": "Approve send?", "toolName": "send", "input": SHOWN}
    assert bank.sent == []
    assert output(await call.answer({"approved": True})) == "sent 100"
    assert bank.sent == [(100, "First", 7, "no note", 0)]


async def test_the_schema_of_an_approval_lets_a_page_offer_an_edit() -> None:
    asked = await Bank().call().asks()
    schema = asked.schema
    assert schema["required"] == ["approved"]
    assert schema["properties"]["approved"]["type"] == "boolean"
    assert schema["properties"]["comment"]["type"] == "string"
    edit = schema["$defs"]["sendEdit"]
    assert list(edit["properties"]) == ["amount", "to", "note", "cents"]
    assert "required" not in edit
    assert not any("default" in member for member in edit["properties"].values())
    assert edit["additionalProperties"] is False


async def test_a_denial_is_a_result_that_the_model_sees() -> None:
    bank = Bank()
    call = bank.call()
    await call.asks()
    assert failure(await call.answer({"approved": False, "comment": "Too much"})) == (
        "send was not approved by Ann: Too much"
    )
    call = bank.call()
    await call.asks()
    assert failure(await call.answer({"approved": False})) == "send was not approved by Ann."
    assert bank.sent == []


async def test_a_denial_counts_whatever_edit_comes_with_it() -> None:
    bank = Bank()
    call = bank.call()
    await call.asks()
    failure(await call.answer({"approved": False, "input": {"amount": 1}}))
    assert bank.sent == []


async def test_an_edit_changes_what_runs_and_leaves_the_rest() -> None:
    bank = Bank()
    call = bank.call()
    await call.asks()
    await call.answer({"approved": True, "input": {"amount": 50, "note": "less"}})
    assert bank.sent == [(50, "First", 7, "less", 0)]


@pytest.mark.parametrize(
    ("edit", "path", "code"),
    [
        ({"amount": 0}, ["input", "amount"], "greater_than_equal"),
        ({"amount": "50"}, ["input", "amount"], "int_type"),
        ({"amount": None}, ["input", "amount"], "int_type"),
        ({"cents": -1}, ["input", "cents"], "greater_than_equal"),
        ({"to": {"bank": "First"}}, ["input", "to", "number"], "missing"),
        ({"to": {"bank": "Lehman", "number": 1}}, ["input", "to"], "value_error"),
        ({"amonut": 50}, ["input", "amonut"], "extra_forbidden"),
    ],
)
async def test_an_edit_that_does_not_fit_the_tool_is_refused_at_the_door(edit: Any, path: Any, code: str) -> None:
    bank = Bank()
    call = bank.call()
    await call.asks()
    assert [(error.path, error.code) for error in call.errors({"approved": True, "input": edit})] == [(path, code)]
    assert output(await call.answer({"approved": True})) == "sent 100"


@pytest.mark.parametrize("answer", [True, None, {}, {"approved": "yes"}, {"approved": 1}, {"approved": True, "x": 1}])
async def test_only_a_clear_decision_is_an_answer(answer: Any) -> None:
    call = Bank().call()
    await call.asks()
    with pytest.raises(Misfit):
        await call.answer(answer)


async def test_an_approval_is_checked_by_its_stored_schema_when_the_tool_has_changed() -> None:
    call = Bank().call()
    asked = await call.asks()

    @tool(name="send", approval=True)
    def changed(amount: str) -> str:
        """Send money."""
        return amount

    box = Toolbox([changed])
    edit = {"approved": True, "input": {"amount": "50"}}
    assert [error.path for error in box.check_answer("send.approval", asked.schema, edit)] == [["input", "amount"]]
    call.tool = changed
    call.history = [VisitData("approval", "", asked.input, "submitted", "", {"approved": True}, style="approval")]
    assert failure(await call.enter()).startswith("The input does not fit send: ")


@pytest.mark.parametrize("how", ["sync", "async", "awaitable"])
@pytest.mark.parametrize(("amount", "asks"), [(101, True), (100, False)])
async def test_a_policy_says_which_calls_are_asked_for(how: str, amount: int, asks: bool) -> None:
    def sync(given: Any) -> bool:
        return bool(given.amount > 100)

    async def later(given: Any) -> bool:
        await asyncio.sleep(0)
        return bool(given.amount > 100)

    policy: Any = {"sync": sync, "async": later, "awaitable": lambda given: later(given)}[how]
    bank = Bank()
    call = bank.call(approval=policy)
    call.input = {**call.input, "amount": amount}
    outcome = await call.enter()
    assert isinstance(outcome, Suspended) is asks
    assert len(bank.sent) == (0 if asks else 1)


def raises(_: Any) -> bool:
    raise KeyError("limits")


def exits(_: Any) -> bool:
    raise SystemExit(1)


async def cancels(_: Any) -> bool:
    raise asyncio.CancelledError


async def hangs(_: Any) -> bool:
    await asyncio.Event().wait()
    return False


def waits(_: Any) -> bool:
    return bool(suspend("?"))


@pytest.mark.parametrize(
    "policy",
    [raises, exits, cancels, hangs, waits, lambda _: None, lambda _: 0, lambda _: "", lambda _: [], lambda: False],
)
async def test_a_policy_that_does_not_clearly_say_no_asks(policy: Any) -> None:
    bank = Bank()
    call = bank.call(approval=policy, timeout=0.2)
    await call.asks()
    assert bank.sent == []


async def test_a_policy_is_not_asked_again_once_it_has_let_the_tool_wait() -> None:
    asked: list[int] = []

    def policy(_: Any) -> bool:
        asked.append(1)
        return len(asked) > 1

    call = probe(lambda: [suspend("?")], approval=policy)
    assert (await call.asks()).style == "inline"
    assert output(await call.answer("yes")) == ["yes"]
    assert len(asked) == 1


async def test_texts_may_be_made_from_the_input() -> None:
    async def describe(given: Any) -> str:
        return f"To account {given.to.number} at {given.to.bank}"

    call = Bank().call(approval_prompt=lambda given: f"Send {given.amount}?", approval_description=describe)
    asked = (await call.asks()).input
    assert (asked["prompt"], asked["description"]) == ("Send 100?", "To account 7 at First")
    asked = (await Bank().call(approval_prompt="Really?", approval_description="Money leaves.").asks()).input
    assert (asked["prompt"], asked["description"]) == ("Really?", "Money leaves.")


@pytest.mark.parametrize("words", [raises, exits, hangs, lambda _: 5, lambda _: None, lambda _: "\ud800"])
async def test_texts_that_cannot_be_made_do_not_open_the_gate(words: Any) -> None:
    bank = Bank()
    call = bank.call(approval_prompt=words, approval_description=words, timeout=0.2)
    assert (await call.asks()).input == {"prompt": "Approve send?", "toolName": "send", "input": SHOWN}
    assert bank.sent == []


async def test_a_default_that_was_shown_is_what_runs_even_if_it_changes() -> None:
    sent: list[str] = []

    def send(note: Note = Field(default_factory=Note)) -> str:  # noqa: B008 - how pydantic spells it
        """Send."""
        sent.append(note.text)
        return note.text

    call = CallOf(tool(approval=True)(send))
    asked = await call.asks()
    await call.answer({"approved": True})
    assert sent == [asked.input["input"]["note"]["text"]]
    again = await CallOf(tool(approval=True)(send)).asks()
    assert again.input != asked.input


async def test_the_tool_sees_its_first_entry_with_what_was_approved() -> None:
    async def body(ctx: ToolContext, n: int) -> Any:
        return [n, ctx.input.n, isinstance(ctx.entry, Initial), len(ctx.suspend_history)]

    call = probe(body, approval=True)
    call.input = {"n": 1}
    await call.asks()
    assert output(await call.answer({"approved": True, "input": {"n": 2}})) == [2, 2, True, 0]


wait = WaitPoint("wait", suspend=str, resume=int)


async def test_later_entries_have_the_approved_input_and_no_gate_in_their_history() -> None:
    async def body(ctx: ToolContext, n: int) -> Any:
        match ctx.entry:
            case Resume(name="wait", data=int() as data):
                sure = suspend({"n": n}, "confirm", response_schema=bool)
                return [n, data, sure, [visit.name for visit in ctx.suspend_history]]
            case _:
                return ctx.suspend(wait, f"for {n}")

    call = probe(body, approval=True, waits=[wait])
    call.input = {"n": 1}
    await call.asks()
    assert suspended(await call.answer({"approved": True, "input": {"n": 2}})).input == "for 2"
    assert suspended(await call.answer(5)).input == {"n": 2}
    assert output(await call.answer(True)) == [2, 5, True, ["wait", "confirm"]]


async def test_an_inline_wait_of_kind_approval_is_not_the_gate() -> None:
    call = probe(lambda: [suspend("really?", "approval")], approval=True)
    assert (await call.asks()).style == "approval"
    assert suspended(await call.answer({"approved": True})).style == "inline"
    assert output(await call.answer({"approved": False})) == [{"approved": False}]


async def test_the_idempotency_key_belongs_to_the_approval() -> None:
    keys: list[str] = []

    async def body(ctx: ToolContext) -> None:
        keys.append(ctx.idempotency_key)

    plain = probe(body)
    await plain.enter()
    gated = probe(body, approval=True)
    await gated.asks()
    await gated.answer({"approved": True})
    await gated.enter()
    assert keys[1] == keys[2] != keys[0]


async def test_a_gate_that_was_removed_keeps_its_answers() -> None:
    bank = Bank()
    denied, approved = bank.call(), bank.call()
    for call, answer in ((denied, False), (approved, True)):
        asked = await call.asks()
        given = {"approved": answer, "input": {"amount": 5}}
        call.tool = bank.tool(approval=False)
        call.history = [VisitData("approval", "", asked.input, "submitted", "", given, style="approval")]
    assert failure(await denied.enter()) == "send was not approved by whoever was asked."
    assert output(await approved.enter()) == "sent 5"


async def test_a_gate_that_was_added_stops_a_call_that_already_waits() -> None:
    body: Any = lambda: [suspend("?")]  # noqa: E731
    call = probe(body)
    await call.asks()
    call.tool = tool(name="probe", approval=True)(body)
    assert suspended(await call.answer("yes")).style == "approval"
    assert output(await call.answer({"approved": True})) == ["yes"]


async def test_a_call_whose_question_was_lost_is_not_run() -> None:
    bank = Bank()
    call = bank.call()
    await call.asks()
    call.history = [VisitData("approval", "", None, "submitted", "", {"approved": True}, style="approval")]
    assert failure(await call.enter()) == "What was approved of send is no longer stored; it is not run."
    assert bank.sent == []


@pytest.mark.parametrize("status", ["cancelled", "failed", "expired"])
async def test_an_approval_that_was_not_given_is_none(status: Any) -> None:
    bank = Bank()
    call = bank.call()
    asked = await call.asks()
    call.history = [VisitData("approval", "", asked.input, status, "", {"approved": True}, style="approval")]
    assert isinstance(await call.enter(), Failure)
    assert bank.sent == []


async def test_an_input_too_large_to_show_is_not_run() -> None:
    ran: list[bool] = []

    def body(text: str) -> None:
        ran.append(True)

    call = probe(body, approval=True)
    call.input = {"text": "x" * 300_000}
    assert failure(await call.enter()).startswith("too-large: approval of probe would show 3000")
    assert not ran


async def test_the_gate_waits_as_its_options_say() -> None:
    options = {"audience": ["boss"], "expires_in": 60, "on_message": "keep", "redact": True}
    asked = await Bank().call(approval_options=options).asks()
    assert (asked.audience, asked.expires_in_ms, asked.on_message, asked.redact) == (("boss",), 60_000, "keep", True)


async def test_what_the_model_is_told_of_a_tool_does_not_depend_on_its_gate() -> None:
    bank = Bank()
    assert bank.tool().definition == bank.tool(approval=False).definition


async def test_executions_of_one_gated_tool_do_not_mix() -> None:
    bank = Bank()
    calls = [replace(bank.call(), id=f"c{n}") for n in range(3)]
    for call in calls:
        await call.asks()
    await asyncio.gather(
        *(call.answer({"approved": n != 1, "input": {"amount": n + 1}}) for n, call in enumerate(calls))
    )
    assert sorted(sent[0] for sent in bank.sent) == [1, 3]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"approval": "yes"}, "approval is True, or a function of the input"),
        ({"approval": None}, "approval is True, or a function of the input"),
        ({"approval": True, "approval_prompt": 5}, "approval_prompt is a string"),
        ({"approval_prompt": "Sure?"}, "no gate; add approval=True"),
        ({"approval_options": {"expires_in": 5}}, "no gate; add approval=True"),
        ({"approval": True, "approval_options": {"expires_in": -5}}, "expires_in"),
        ({"approval": True, "approval_options": {"expire": 5}}, "has no option expire"),
        (
            {"approval": True, "waits": [WaitPoint("approval", suspend=str, resume=bool)]},
            "a gate and a wait point named approval",
        ),
    ],
)
def test_a_gate_that_cannot_work_is_refused_at_definition(options: Any, said: str) -> None:
    async def body(ctx: ToolContext) -> None: ...

    with pytest.raises(DefinitionError, match=said.replace("(", r"\(")):
        tool(**options)(body)
