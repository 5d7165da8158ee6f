"""Cases "Answers" and "Schema and values" of the house, over real sockets and two real server processes."""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import Any

import pytest

from support.client import Client, Refusal
from support.process import ServerProcess

ASK = json.dumps([[["approve", {"label": "x"}]]])


async def ask(client: Client, thread: str, script: str = ASK, waits: int = 1) -> list[str]:
    """Say something that makes tools wait; returns the action ids."""
    view = client.views.get(thread) or await client.subscribe(thread)
    await client.say(thread, script)
    await client.until(lambda: len(view.pending) == waits, f"{waits} pending actions")
    return [action["id"] for action in view.pending]


async def outcome(attempt: Any) -> Any:
    try:
        return await attempt
    except Refusal as refusal:
        return refusal


async def test_two_answers_through_two_instances_enter_the_tool_once(connect, a, b, journal) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(a), await connect(b)
    rounds = 200
    for n in range(rounds):
        thread = f"race-{n}-{secrets.token_hex(3)}"
        view = await one.subscribe(thread)
        (action,) = await ask(one, thread)
        same = n % 2 == 0
        payloads = [{"approved": True}, {"approved": same, "comment": "two"}]
        results = await asyncio.gather(
            outcome(one.submit(thread, action, payloads[0])), outcome(two.submit(thread, action, payloads[1]))
        )
        refusals = [result for result in results if isinstance(result, Refusal)]
        assert len(refusals) == 1, results
        assert refusals[0].code == "already-resolved"
        winner = refusals[0].frame["winner"]
        assert winner["how"] == "submitted"
        assert winner["by"]["id"] == "anonymous"
        assert winner["at"]
        await one.until(lambda view=view: view.idle, "idle")
        won = payloads[1 if isinstance(results[0], Refusal) else 0]
        assert view.tools[0]["output"]["comment"] == won.get("comment")
        assert [record["resolution"]["how"] for record in view.tools[0]["actions"]] == ["submitted"]
        await one.command("unsubscribe", thread=thread)
    assert journal.count("approved") == rounds
    assert journal.count("asked") == rounds


ENDS = ["submit", "cancel", "fail", "stop"]


@pytest.mark.parametrize(("first", "second"), [(x, y) for i, x in enumerate(ENDS) for y in ENDS[i:] if x != "stop"])
async def test_every_pair_that_can_end_an_action_has_one_winner(connect, a, b, journal, first, second) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(a), await connect(b)

    async def end(client: Client, how: str, thread: str, action: str) -> Any:
        match how:
            case "submit":
                return await client.submit(thread, action, {"approved": True})
            case "cancel":
                return await client.command("cancel", thread=thread, action=action, reason="no need")
            case "fail":
                return await client.command("fail", thread=thread, action=action, error={"message": "cannot"})
            case _:
                return await client.command("stop", thread=thread)

    for n in range(25):
        thread = f"pair-{n}-{secrets.token_hex(3)}"
        view = await one.subscribe(thread)
        (action,) = await ask(one, thread)
        results = await asyncio.gather(
            outcome(end(one, first, thread, action)), outcome(end(two, second, thread, action))
        )
        refusals = [result for result in results if isinstance(result, Refusal)]
        if "stop" in (first, second):
            assert all(refusal.code == "already-resolved" for refusal in refusals)
        else:
            assert [refusal.code for refusal in refusals] == ["already-resolved"]
        await one.until(lambda view=view: view.idle, "idle")
        records = view.tools[0]["actions"]
        assert len(records) == 1
        assert records[0]["resolution"]["how"] in ("submitted", "cancelled", "failed")
        await one.command("unsubscribe", thread=thread)


