"""Inline waits, steps, gates and ready-made tools over real processes, killed at each wait."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.client import Refusal
from support.following import until

CHAT = "support.inline_chat:chat"
LEASE = {"WAITPOINT_LEASE": "1500"}


def calling(*calls: tuple[str, Any]) -> str:
    """The message that makes the model call these tools in one step."""
    return json.dumps([[list(call) for call in calls]])


YES = {"approved": True}
ROUNDS: dict[str, tuple[tuple[str, Any], list[tuple[str, Any]], Any, dict[str, int]]] = {
    "sync": (
        ("survey", {"label": "x"}),
        [("survey.name", "Ann"), ("survey.sure", False)],
        ["Ann", False],
        {"survey": 3, "named": 2, "sure": 1},
    ),
    "async, equal questions": (
        ("survey_async", {}),
        [("survey_async.input", 1), ("survey_async.input", None)],
        [1, None],
        {"survey": 3, "sure": 1},
    ),
    "inline and declared": (
        ("mixed", {}),
        [("mixed.input", "Ann"), ("mixed.collect", 3), ("mixed.sure", True)],
        ["worked", 3, True, ["input", "collect", "sure"]],
        {"work": 1},
    ),
    "gate, edit, step": (
        ("pay", {"amount": 100}),
        [("pay.approval", {"approved": True, "input": {"amount": 60}}), ("pay.mail", True)],
        {"amount": 60, "to": "Ann", "mail": True},
        {"entered": 2, "charged": 1},
    ),
    "ask_user": (
        ("ask_user", {"question": "Which?", "options": ["a", "b"]}),
        [("ask_user.ask_user", "b")],
        "b",
        {},
    ),
    "ask_user_multi": (
        ("ask_user_multi", {"question": "Which?", "options": ["a", "b"]}),
        [("ask_user_multi.ask_user_multi", ["b", "a"])],
        ["b", "a"],
        {},
    ),
    "confirm": (("confirm", {"action": "Go"}), [("confirm.confirm", False)], False, {}),
}


@pytest.mark.parametrize("way", ROUNDS)
async def test_every_wait_outlives_kill_9(connect, server, stack, thread, journal, way) -> None:  # type: ignore[no-untyped-def]
    call, answers, result, effects = ROUNDS[way]
    running = await stack.enter_async_context(server("s0", CHAT, **LEASE))
    client = await connect(running)
    view = await client.subscribe(thread)
    await client.say(thread, calling(call))
    for n, (name, data) in enumerate(answers, 1):
        await client.until(lambda: len(view.pending) == 1 and view.tools[0]["state"] == "waiting", name)
        [before] = view.pending
        assert before["name"] == name
        await running.kill()
        running = await stack.enter_async_context(server(f"s{n}", CHAT, **LEASE))
        client = await connect(running)
        view = await client.subscribe(thread)
        assert view.pending == [before]
        answered = len(view.tools[0]["actions"])
        await client.submit(thread, before["id"], data)
        await client.until(
            lambda answered=answered: (
                len(view.tools[0]["actions"]) > answered or view.tools[0]["state"].startswith("output")
            ),
            "the next wait, or the end",
        )
    await client.until(lambda: view.idle, "idle")
    [part] = view.tools
    assert part["output"] == result, part
    assert [(record["suspendName"], record["resolution"]["data"]) for record in part["actions"]] == [
        (name.partition(".")[2], data) for name, data in answers
    ]
    assert {kind: journal.count(kind) for kind in effects} == effects


async def test_an_action_says_how_to_show_it_and_what_it_takes(connect, server, stack, thread) -> None:  # type: ignore[no-untyped-def]
    a = await stack.enter_async_context(server("a", CHAT))
    client = await connect(a)
    view = await client.subscribe(thread)
    await client.say(thread, calling(("ask_user", {"question": "Which?", "options": ["a", "b"]}), ("survey", {})))
    await client.until(lambda: len(view.pending) == 2, "both wait")
    pick = next(action for action in view.pending if action["kind"] == "ask_user")
    assert pick["schema"] == {"type": "string", "enum": ["a", "b"]}
    assert pick["input"] == {"question": "Which?", "options": ["a", "b"]}
    part = next(part for part in view.tools if part["toolName"] == "ask_user")
    origin = {key: value for key, value in pick["origin"].items() if key != "messageId"}
    assert origin == {"toolName": "ask_user", "suspendName": "ask_user", "toolCallId": part["toolCallId"]}
    assert pick["at"].endswith("Z")


async def test_the_schema_of_an_inline_wait_is_enforced(connect, server, stack, thread, journal) -> None:  # type: ignore[no-untyped-def]
    a = await stack.enter_async_context(server("a", CHAT))
    client = await connect(a)
    view = await client.subscribe(thread)
    await client.say(thread, calling(("ask_age", {})))
    await client.until(lambda: view.pending, "the question")
    [action] = view.pending
    for wrong in ("forty", 131, True, -1, None):
        with pytest.raises(Refusal) as refused:
            await client.submit(thread, action["id"], wrong)
        assert refused.value.code == "invalid"
        assert refused.value.frame["errors"][0]["path"] == []
    assert view.pending == [action]
    assert journal.count("age") == 1
    await client.submit(thread, action["id"], 40)
    await client.until(lambda: view.idle, "idle")
    assert view.tools[0]["output"] == 40


async def test_a_denial_reaches_the_model_and_an_edit_is_on_record(connect, server, stack, thread, journal) -> None:  # type: ignore[no-untyped-def]
    a = await stack.enter_async_context(server("a", CHAT))
    client = await connect(a)
    view = await client.subscribe(thread)
    await client.say(thread, calling(("pay", {"amount": 100}), ("pay", {"amount": 200}), ("pay", {"amount": 5})))
    # The small one is let through by the policy, and waits for its own question.
    await client.until(lambda: len(view.pending) == 3, "three wait")
    by_call = {action["origin"]["toolCallId"]: action for action in view.pending}
    first, second, small = (by_call[part["toolCallId"]] for part in view.tools)
    assert [action["name"] for action in (first, second, small)] == ["pay.approval", "pay.approval", "pay.mail"]
    assert first["input"] == {"prompt": "Pay 100?", "toolName": "pay", "input": {"amount": 100, "to": "Ann"}}
    assert journal.count("entered") == 1
    with pytest.raises(Refusal) as refused:
        await client.submit(thread, first["id"], {"approved": True, "input": {"amount": 2000}})
    assert refused.value.code == "invalid"
    assert [error["path"] for error in refused.value.frame["errors"]] == [["input", "amount"]]
    await client.submit(thread, first["id"], {"approved": False, "comment": "Too much"})
    await client.submit(thread, second["id"], {"approved": True, "input": {"amount": 50}})
    await client.submit(thread, small["id"], True)
    await client.until(lambda: len(view.pending) == 1 and view.pending[0]["name"] == "pay.mail", "the second is paid")
    await client.submit(thread, view.pending[0]["id"], False)
    await client.until(lambda: view.idle, "idle")
    denied, edited, _ = view.tools
    assert denied["errorText"].startswith("pay was not approved by ")
    assert denied["errorText"].endswith(": Too much")
    assert edited["input"] == {"amount": 200}
    assert edited["output"]["amount"] == 50
    assert edited["actions"][0]["resolution"]["data"] == {"approved": True, "input": {"amount": 50}}
    assert "Too much" in view.text, "the model was not told"
    assert sorted(entry["amount"] for entry in journal.entries("charged")) == [5, 50]


async def test_a_step_that_was_cut_off_is_done_again_and_a_finished_one_is_not(  # type: ignore[no-untyped-def]
    connect, server, stack, thread, journal
) -> None:
    a = await stack.enter_async_context(server("a", CHAT, **LEASE))
    b = await stack.enter_async_context(server("b", CHAT, **LEASE))
    one, two = await connect(a), await connect(b)
    view = await two.subscribe(thread)
    await one.say(thread, calling(("steps", {"seconds": 1.5})))
    await two.until(lambda: view.tools and view.tools[0]["state"] == "running", "running")
    await until(lambda: journal.count("slow") == 1, "the slow step has begun")
    await a.kill()
    await two.until(lambda: view.idle, "the other instance finishes", deadline=20)
    assert view.tools[0]["output"] == "slow"
    assert view.tools[0]["attempt"] == 2
    assert (journal.count("quick"), journal.count("slow"), journal.count("slow-done")) == (1, 2, 1)


async def test_stopping_in_the_middle_of_a_step_ends_the_call_for_good(  # type: ignore[no-untyped-def]
    connect, server, stack, thread, journal
) -> None:
    a = await stack.enter_async_context(server("a", CHAT))
    client = await connect(a)
    view = await client.subscribe(thread)
    await client.say(thread, calling(("steps", {"seconds": 30})))
    await until(lambda: journal.count("slow") == 1, "the slow step has begun")
    await client.command("stop", thread=thread)
    await client.until(lambda: view.idle, "idle")
    assert view.tools[0]["state"] == "output-error"
    await client.say(thread, calling(("confirm", {"action": "Go"})))
    await client.until(lambda: view.pending, "the next turn works")
    assert journal.count("slow-done") == 0


async def test_a_handler_that_asks_something_else_fails_where_everybody_sees_it(  # type: ignore[no-untyped-def]
    connect, server, stack, thread
) -> None:
    a = await stack.enter_async_context(server("a", CHAT))
    client = await connect(a)
    view = await client.subscribe(thread)
    await client.say(thread, calling(("fickle", {})))
    await client.until(lambda: view.pending, "the question")
    await client.submit(thread, view.pending[0]["id"], 1)
    await client.until(lambda: view.idle, "idle")
    assert view.tools[0]["errorText"].startswith('NondeterministicTool: fickle asked input {"run": 1}')
    assert "NondeterministicTool" in view.text


@pytest.mark.parametrize("way", ["cancel", "fail"])
async def test_an_inline_wait_may_end_without_an_answer(connect, server, stack, thread, journal, way) -> None:  # type: ignore[no-untyped-def]
    a = await stack.enter_async_context(server("a", CHAT))
    client = await connect(a)
    view = await client.subscribe(thread)
    await client.say(thread, calling(("survey", {})))
    await client.until(lambda: view.pending, "the question")
    how = {"reason": "not now"} if way == "cancel" else {"error": {"message": "no camera"}}
    await client.command(way, thread=thread, action=view.pending[0]["id"], **how)
    await client.until(lambda: view.idle, "idle")
    assert view.tools[0]["errorText"].startswith(f"survey.name {'was cancelled' if way == 'cancel' else 'failed'}")
    assert journal.count("survey") == 1


EXAMPLES: dict[str, tuple[list[tuple[str, Any]], str]] = {
    "set_up_database": (
        [
            ("ask_user.ask_user", "postgres"),
            ("ask_user_multi.ask_user_multi", ["maps", "search"]),
            ("confirm.confirm", True),
        ],
        "Your database is ready: postgres with maps, search.",
    ),
    "interaction_tools": (
        [
            ("ask_user.ask_user", "Ann"),
            ("ask_age.ask_user", 40),
            ("reserve_table.input", "garden"),
            ("confirm.confirm", True),
        ],
        "Ann; 40; Table garden for 2; True",
    ),
    "approve_always": (
        [("delete_branch.approval", {"approved": False, "comment": "Still needed."})],
        "delete_branch was not approved by",
    ),
    "approve_by_policy": ([("refund.approval", YES)], "Ann got 20 euros; Bob got 200 euros"),
    "approve_with_edits": (
        [("send_mail.approval", {"approved": True, "input": {"subject": "Our new prices"}})],
        "Sent: Our new prices to ann@example.org.",
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
async def test_the_examples_run_through_real_sockets(connect, server, stack, thread, name) -> None:  # type: ignore[no-untyped-def]
    answers, said = EXAMPLES[name]
    a = await stack.enter_async_context(server("a", f"{name}:chat"))
    client = await connect(a)
    view = await client.subscribe(thread)
    await client.say(thread, "set up my database")
    for action, data in answers:
        await client.until(lambda action=action: view.pending and view.pending[0]["name"] == action, action)
        await client.submit(thread, view.pending[0]["id"], data)
    await client.until(lambda: view.idle, "the end")
    assert said in view.text
