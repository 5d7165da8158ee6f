"""What a model may do wrong: each ends definitely within moments, and the thread goes on (promises 6 and 11)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from support.servers import RedisServer
from support.standing import StandingServer, standing
from system.conversations import SOON, goes_on, play


@pytest.fixture(scope="module")
def odd(redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandingServer]:
    with standing("support.odd_chat:chat", redis_server.url, tmp_path_factory.mktemp("odd")) as server:
        yield server


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        ("nan-input", "not-finite"),
        ("huge-int-input", "integer-range"),
        ("surrogate-input", "bad-unicode"),
        ("bytes-input", "unsupported-type"),
        ("string-input", "does not fit"),
        ("unknown-tool", "no tool no_such_tool"),
        ("surrogate-name", "no tool"),
        ("long-name", "no tool"),
    ],
)
async def test_a_call_that_cannot_be_a_call_ends_readable_for_the_model(connect, odd, thread, stream, said) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await play(client, thread, {"odd": stream})
    (part,) = view.tools
    assert part["state"] == "output-error"
    assert said in part["errorText"]
    assert len(part["errorText"]) <= 4_000
    assert "1 results" in view.text
    await goes_on(connect, odd, client, thread)


async def test_call_ids_of_any_form_are_made_usable(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await play(client, thread, {"odd": "bad-id"})
    assert [part["output"] for part in view.tools] == ["quick spaces", "quick empty", "quick long"]
    assert len({part["toolCallId"] for part in view.tools}) == 3
    await goes_on(connect, odd, client, thread)


async def test_two_calls_under_one_id_are_two_calls(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await play(client, thread, {"odd": "same-id"})
    assert [part["output"] for part in view.tools] == ["quick first", "quick second"]
    assert "2 results" in view.text
    await goes_on(connect, odd, client, thread)


@pytest.mark.parametrize("stream", ["start-only", "breaks-in-call"])
async def test_a_call_that_was_never_complete_does_not_stay_open(connect, odd, thread, stream) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await play(client, thread, {"odd": stream})
    assert [part["state"] for part in view.tools] == ["output-error"]
    await goes_on(connect, odd, client, thread)


async def test_a_stop_in_the_middle_of_a_call_leaves_nothing_open(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await client.subscribe(thread)
    await client.say(thread, json.dumps([{"odd": "slow-call"}]))
    await client.until(lambda: view.tools and len(view.tools[0].get("inputText", "")) > 3, "the call to be written")
    await client.command("stop", thread=thread)
    await client.until(lambda: view.idle, "idle", deadline=SOON)
    assert view.tools[0]["state"] == "output-error"
    assert "Stopped" in view.tools[0]["errorText"]
    assert view.text == "Calling. "
    await goes_on(connect, odd, client, thread)


@pytest.mark.parametrize("stream", ["raises", "exits", "cancels", "not-an-event"])
async def test_a_model_that_breaks_ends_the_turn_with_a_reason(connect, odd, thread, stream) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await play(client, thread, {"odd": stream})
    message = view.state["messages"][-1]
    assert message["reason"] == "error"
    assert message["errorText"].startswith("The model failed")
    assert len(message["errorText"]) <= 4_000
    assert odd.alive
    await goes_on(connect, odd, client, thread)


@pytest.mark.parametrize("stream", ["silent", "endless"])
async def test_a_model_that_never_ends_can_be_stopped(connect, odd, thread, stream) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await client.subscribe(thread)
    await client.say(thread, json.dumps([{"odd": stream}]))
    await client.until(lambda: view.state["status"] == "running", "running")
    await client.command("stop", thread=thread)
    await client.until(lambda: view.idle, "idle", deadline=SOON)
    assert view.state["messages"][-1]["reason"] == "stopped"
    await goes_on(connect, odd, client, thread)


async def test_a_stream_that_ignores_its_end_says_nothing_in_the_next_turn(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await client.subscribe(thread)
    await client.say(thread, json.dumps([{"odd": "stubborn"}]))
    await client.until(lambda: "stubborn3 " in view.text, "some text")
    await client.say(thread, json.dumps([{"odd": "endless"}]))  # queued; still streaming when the old stream ends
    await client.command("stop", thread=thread)
    await client.until(lambda: "more more" in view.text, "the next turn", deadline=SOON)
    await client.until(lambda: view.text.count("more ") > 400, "time for the old stream to end", deadline=15)
    assert "stubborn" not in view.text
    assert view.tools == []
    await client.command("stop", thread=thread)
    await client.until(lambda: view.idle, "idle", deadline=SOON)
    await goes_on(connect, odd, client, thread)


async def test_ten_megabytes_in_one_delta_arrive_whole(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await play(client, thread, {"odd": "megabytes"}, deadline=20)
    assert view.text == "é" * 5_000_000
    await goes_on(connect, odd, client, thread)


async def test_halves_of_characters_are_joined_or_replaced(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await play(client, thread, {"odd": "surrogates"})
    assert view.text == "smile \U0001f600 and \ufffdend \ufffd"
    await goes_on(connect, odd, client, thread)


async def test_odd_usage_and_reason_do_not_cost_the_answer(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await play(client, thread, {"odd": "bad-finish"})
    assert view.text == "fine"
    (finish,) = [event for event in view.events if event["type"] == "step-finish"]
    assert finish["usage"] == {"ok": 3}
    await goes_on(connect, odd, client, thread)


async def test_a_model_that_says_nothing_ends_its_turn(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await play(client, thread, {"odd": "nothing"})
    assert view.state["messages"][-1]["parts"] == []
    await goes_on(connect, odd, client, thread)


async def test_forty_calls_in_one_step_have_forty_results_in_order(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await play(client, thread, {"odd": "many-calls"})
    assert [part["output"] for part in view.tools] == [f"quick {n}" for n in range(40)]
    assert "40 results" in view.text


async def test_a_stop_in_the_middle_of_a_text_shows_the_same_to_everybody(connect, odd, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await client.subscribe(thread)
    await client.say(thread, json.dumps([{"odd": "endless"}]))
    await client.until(lambda: "more more" in view.text, "some text")
    await client.command("stop", thread=thread)
    await client.until(lambda: view.idle, "idle", deadline=SOON)
    ack = await client.command("history", thread=thread, before=2, limit=2)
    assert ack["page"]["messages"] == view.state["messages"]
    assert view.state["messages"][-1]["parts"][-1]["state"] == "done"


@pytest.mark.parametrize(
    ("stream", "said"),
    [("calls-without-end", "more than 128 tool calls"), ("text-without-end", "more than 16,777,216 characters")],
)
async def test_a_step_that_never_stops_growing_is_ended_by_name(connect, odd, thread, stream, said) -> None:  # type: ignore[no-untyped-def]
    client = await connect(odd)
    view = await play(client, thread, {"odd": stream})
    message = view.state["messages"][-1]
    assert message["reason"] == "error"
    assert said in message["errorText"]
    assert all(part["state"] in ("output-available", "output-error") for part in view.tools)
    await goes_on(connect, odd, client, thread)
