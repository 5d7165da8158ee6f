"""Cases of tools over real processes: deploys, missing secrets, other people, odd values, and ends of every kind."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from protocol.data import names, packed, spelled, vectors
from support.client import Client, Refusal, View
from support.process import ROOT
from waitpoint_protocol.values import same

OLD, NEW = "support.builds:old", "support.builds:new"
LEASE = {"WAITPOINT_LEASE": "1500"}
SECRET = {"WAITPOINT_TEST_SECRET": "s3cret"}


def calling(*calls: tuple[str, Any]) -> str:
    """The message that makes the model call these tools in one step."""
    return json.dumps([[list(call) for call in calls]])


async def waits(client: Client, thread: str, script: str, number: int = 1) -> View:
    """Say a script and wait until so many actions are pending."""
    view = client.views.get(thread) or await client.subscribe(thread)
    await client.say(thread, script)
    await client.until(lambda: len(view.pending) == number, f"{number} pending actions")
    return view


def one_result_per_call(journal: Any, view: View, thread: str) -> None:
    """The last model request of this thread had exactly one result for every call, in call order."""
    calls = [
        part["toolCallId"]
        for message in view.state["messages"]
        for part in message["parts"]
        if part["type"] == "tool" and "input" in part
    ]
    last = journal.entries("told", thread=thread)[-1]
    assert [result[0] for result in last["results"]] == calls


# --- 14: a new build


async def test_a_deploy_that_changes_tools_ends_what_cannot_go_on_and_lets_the_rest_go_on(  # type: ignore[no-untyped-def]
    connect, server, stack, thread, journal
) -> None:
    before = await stack.enter_async_context(server("old", OLD))
    calls = ("renamed", "point_removed", "answer_grew", "input_changed", "unchanged")
    inputs = {"input_changed": {"amount": 3}}
    asked = await waits(
        await connect(before), thread, calling(*((name, inputs.get(name, {})) for name in calls)), len(calls)
    )
    pending = list(asked.pending)
    await before.stop()

    after = await stack.enter_async_context(server("new", NEW))
    client = await connect(after)
    view = await client.subscribe(thread)
    assert view.pending == pending
    async with httpx.AsyncClient() as http:
        listed = await http.get(f"http://127.0.0.1:{after.port}/threads/{thread}")
        assert listed.status_code == 200, listed.text
        assert [action["id"] for action in listed.json()["state"]["pending"]] == [action["id"] for action in pending]

    actions = {action["origin"]["toolName"]: action for action in pending}
    # What people were shown is what they are held to, whatever the new build wants to know.
    for name, wrong, path in (
        ("renamed", {"approved": "yes"}, ["approved"]),
        ("point_removed", {}, ["approved"]),
        ("answer_grew", {"street": 1}, ["street"]),
        ("answer_grew", {"street": "Elm", "zip": "1010"}, ["zip"]),
        ("unchanged", {"approved": 1}, ["approved"]),
    ):
        with pytest.raises(Refusal) as refused:
            await client.submit(thread, actions[name]["id"], wrong)
        assert refused.value.code == "invalid"
        assert [error["path"] for error in refused.value.frame["errors"]] == [path]
    assert view.pending == pending

    for name in calls:
        answer = {"street": "Elm"} if name == "answer_grew" else {"approved": True}
        assert (await client.submit(thread, actions[name]["id"], answer))["type"] == "ack"
    await client.until(lambda: view.idle, "idle")
    said = [part.get("errorText") or part["output"] for part in view.tools]
    for text, words in zip(
        said,
        (
            "no tool renamed any more",
            "no longer has the wait point signature",
            "no longer fits the wait point where",
            "input does not fit input_changed",
            "approved: True",
        ),
        strict=True,
    ):
        assert words in text
    # No code of a changed tool ran, and the model reads of each how it ended.
    assert [entry["tool"] for entry in journal.entries("entered")] == ["unchanged"]
    assert [result[2] for result in journal.entries("told")[-1]["results"]] == said
    await client.say(thread, "and now?")
    await client.until(lambda: view.idle and "and now?" in view.text, "the next message")


async def test_two_builds_side_by_side_end_each_call_once(connect, server, stack, thread, journal) -> None:  # type: ignore[no-untyped-def]
    """A rolling deploy: the old build still runs while the new one takes the answers."""
    a = await stack.enter_async_context(server("old", OLD))
    b = await stack.enter_async_context(server("new", NEW))
    one, two = await connect(a), await connect(b)
    view = await waits(one, thread, calling(("renamed", {}), ("unchanged", {})), 2)
    for action in list(view.pending):
        await two.submit(thread, action["id"], {"approved": True})
    await one.until(lambda: view.idle, "idle")
    assert all(part["state"].startswith("output-") for part in view.tools)
    assert view.tools[1]["output"] == "approved: True"
    assert journal.count("entered", tool="unchanged") == 1
    one_result_per_call(journal, view, thread)


# --- 15: what a tool needs is missing


async def test_a_secret_that_is_missing_on_resume_ends_the_call_in_words_and_the_next_call_finds_it(  # type: ignore[no-untyped-def]
    connect, server, stack, thread, journal
) -> None:
    a = await stack.enter_async_context(server("a", NEW))
    client = await connect(a)
    view = await waits(client, thread, calling(("sign", {"document": "d"})))
    [action] = view.pending
    await client.submit(thread, action["id"], {"approved": True})
    await client.until(lambda: view.idle, "idle")
    [part] = view.tools
    assert part["state"] == "output-error"
    assert "WAITPOINT_TEST_SECRET is not set" in part["errorText"]
    await a.stop()

    b = await stack.enter_async_context(server("b", NEW, **SECRET))
    client = await connect(b)
    view = await client.subscribe(thread)
    with pytest.raises(Refusal) as refused:
        await client.submit(thread, action["id"], {"approved": True})
    assert refused.value.code == "already-resolved"
    view = await waits(client, thread, calling(("sign", {"document": "d"})))
    await client.submit(thread, view.pending[0]["id"], {"approved": True})
    await client.until(lambda: view.idle, "idle")
    assert view.tools[0]["output"]["signed"] == "d"
    assert [entry["key"] for entry in journal.entries("signed")] == ["s3cret"]


async def test_a_build_that_cannot_even_be_loaded_leaves_every_wait_as_it_was(  # type: ignore[no-untyped-def]
    connect, server, stack, thread, journal
) -> None:
    a = await stack.enter_async_context(server("a", NEW, **LEASE))
    view = await waits(await connect(a), thread, calling(("sign", {"document": "d"})))
    pending = list(view.pending)
    await a.kill()

    broken = server("broken", "support.secret_chat:chat", **LEASE)
    with pytest.raises(AssertionError, match="WAITPOINT_TEST_SECRET is not set"):
        await broken.start()
    fixed = await stack.enter_async_context(server("fixed", "support.secret_chat:chat", **LEASE, **SECRET))
    client = await connect(fixed)
    view = await client.subscribe(thread)
    assert view.pending == pending
    assert view.tools[0]["state"] == "waiting"
    await client.submit(thread, pending[0]["id"], {"approved": True})
    await client.until(lambda: view.idle, "idle")
    assert journal.count("signed") == 1


# --- 16: another process, another person


async def test_an_answer_from_somebody_else_on_a_new_build_enters_with_new_deps_and_the_old_call(  # type: ignore[no-untyped-def]
    connect, server, stack, thread, journal
) -> None:
    a = await stack.enter_async_context(server("a", OLD, WAITPOINT_TEST_BUILD="1", **LEASE))
    ann = await connect(a, hello={"token": "ann"})
    view = await waits(ann, thread, calling(("sign", {"document": "lease"})))
    [action] = view.pending
    assert action["input"] == {"prompt": "Sign lease? Asked by build 1"}
    await a.kill()

    b = await stack.enter_async_context(server("b", NEW, WAITPOINT_TEST_BUILD="2", **LEASE, **SECRET))
    bob = await connect(b, hello={"token": "bob"})
    view = await bob.subscribe(thread)
    assert view.pending == [action]
    await bob.submit(thread, action["id"], {"approved": True})
    await bob.until(lambda: view.idle, "idle")
    [signed] = journal.entries("signed")
    assert (signed["document"], signed["build"], signed["identity"]) == ("lease", "2", "bob")
    assert signed["by"]["id"] == "bob"
    resolution = view.tools[0]["actions"][0]["resolution"]
    assert (resolution["how"], resolution["by"]["id"]) == ("submitted", "bob")
    assert view.tools[0]["output"] == {"signed": "lease", "build": "2", "by": "bob"}


# --- 17, 32: what the model is asked, and what it is told


async def test_a_wait_in_the_second_of_three_steps_repeats_no_step_over_a_kill(  # type: ignore[no-untyped-def]
    connect, server, stack, thread, journal
) -> None:
    a = await stack.enter_async_context(server("a", NEW, **LEASE))
    script = json.dumps([[["fast", {"label": "1"}]], [["approve", {"label": "2"}]], [["fast", {"label": "3"}]]])
    view = await waits(await connect(a), thread, script)
    [action] = view.pending
    await a.kill()
    b = await stack.enter_async_context(server("b", NEW, **LEASE))
    client = await connect(b)
    view = await client.subscribe(thread)
    await client.submit(thread, action["id"], {"approved": True})
    await client.until(lambda: view.idle, "idle")
    assert [entry["step"] for entry in journal.entries("told")] == [0, 1, 2, 3]
    assert [entry["label"] for entry in journal.entries("fast")] == ["1", "3"]
    assert journal.count("asked") == journal.count("approved") == 1
    one_result_per_call(journal, view, thread)


async def test_tool_definitions_are_the_same_before_during_and_after_a_wait(  # type: ignore[no-untyped-def]
    connect, server, stack, thread, journal
) -> None:
    a = await stack.enter_async_context(server("a", NEW))
    client = await connect(a)
    view = await client.subscribe(thread)
    await client.say(thread, "before")
    await client.until(lambda: view.idle and "before" in view.text, "an answer before")
    calls = (
        ("approve", {"label": "x"}),
        ("gated", {"amount": 1}),
        ("confirm", {"action": "Go"}),
        ("getLocation", {}),
        ("sign", {"document": "d"}),
    )
    await waits(client, thread, calling(*calls), len(calls))
    other = await client.subscribe(f"{thread}-other")
    await client.say(f"{thread}-other", "during")
    await client.until(lambda: other.idle and "during" in other.text, "an answer during")
    answers = {"confirm": True, "getLocation": {"street": "Elm"}}
    for action in list(view.pending):
        if action.get("kind") == "client-tool":
            await client.command("claim", thread=thread, action=action["id"])
        answer = answers.get(action["origin"]["toolName"], {"approved": True})
        await client.submit(thread, action["id"], answer)
    await client.until(lambda: view.idle, "idle")
    told = journal.entries("told")
    assert len(told) == 4
    assert all(entry["definitions"] == told[0]["definitions"] for entry in told)
    fields = {name: sorted(schema["properties"]) for name, _, schema in told[0]["definitions"]}
    # Inputs only: nothing of what is asked or answered at a wait, nor of the gate.
    assert fields["approve"] == ["label"]
    assert fields["gated"] == ["amount"]
    assert fields["sign"] == ["document"]
    assert fields["getLocation"] == []
    assert fields["confirm"] == ["action"]


# --- 13, 33: values


GOOD = [vector for vector in vectors("values") if "value" in vector and "nested" not in str(vector["value"])]
CODES = {"not-finite", "integer-range", "bad-unicode", "bad-key", "duplicate-key", "unsupported-type"}
BAD = [vector for vector in vectors("values") if vector.get("refused") in CODES]


async def test_values_of_every_kind_are_the_same_before_and_after_a_kill(  # type: ignore[no-untyped-def]
    connect, server, stack, thread, journal
) -> None:
    values = [vector["value"] for vector in GOOD]
    a = await stack.enter_async_context(server("a", NEW, **LEASE))
    view = await waits(await connect(a), thread, calling(("keep_values", {"given": values})))
    [action] = view.pending
    assert same(action["input"], {"values": values})
    await a.kill()
    b = await stack.enter_async_context(server("b", NEW, **LEASE))
    client = await connect(b)
    view = await client.subscribe(thread)
    assert view.pending == [action]
    await client.submit(thread, action["id"], {"back": values})
    await client.until(lambda: view.idle, "idle")
    [seen] = journal.entries("values")
    assert same(seen["input"], values)
    assert same(seen["kept"], values)
    assert same(seen["answer"], {"back": values})
    assert same(view.tools[0]["output"], {"back": values})
    assert journal.count("step") == 1


@pytest.mark.parametrize("codec", ["json", "msgpack"])
async def test_every_odd_value_has_its_documented_outcome_and_the_socket_survives(connect, a, thread, codec) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a, subprotocol=f"waitpoint.v1.{codec}")
    good = [vector for vector in GOOD if codec in vector]
    bad = [vector for vector in BAD if codec in vector]
    assert {vector["refused"] for vector in bad} >= {"not-finite", "integer-range", "bad-unicode", "duplicate-key"}
    view = await waits(client, thread, calling(*[("value", {"kind": "any"})] * len(good)), len(good))
    pending = list(view.pending)
    by_call = {action["origin"]["toolCallId"]: action["id"] for action in pending}
    actions = [by_call[part["toolCallId"]] for part in view.tools]

    async def answer(id: str, action: str, vector: dict[str, Any]) -> dict[str, Any]:
        await client.send_raw(_submit(codec, id, thread, action, vector))
        await client.until(lambda: any(frame.get("id") == id for frame in client.frames), vector["name"])
        return next(frame for frame in client.frames if frame.get("id") == id)

    for number, (name, vector) in enumerate(zip(names(bad), bad, strict=True)):
        reply = await answer(f"bad{number}", actions[0], vector)
        assert (reply["type"], reply["code"]) == ("reject", "bad-frame"), name
        [error] = reply["errors"]
        assert error["code"] == vector["refused"], name
        assert error["path"] == ["data", *vector["path"]], name
    assert view.pending == pending

    for number, (name, vector) in enumerate(zip(names(good), good, strict=True)):
        assert (await answer(f"good{number}", actions[number], vector))["type"] == "ack", name
    await client.until(lambda: view.idle, "idle")
    for part, vector in zip(view.tools, good, strict=True):
        assert same(part["output"]["got"], vector["value"]), vector["name"]
    assert client.closed is None


def _submit(codec: str, id: str, thread: str, action: str, vector: dict[str, Any]) -> str | bytes:
    """A submit frame around the text or the bytes of a vector, which no encoder would write."""
    if codec == "json":
        return (
            f'{{"type":"submit","id":"{id}","thread":"{thread}","action":"{action}","data":{spelled(vector["json"])}}}'
        )
    import msgpack

    frame = {"type": "submit", "id": id, "thread": thread, "action": action}
    fields = b"".join(msgpack.packb(item) for pair in frame.items() for item in pair)
    return bytes([0x80 | 5]) + fields + msgpack.packb("data") + packed(vector["msgpack"])


# --- 35: a schema that is none


async def test_a_schema_that_cannot_be_used_ends_that_call_and_opens_no_wait(  # type: ignore[no-untyped-def]
    connect, server, stack, thread, journal
) -> None:
    a = await stack.enter_async_context(server("a", NEW))
    client = await connect(a)
    view = await waits(client, thread, calling(("uncompilable", {}), ("approve", {"label": "x"})))
    [action] = view.pending
    assert action["name"] == "approve.approval"
    await client.submit(thread, action["id"], {"approved": True})
    await client.until(lambda: view.idle, "idle")
    failed, approved = view.tools
    assert failed["state"] == "output-error"
    assert "schema" in failed["errorText"]
    assert failed["actions"] == []
    assert approved["state"] == "output-available"


# --- 49: waits without an answer


async def test_waits_without_an_answer_stay_visible_as_what_they_were_with_what_was_asked(  # type: ignore[no-untyped-def]
    connect, server, stack, thread, journal
) -> None:
    a = await stack.enter_async_context(server("a", NEW))
    client = await connect(a)
    calls = (("approve", {"label": "one"}), ("approve", {"label": "two"}), ("lapse", {}), ("approve", {"label": "no"}))
    view = await waits(client, thread, calling(*calls), 4)
    by_call = {action["origin"]["toolCallId"]: action["id"] for action in view.pending}
    one, two, _, no = (by_call[part["toolCallId"]] for part in view.tools)
    await client.command("cancel", thread=thread, action=one, reason="too early")
    await client.command("fail", thread=thread, action=two, error={"message": "no camera"})
    await client.submit(thread, no, {"approved": False})
    await client.until(lambda: view.idle, "idle")

    def ends() -> list[str]:
        return [part["actions"][0]["resolution"]["how"] for part in view.tools]

    assert ends() == ["cancelled", "failed", "expired", "submitted"]
    assert [part["state"] for part in view.tools] == ["output-error"] * 3 + ["output-available"]
    first = journal.entries("told")[-1]["results"]
    for (_, _, said), words in zip(
        first,
        (("cancelled", "too early", "Approve one?"), ("no camera", "Approve two?"), ("expired", "quick")),
        strict=False,
    ):
        assert all(word in said for word in words), said
    assert first[3][2]["approved"] is False

    # In later turns, and for another process, they are still what they were.
    await a.stop()
    b = await stack.enter_async_context(server("b", NEW))
    client = await connect(b)
    view = await client.subscribe(thread)
    assert ends() == ["cancelled", "failed", "expired", "submitted"]
    await client.say(thread, "and now?")
    await client.until(lambda: view.idle and "and now?" in view.text, "the next message")
    assert journal.entries("told")[-1]["results"] == first


# --- 51: cut off anywhere between call and result


def _any(state: str) -> Callable[[View], bool]:
    return lambda view: any(part["state"] == state for part in view.tools)


POINTS: dict[str, Callable[[View], bool]] = {
    "called": lambda view: bool(view.tools),
    "running": _any("running"),
    "waiting": lambda view: len(view.pending) == 2,
    "one result": _any("output-available"),
    "last result": lambda view: len(view.tools) == 4 and all(p["state"].startswith("output-") for p in view.tools),
}
BATCH = calling(
    ("fast", {"label": "f"}), ("approve", {"label": "a"}), ("slow", {"seconds": 0.5}), ("gated", {"amount": 7})
)


async def _reach(client: Client, thread: str, point: str) -> View:
    """Say the batch and go on until the point is reached; waits that are in the way are answered."""
    view = await client.subscribe(thread)
    await client.say(thread, BATCH)
    if point == "last result":
        await client.until(lambda: len(view.pending) == 2, "both wait")
        for action in list(view.pending):
            await client.submit(thread, action["id"], {"approved": True})
    await client.until(lambda: POINTS[point](view), point)
    return view


async def _finish(client: Client, view: View, thread: str) -> None:
    """Answer whatever is pending until the thread is idle, then hear the next message answered."""
    answered: set[str] = set()

    def fresh() -> list[Any]:
        return [action for action in view.pending if action["id"] not in answered]

    async with asyncio.timeout(40):
        while not view.idle:
            await client.until(lambda: view.idle or fresh(), "an action, or the end", deadline=20)
            for action in fresh():
                answered.add(action["id"])
                await client.submit(thread, action["id"], {"approved": True})
    await client.say(thread, "and now?")
    await client.until(lambda: view.idle and "and now?" in view.text, "the next message", deadline=20)


@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_between_call_and_result_leaves_one_result_per_call(  # type: ignore[no-untyped-def]
    connect, server, stack, thread, journal, point
) -> None:
    a = await stack.enter_async_context(server("a", NEW, **LEASE))
    await _reach(await connect(a), thread, point)
    await a.kill()
    b = await stack.enter_async_context(server("b", NEW, **LEASE))
    client = await connect(b)
    view = await client.subscribe(thread)
    await _finish(client, view, thread)
    parts = [part for message in view.state["messages"] for part in message["parts"] if part["type"] == "tool"]
    assert [part["state"] for part in parts] == ["output-available"] * 4
    assert journal.count("approved") <= 2  # once, or once more where its execution was cut off
    one_result_per_call(journal, view, thread)


async def test_a_stop_between_call_and_result_leaves_one_result_per_call(  # type: ignore[no-untyped-def]
    connect, server, stack, thread, journal
) -> None:
    a = await stack.enter_async_context(server("a", NEW))
    for number, point in enumerate(POINTS):
        client, name = await connect(a), f"{thread}-{number}"
        view = await _reach(client, name, point)
        await client.command("stop", thread=name)
        await _finish(client, view, name)
        one_result_per_call(journal, view, name)


async def test_a_tool_that_runs_out_of_time_anywhere_has_one_result(connect, server, stack, thread, journal) -> None:  # type: ignore[no-untyped-def]
    a = await stack.enter_async_context(server("a", NEW))
    client = await connect(a)
    places = ("body", "step", "wait", "cleanup")
    view = await waits(client, thread, calling(*(("tardy", {"where": where}) for where in places)))
    await client.submit(thread, view.pending[0]["id"], None)
    await client.until(lambda: view.idle, "idle")
    assert ["did not finish within 0.4 seconds" in part.get("errorText", "") for part in view.tools] == [True] * 4
    one_result_per_call(journal, view, thread)
    assert "Results" in view.text


# --- 48: clocks that are wrong


async def test_deadlines_are_the_stores_whatever_the_servers_clocks_say(connect, server, stack, thread) -> None:  # type: ignore[no-untyped-def]
    skewed = os.pathsep.join([str(ROOT / "tests" / "support" / "skewed"), str(ROOT / "tests")])

    def with_clock(name: str, seconds: int) -> Any:
        path = os.pathsep.join(filter(None, [skewed, os.environ.get("PYTHONPATH")]))
        return stack.enter_async_context(server(name, NEW, PYTHONPATH=path, WAITPOINT_TEST_SKEW=str(seconds)))

    fast, late = await with_clock("fast", 90), await with_clock("late", -90)
    one, two = await connect(fast), await connect(late)
    # Asked through either, the wait lapses after its 0.7 s, once, and not 90 s early or late.
    for number, client in enumerate((one, two)):
        name = f"{thread}-{number}"
        begun = time.monotonic()
        view = await waits(client, name, calling(("lapse", {})))
        [action] = view.pending
        asked, deadline = (datetime.fromisoformat(action[field]) for field in ("at", "expiresAt"))
        assert deadline - asked == timedelta(milliseconds=700)
        assert abs(datetime.now(UTC) - asked) < timedelta(seconds=30)
        await client.until(lambda view=view: view.idle, "the deadline", deadline=8)
        assert 0.6 < time.monotonic() - begun < 8
        ends = [event["resolution"]["how"] for event in view.events if event["type"] == "action-resolved"]
        assert ends == ["expired"]
        for other in (one, two):
            with pytest.raises(Refusal) as refused:
                await other.submit(name, action["id"], True)
            assert refused.value.code == "expired"
    # And what has not lapsed is taken by both.
    view = await waits(one, thread, calling(("lapse", {}), ("approve", {"label": "x"})), 2)
    quick = next(action for action in view.pending if "expiresAt" in action)
    await two.submit(thread, quick["id"], True)
    await two.submit(thread, next(a for a in view.pending if a is not quick)["id"], {"approved": True})
    await one.until(lambda: view.idle, "idle")
    assert [part["state"] for part in view.tools] == ["output-available"] * 2


async def test_a_deadline_that_passed_while_no_server_was_up_fires_once(connect, server, stack, thread) -> None:  # type: ignore[no-untyped-def]
    a = await stack.enter_async_context(server("a", NEW, **LEASE))
    view = await waits(await connect(a), thread, calling(("lapse", {}), ("approve", {"label": "x"})), 2)
    lapsing = next(action for action in view.pending if "expiresAt" in action)
    await a.kill()
    deadline = datetime.fromisoformat(lapsing["expiresAt"])
    while datetime.now(UTC) < deadline:  # the store runs on this machine's clock
        await asyncio.sleep(0.05)
    b, c = await asyncio.gather(*(stack.enter_async_context(server(name, NEW, **LEASE)) for name in ("b", "c")))
    two, three = await connect(b), await connect(c)
    view, other = await two.subscribe(thread), await three.subscribe(thread)
    with pytest.raises(Refusal) as refused:
        await three.submit(thread, lapsing["id"], True)
    assert refused.value.code == "expired"
    await two.until(lambda: len(view.pending) == 1, "the expiry")
    await two.submit(thread, view.pending[0]["id"], {"approved": True})
    await three.until(lambda: other.idle, "idle")
    [part] = [part for part in other.tools if part["toolName"] == "lapse"]
    assert [(record["id"], record["resolution"]["how"]) for record in part["actions"]] == [(lapsing["id"], "expired")]
    assert part["actions"][0]["resolution"]["by"]["kind"] == "system"
