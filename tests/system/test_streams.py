"""Cases "Streaming and rejoining": one order, exactly what was missed, never a hole or a repeat."""

from __future__ import annotations

import asyncio
import json

from system.test_answers import ask

STORY = json.dumps([{"words": 60, "delay": 0.01}])


async def test_five_reloads_in_the_middle_of_a_stream_end_with_the_same_text(connect, a, b, thread) -> None:  # type: ignore[no-untyped-def]
    watcher = await connect(b)
    whole = await watcher.subscribe(thread)
    one = await connect(a)
    await one.subscribe(thread)
    await one.say(thread, STORY)
    for n in range(5):
        await one.until(lambda n=n: f"word{n * 5} " in one.views[thread].text, "more text")
        await one.cut()
        one = await connect((a, b)[n % 2])
        view = await one.subscribe(thread)
    await one.until(lambda: view.idle, "idle")
    await watcher.until(lambda: whole.idle, "idle")
    assert view.text == whole.text == "".join(f"word{n} " for n in range(60))
    assert view.state == whole.state


async def test_a_resume_by_cursor_brings_exactly_what_was_missed(connect, a, b, thread) -> None:  # type: ignore[no-untyped-def]
    one, watcher = await connect(a), await connect(b)
    whole = await watcher.subscribe(thread)
    view = await one.subscribe(thread)
    await one.say(thread, STORY)
    await one.until(lambda: "word10 " in view.text, "some text")
    await one.cut()
    two = await connect(b)
    snapshots = view.snapshots
    view = await two.resume(thread, one)  # the chain of tags is checked on every frame
    await two.until(lambda: view.idle, "idle")
    await watcher.until(lambda: whole.idle, "idle")
    assert view.snapshots == snapshots
    assert view.resets == []
    assert view.state == whole.state


async def test_a_socket_dropped_in_the_continuation_gets_only_what_it_missed(connect, a, b, thread) -> None:  # type: ignore[no-untyped-def]
    one = await connect(a)
    view = await one.subscribe(thread)
    script = json.dumps([[["approve", {"label": "x"}]], {"words": 60, "delay": 0.01}])
    (action,) = await ask(one, thread, script)
    await one.submit(thread, action, {"approved": True})
    await one.until(lambda: "word10 " in view.text, "the continuation")
    await one.cut()
    two = await connect(b)
    seen = len(view.events)
    view = await two.resume(thread, one)
    await two.until(lambda: view.idle, "idle")
    assert not any(event["type"] in ("action-pending", "action-resolved") for event in view.events[seen:])
    assert view.text.split() == [f"word{n}" for n in range(60)]


async def test_offline_and_back_with_and_without_news(connect, a, b, thread) -> None:  # type: ignore[no-untyped-def]
    one, other = await connect(a), await connect(b)
    view = await one.subscribe(thread)
    for n in range(5):
        await one.close()
        await other.say(thread, f"news {n}")
        watcher = await other.subscribe(thread)
        await other.until(lambda n=n, w=watcher: w.idle and f"news {n}" in w.text, "the reply")
        back = await connect(a)
        snapshots = view.snapshots
        view = await back.resume(thread, one)
        await back.until(lambda n=n: view.idle and f"news {n}" in view.text, "the missed events")
        assert view.snapshots == snapshots
        await back.close()
        heard = len(view.events)
        again = await connect(b)
        view = await again.resume(thread, back)
        assert len(view.events) == heard, "nothing was missed, so nothing is sent"
        one = again


async def test_silence_of_the_model_shows_as_running_and_tokens_arrive_later(connect, a, thread) -> None:  # type: ignore[no-untyped-def]
    one = await connect(a)
    await one.subscribe(thread)
    await one.say(thread, json.dumps([{"silence": 2.5, "words": 3}]))
    await one.until(lambda: one.views[thread].state["status"] == "running", "running")
    await one.cut()
    two = await connect(a)
    view = await two.subscribe(thread)
    assert view.state["status"] == "running"
    await two.until(lambda: view.idle, "idle")
    assert view.text.split() == ["word0", "word1", "word2"]


async def test_a_joiner_sees_an_action_that_opens_after_the_log_was_trimmed(connect, a, b, thread) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(a), await connect(b)
    await one.subscribe(thread)
    script = json.dumps([{"words": 3000}, []])
    await one.say(thread, script)
    await one.until(lambda: one.views[thread].idle, "idle")
    await one.say(thread, json.dumps([[["slow", {"seconds": 0.7}]], [["approve", {"label": "late"}]]]))
    await one.until(lambda: one.views[thread].tools and one.views[thread].tools[0]["state"] == "running", "running")
    view = await two.subscribe(thread)
    assert view.tools[0]["state"] == "running"
    await two.until(lambda: view.pending, "the action")
    await two.submit(thread, view.pending[0]["id"], {"approved": True})
    await two.until(lambda: view.idle, "idle")


async def test_an_answer_from_one_tab_reaches_the_other_without_reload(connect, a, b, thread) -> None:  # type: ignore[no-untyped-def]
    one, two = await connect(a), await connect(b)
    (action,) = await ask(one, thread)
    watching = one.views[thread]
    await two.submit(thread, action, {"approved": True})
    await one.until(lambda: watching.idle, "idle")
    assert watching.tools[0]["state"] == "output-available"
    assert watching.tools[0]["actions"][0]["resolution"]["by"]["id"] == "anonymous"


async def test_many_tabs_see_the_same_state(connect, a, b, thread) -> None:  # type: ignore[no-untyped-def]
    one = await connect(a)
    await one.subscribe(thread)
    await one.say(thread, STORY)
    await one.until(lambda: "word3 " in one.views[thread].text, "streaming")
    tabs = [await connect((a, b)[n % 2]) for n in range(40)]
    views = await asyncio.gather(*(tab.subscribe(thread) for tab in tabs))
    await asyncio.gather(*(tab.until(lambda v=view: v.idle, "idle") for tab, view in zip(tabs, views, strict=True)))
    await one.until(lambda: one.views[thread].idle, "idle")
    assert all(view.state == one.views[thread].state for view in views)


async def test_older_messages_come_on_request(connect, a, thread) -> None:  # type: ignore[no-untyped-def]
    client = await connect(a)
    view = await client.subscribe(thread)
    for n in range(60):
        await client.say(thread, f"m{n}")
        await client.until(lambda n=n: view.idle and f"m{n}" in view.text, "the reply")
    fresh = await connect(a)
    late = await fresh.subscribe(thread)
    assert late.state["before"] + len(late.state["messages"]) == 120
    assert late.state["before"] > 0
    ack = await fresh.command("history", thread=thread, before=late.state["before"], limit=200)
    messages = [*ack["page"]["messages"], *late.state["messages"]]
    assert ack["page"]["before"] == 0
    assert messages == view.state["messages"]
