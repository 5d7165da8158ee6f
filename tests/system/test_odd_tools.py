"""What a tool may do wrong: that call ends readable, within moments; nothing else suffers (promises 6, 9 and 11)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from support.client import Refusal
from support.servers import RedisServer
from support.standing import StandingServer, standing
from system.conversations import SOON, goes_on, play, wait_for_actions


@pytest.fixture(scope="module")
def odd(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandingServer]:
    with standing("support.odd_chat:chat", redis_server.url, tmp_path_factory.mktemp("odd")) as server:
        yield server


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("base", "_Base: not an Exception"),
        ("exit", "SystemExit"),
        ("interrupt", "KeyboardInterrupt"),
        ("cancelled", "cancelled from inside"),
        ("generator-exit", "GeneratorExit"),
        ("surrogate-error", "ValueError: broken"),
        ("long-error", "ValueError: xxx"),
        ("unprintable", "_Unprintable"),
        ("swallow", "went on"),
        ("child-task", "went on"),
        ("undeclared", "undeclared"),
        ("wrong-suspend", "breaks its suspend schema"),
        ("bad-progress", "surrogate"),
        ("bad-data", "bytes has no JSON form"),
        ("bad-data-name", ""),
        ("bad-data-id", ""),
        ("large-data", "too-large"),
        ("data-flood", ""),
    ],
)
async def test_a_tool_that_misbehaves_ends_its_own_call(connect, odd, thread, how, said) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await play(client, thread, [["odd", {"how": how}], ["quick", {"label": "sibling"}]])
    part, sibling = view.tools
    assert part["state"] == "output-error"
    assert said in part["errorText"]
    assert len(part["errorText"]) <= 4_000
    assert sibling["output"] == "quick sibling"
    assert "2 results" in view.text
    assert odd.alive
    await goes_on(connect, odd, client, thread)


@pytest.mark.parametrize(
    ("how", "said"), [("exit", "SystemExit"), ("interrupt", "KeyboardInterrupt"), ("stop-iteration", "")]
)
async def test_a_sync_tool_that_misbehaves_ends_its_own_call(connect, odd, thread, how, said) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await play(client, thread, [["odd_sync", {"how": how}]])
    assert view.tools[0]["state"] == "output-error"
    assert said in view.tools[0]["errorText"]
    assert odd.alive
    await goes_on(connect, odd, client, thread)


async def test_of_two_suspends_the_first_counts(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    (action,) = await wait_for_actions(client, thread, [["odd", {"how": "twice"}]])
    view = client.views[thread]
    assert view.pending[0]["name"] == "odd.plain"
    await client.command("cancel", thread=thread, action=action)
    await client.until(lambda: view.idle, "idle", deadline=SOON)
    await goes_on(connect, odd, client, thread)


async def test_a_suspend_inside_a_task_group_suspends_the_tool(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    (action,) = await wait_for_actions(client, thread, [["odd", {"how": "group"}]])
    view = client.views[thread]
    assert view.pending[0]["name"] == "odd.plain"
    await client.command("fail", thread=thread, action=action, error={"message": "no"})
    await client.until(lambda: view.idle, "idle", deadline=SOON)
    await goes_on(connect, odd, client, thread)


async def test_a_sync_tool_suspends_and_resumes_in_a_thread(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    (action,) = await wait_for_actions(client, thread, [["odd_sync", {"how": "suspend"}]])
    await client.submit(thread, action, True)
    view = client.views[thread]
    await client.until(lambda: view.idle, "idle", deadline=SOON)
    assert view.tools[0]["output"] == "answered in a thread"


async def test_a_task_that_a_tool_left_behind_says_nothing_more(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await play(client, thread, [["odd", {"how": "leaves-task"}]], [["slow", {"seconds": 0.3}]])
    assert view.tools[0]["output"] == "left a task"
    late = [event for event in view.events if event["type"] == "tool-progress"]
    assert late == []
    await goes_on(connect, odd, client, thread)


async def test_a_tool_that_ignores_its_cancellation_does_not_hold_up_a_stop(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await client.subscribe(thread)
    await client.say(thread, json.dumps([[["odd", {"how": "ignores-cancel"}]]]))
    await client.until(lambda: view.tools and view.tools[0]["state"] == "running", "running")
    await client.command("stop", thread=thread)
    await client.until(lambda: view.idle, "idle", deadline=SOON)
    assert view.tools[0]["state"] == "output-error"
    await goes_on(connect, odd, client, thread)


@pytest.mark.parametrize("tool", ["odd", "odd_sync"])
async def test_a_flood_of_progress_costs_few_events_and_little_memory(connect, odd, thread, tool) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    before = odd.memory()
    how = "progress-flood" if tool == "odd" else "progress"
    view = await play(client, thread, [[tool, {"how": how}]], deadline=30)
    assert view.tools[0]["output"] == "flooded"
    reported = {"odd": 200_000, "odd_sync": 50_000}[tool]
    assert sum(event["type"] == "tool-progress" for event in view.events) < reported / 2  # what the store could take
    assert odd.memory() - before < 100_000_000
    await goes_on(connect, odd, client, thread)


async def test_a_chatty_tool_does_not_hold_back_its_sibling(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await client.subscribe(thread)
    await client.say(thread, json.dumps([[["busy_progress", {"seconds": 3.0}], ["quick", {"label": "x"}]]]))
    await client.until(
        lambda: len(view.tools) == 2 and view.tools[1]["state"] == "output-available", "the sibling", deadline=2.0
    )
    assert view.tools[0]["state"] == "running"
    await client.until(lambda: view.idle, "idle", deadline=10)


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("nan", "not-finite"),
        ("inf", "not-finite"),
        ("bytes", "unsupported-type"),
        ("huge-int", "integer-range"),
        ("just-over", "integer-range"),
        ("surrogate", "surrogate"),
        ("surrogate-key", "surrogate"),
        ("int-key", "keys are strings"),
        ("set", "unsupported-type"),
        ("decimal", "unsupported-type"),
        ("datetime", "unsupported-type"),
        ("enum", "unsupported-type"),
        ("object", "unsupported-type"),
        ("deep", "nested too deeply"),
        ("large", "too-large"),
        ("circular", "has no JSON form"),
    ],
)
@pytest.mark.parametrize("way", ["give", "show"])
async def test_a_value_that_does_not_fit_fails_the_call_by_name(connect, odd, thread, way, what, code) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await play(client, thread, [[way, {"what": what}]])
    (part,) = view.tools
    assert part["state"] == "output-error"
    words = {"not-finite": "not a JSON number", "unsupported-type": "has no JSON form", "integer-range": "2^53"}
    assert words.get(code, code) in part["errorText"], part["errorText"]
    assert "output" not in part
    assert part["actions"] == []


async def test_two_tabs_race_with_a_stop_while_the_tool_enters(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    """Stop at every point of a resumption: exactly one result, and the thread goes on."""
    client, other = await connect(odd), await connect(odd)
    view = await client.subscribe(thread)
    for round in range(30):
        (action,) = await wait_for_actions(client, thread, [["ask", {"label": str(round)}]])
        await client.send({"type": "submit", "id": f"s{round}", "thread": thread, "action": action, "data": True})
        for _ in range(round):
            await other.send({"type": "pong"})
        await other.command("stop", thread=thread)
        await client.until(lambda: view.idle, "idle", deadline=SOON)
        assert view.tools[0]["state"] in ("output-available", "output-error")
        assert [r["resolution"]["how"] in ("submitted", "cancelled") for r in view.tools[0]["actions"]] == [True]
    await goes_on(connect, odd, client, thread)


async def test_a_repeat_of_a_wrong_kind_of_answer_changes_nothing(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    (action,) = await wait_for_actions(client, thread, [["ask", {}]])
    for _ in range(3):
        with pytest.raises(Refusal) as refused:
            await client.submit(thread, action, "yes", id="same")
        assert refused.value.code == "invalid"
    ack = await client.submit(thread, action, True, id="same")  # a refusal writes nothing: the id is still free
    assert "dup" not in ack