async def test_a_late_answer_never_lands_on_a_newer_question(connect, a, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    view = await client.subscribe(thread)
    (old,) = await ask(client, thread, json.dumps([[["approve", {"label": "v1"}]], [["approve", {"label": "v2"}]]]))
    await client.submit(thread, old, {"approved": False, "comment": "too dear"})
    await client.until(lambda: view.pending and view.pending[0]["id"] != old, "the second question")
    with pytest.raises(Refusal) as refused:
        await client.submit(thread, old, {"approved": True})
    assert refused.value.code == "already-resolved"
    assert len(view.pending) == 1
    assert view.tools[1]["state"] == "waiting"


async def test_a_wrong_address_gets_a_definite_error_that_tells_nothing(connect, a, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    foreign = f"{thread}-other"
    (theirs,) = await ask(client, foreign)
    (mine,) = await ask(client, thread)
    refusals = []
    for where, action in ((thread, "made-up"), (thread, theirs), (f"{thread}-nowhere", mine)):
        with pytest.raises(Refusal) as refused:
            await client.submit(where, action, {"approved": True})
        refusals.append((refused.value.code, refused.value.frame["message"].replace(action, "")))
        assert "winner" not in refused.value.frame
    # An id of another thread looks exactly like one that nobody ever made.
    assert [code for code, _ in refusals] == ["unknown-action"] * 3
    assert refusals[0] == refusals[1]


async def test_an_open_wait_survives_a_reconnect_a_restart_and_an_unrelated_frame(  # type: ignore[no-untyped-def]
    connect, server, stack, thread, journal
) -> None:
    a = await stack.enter_async_context(server("a"))
    client = await connect(a)
    view = await client.subscribe(thread)
    (details,) = await ask(client, thread, json.dumps([[["draft", {"report_id": "r1"}]]]))
    await client.submit(thread, details, {"audience": "team"})
    await client.until(lambda: view.pending and view.pending[0]["name"] == "draft.approveDraft", "approveDraft")
    second = view.pending[0]
    await client.close()
    again = await connect(a)
    assert (await again.subscribe(thread)).pending == [second]
    await again.command("history", thread=thread, before=0, limit=5)
    await a.stop()
    a2 = await stack.enter_async_context(server("a2"))
    third = await connect(a2)
    view = await third.subscribe(thread)
    assert view.pending == [second]
    records = view.tools[0]["actions"]
    assert [("resolution" in record, record["suspendName"]) for record in records] == [
        (True, "collectDetails"),
        (False, "approveDraft"),
    ]
    assert records[0]["resolution"]["data"] == {"audience": "team"}


async def test_three_waits_make_one_part_one_call_and_one_result(connect, a, b, thread, journal) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(a), await connect(b)
    view = await one.subscribe(thread)
    (action,) = await ask(one, thread, json.dumps([[["draft", {"report_id": "r7"}]]]))
    for name, data in (
        ("draft.approveDraft", {"audience": "board"}),
        ("draft.attachReferenceFile", {"approved": True}),
        (None, {"fileId": "f1"}),
    ):
        await two.submit(thread, action, data)
        if name is None:
            break
        await one.until(lambda name=name: view.pending and view.pending[0]["name"] == name, name)
        action = view.pending[0]["id"]
    await one.until(lambda: view.idle, "idle")
    assert len(view.tools) == 1
    assert view.tools[0]["output"] == {"status": "done", "fileId": "f1", "reportId": "r7", "history": 3}
    reloaded = await (await connect(b)).subscribe(thread)
    assert reloaded.state["messages"] == view.state["messages"]
    assert [entry["entry"] for entry in journal.entries("draft")] == [
        "initial",
        "collectDetails",
        "approveDraft",
        "attachReferenceFile",
    ]
    assert journal.entries("draft")[3]["history"] == [
        ["collectDetails", "submitted"],
        ["approveDraft", "submitted"],
        ["attachReferenceFile", "submitted"],
    ]
    # The model was asked twice: for the call, and with its one result.
    assert journal.count("model") == 2
    assert view.text.count('"draft"') == 1


async def test_rejection_by_value_ends_the_draft(connect, a, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    view = await client.subscribe(thread)
    (action,) = await ask(client, thread, json.dumps([[["draft", {"report_id": "r7"}]]]))
    await client.submit(thread, action, {"audience": "team"})
    await client.until(lambda: view.pending and view.pending[0]["id"] != action, "approveDraft")
    await client.submit(thread, view.pending[0]["id"], {"approved": False, "comment": "no"})
    await client.until(lambda: view.idle, "idle")
    assert view.tools[0]["output"] == {"status": "rejected", "comment": "no"}


@pytest.mark.parametrize("restart", [False, True], ids=["reconnect", "restart"])
async def test_a_command_resent_after_a_lost_ack_gets_the_same_ack_and_acts_once(  # type: ignore[no-untyped-def]
    connect, server, stack, thread, journal, restart
) -> None:
    a = await stack.enter_async_context(server("a"))
    b = await stack.enter_async_context(server("b"))
    one = await connect(a)
    (action,) = await ask(one, thread)
    frame = {
        "type": "submit",
        "id": "click-1",
        "thread": thread,
        "action": action,
        "data": {"approved": True, "comment": "once"},
    }
    await one.send(frame)
    await one.cut()  # whether the server read it before the cut is anybody's guess: both must work
    if restart:
        await a.stop()
        await b.stop()
        b = await stack.enter_async_context(server("b2"))
    two = await connect(b)
    view = await two.subscribe(thread)
    first = await two.submit(thread, action, frame["data"], id="click-1")
    again = await two.submit(thread, action, frame["data"], id="click-1")
    assert again["dup"] is True
    assert {**first, "dup": True} == again
    await two.until(lambda: view.idle, "idle")
    assert journal.count("approved") == 1


async def test_the_same_id_with_another_payload_is_refused(connect, a, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    (action,) = await ask(client, thread)
    await client.submit(thread, action, {"approved": True}, id="same")
    with pytest.raises(Refusal) as refused:
        await client.submit(thread, action, {"approved": False}, id="same")
    assert refused.value.code == "id-conflict"


async def test_one_id_sent_fifty_times_over_two_instances_moves_the_head_once(connect, a, b, thread) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(a), await connect(b)
    view = await one.subscribe(thread)
    (action,) = await ask(one, thread)
    acks = await asyncio.gather(
        *(_raw_submit(client, thread, action, "fifty") for client in (one, two) for _ in range(25))
    )
    assert all(ack["type"] == "ack" for ack in acks), acks
    assert sum(ack.get("dup", False) for ack in acks) == 49
    await one.until(lambda: view.idle, "idle")
    assert sum(event["type"] == "action-resolved" for event in view.events) == 1


async def _raw_submit(client: Client, thread: str, action: str, id: str) -> dict[str, Any]:
    """Send a submit without waiting on its id: several are under way under the same one."""
    before = sum(frame.get("id") == id for frame in client.frames)
    client.raw_sent = getattr(client, "raw_sent", 0) + 1  # type: ignore[attr-defined]
    place = client.raw_sent - 1  # type: ignore[attr-defined]
    frame = {"type": "submit", "id": id, "thread": thread, "action": action, "data": {"approved": True}}
    await client.send(frame)
    await client.until(lambda: sum(f.get("id") == id for f in client.frames) > max(before, place), "a reply")
    return [frame for frame in client.frames if frame.get("id") == id][place]


async def test_what_is_not_waiting_cannot_be_answered(connect, a, thread, journal) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    view = await client.subscribe(thread)
    await client.say(thread, json.dumps([[["slow", {"seconds": 0.5}]]]))
    await client.until(lambda: view.tools and view.tools[0]["state"] == "running", "running")
    call = view.tools[0]["toolCallId"]
    for made_up in (call, f"slow.{call}", "a_aaaaaaaaaaaaaaaa"):
        with pytest.raises(Refusal) as refused:
            await client.submit(thread, made_up, {"approved": True})
        assert refused.value.code == "unknown-action"
    await client.until(lambda: view.idle, "idle")
    with pytest.raises(Refusal) as refused:
        await client.submit(thread, call, True)
    assert refused.value.code == "unknown-action"
    assert journal.count("slow") == 1


BAD = [
    ({}, [["audience"]], ["missing"]),
    ({"audience": 7}, [["audience"]], None),
    ({"audience": "nobody"}, [["audience"]], None),
    ({"audience": "team", "extra": 1}, [["extra"]], ["extra_forbidden"]),
    ({"audience": "team", "address": {"street": "x", "number": "7"}}, [["address", "number"]], ["int_type"]),
    ({"audience": "team", "deadline": 5}, [["deadline"]], None),
    ([], [[]], None),
    (None, [[]], None),
    ("team", [[]], None),
    ({"audience": None}, [["audience"]], None),
]


async def test_ten_bad_answers_bounce_to_their_sender_only_then_a_good_one(connect, a, b, thread, journal) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(a), await connect(b)
    view, other = await one.subscribe(thread), await two.subscribe(thread)
    (action,) = await ask(one, thread, json.dumps([[["draft", {"report_id": "r"}]]]))
    await one.until(lambda: view.state["status"] == "waiting", "the driver has settled")
    await two.until(lambda: other.cursor == view.cursor, "the other tab sees it too")
    heard, cursor = len(two.frames), dict(view.cursor)
    for data, paths, codes in BAD:
        with pytest.raises(Refusal) as refused:
            await one.submit(thread, action, data)
        assert refused.value.code == "invalid", data
        errors = refused.value.frame["errors"]
        assert [error["path"] for error in errors] == paths, (data, errors)
        assert all(error["message"] for error in errors)
        if codes is not None:
            assert [error["code"] for error in errors] == codes
    assert view.cursor == cursor
    assert [action["id"] for action in view.pending] == [action]
    assert [frame for frame in two.frames[heard:] if frame["type"] != "ping"] == []
    assert journal.count("draft") == 1
    await one.submit(thread, action, {"audience": "team", "address": {"street": "x", "number": 7}})
    await one.until(lambda: view.pending and view.pending[0]["id"] != action, "the next wait")
    assert len(view.tools[0]["actions"]) == 2


async def test_a_missing_payload_is_not_null(connect, a, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    (action,) = await ask(client, thread, json.dumps([[["value", {"kind": "nullable"}]]]))
    with pytest.raises(Refusal) as refused:
        await client.command("submit", thread=thread, action=action)
    assert refused.value.code == "bad-frame"
    await client.submit(thread, action, None)


@pytest.mark.parametrize("how", ["cancel", "fail"])
async def test_cancel_and_fail_are_never_validated_and_the_model_sees_them(connect, a, thread, how) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    view = await client.subscribe(thread)
    (action,) = await ask(client, thread, json.dumps([[["draft", {"report_id": "r"}]]]))
    if how == "cancel":
        await client.command("cancel", thread=thread, action=action)
    else:
        await client.command("fail", thread=thread, action=action, error={"message": "no camera"})
    await client.until(lambda: view.idle, "idle")
    part = view.tools[0]
    assert part["state"] == "output-error"
    assert part["errorText"] in view.text
    assert ("no camera" in view.text) == (how == "fail")


VALUES = [
    ("bool", False),
    ("bool", True),
    ("int", 0),
    ("str", ""),
    ("list", []),
    ("list", [0, -1]),
    ("object", {}),
    ("nullable", None),
    ("nullable", 0),
    ("any", None),
    ("any", {"": [{"a": None}], "é😀": -0.5, "big": 9007199254740991}),
]


@pytest.mark.parametrize("subprotocol", ["waitpoint.v1.json", "waitpoint.v1.msgpack"])
async def test_falsy_answers_are_answers_on_both_codecs(connect, a, thread, journal, subprotocol) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a, subprotocol=subprotocol)
    view = await client.subscribe(thread)
    script = json.dumps([[["value", {"kind": kind}] for kind, _ in VALUES]])
    actions = await ask(client, thread, script, waits=len(VALUES))
    waiting = {action["origin"]["toolCallId"]: action["id"] for action in view.pending}
    assert len(set(actions)) == len(VALUES)
    for part, (_, data) in zip(view.tools, VALUES, strict=True):
        await client.submit(thread, waiting[part["toolCallId"]], data)
    await client.until(lambda: view.idle, "idle")
    got = [part["output"]["got"] for part in view.tools]
    assert [json.dumps(value) for value in got] == [json.dumps(data) for _, data in VALUES]


@pytest.mark.parametrize("kind", ["bool", "int", "str", "list", "object"])
async def test_null_is_an_answer_only_if_the_schema_says_so(connect, a, thread, kind) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    (action,) = await ask(client, thread, json.dumps([[["value", {"kind": kind}]]]))
    with pytest.raises(Refusal) as refused:
        await client.submit(thread, action, None)
    assert refused.value.code == "invalid"


async def test_truthy_strings_and_numbers_are_not_approvals(connect, a, thread, journal) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    view = await client.subscribe(thread)
    (action,) = await ask(client, thread)
    for approved in ("true", 1, "yes", None, 1.0, "1"):
        with pytest.raises(Refusal) as refused:
            await client.submit(thread, action, {"approved": approved})
        assert refused.value.code == "invalid"
        assert refused.value.frame["errors"][0]["path"] == ["approved"]
    assert [pending["id"] for pending in view.pending] == [action]
    assert journal.count("approved") == 0


async def test_a_bot_that_answers_at_once_is_never_told_unknown(connect, a: ServerProcess, b: ServerProcess) -> None:  # type: ignore[no-untyped-def]
    """Case 87, a few hundred times here; the long run is in the chaos suite."""
    one, two = await connect(a), await connect(b)
    thread = f"bot-{secrets.token_hex(4)}"
    view, mine = await two.subscribe(thread), await one.subscribe(thread)
    calls = 15
    rounds = 20
    for _ in range(rounds):
        answered: set[str] = set()
        await one.say(thread, json.dumps([[["approve", {"label": str(n)}]] for n in range(calls)]))
        while len(answered) < calls:
            await two.until(lambda answered=answered: any(p["id"] not in answered for p in view.pending), "a question")
            for action in view.pending:
                if action["id"] not in answered:
                    answered.add(action["id"])
                    ack = await two.submit(thread, action["id"], {"approved": True})
                    assert ack["type"] == "ack"
        await one.until(lambda: mine.idle, "idle")
        await two.until(lambda: view.idle, "idle")
