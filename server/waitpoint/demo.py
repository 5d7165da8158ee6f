"""The demo chat: ``waitpoint demo``. Needs no key and no network.

Knows what the demo says. The model is scripted: a keyword in the message picks the tool, and the result is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from .app import Chat
from .demo_tools import TOOLS
from .models import Call, ModelRequest, ScriptedModel, ToolResult, ToolTurn, UserTurn, to_turns
from .models.scripted import Line

__all__ = ["chat", "script"]

WORD_DELAY = 0.03
"""Seconds between words: slow enough to watch, and to reload the page in the middle."""

HELP = """Hello! I am a scripted demo: no key, no network, and real tools that stop and wait for you.

Say one of these:
- report: asks who a report is for, and when it is due
- draft: three questions in a row; say no to the draft and it ends there
- approve: asks for a yes or a no
- both: two tools at once, each with its own question
- form: a form with a field of every kind
- story: a long answer; reload the page while it comes

While I wait you can reload, open a second tab, or restart the server: the question stays."""

STORY = """Once there was a harbour at the end of a long and narrow bay, and above the harbour stood a signal house.

The keeper of the signal house had one task. When a ship came in from the sea she raised a flag and asked its captain \
a question: who are you, and what do you carry? Then she waited. Some captains answered at once. Some were asleep, and \
answered in the morning. One, it is told, answered after eleven years, when the wind had at last brought him back.

The keeper wrote every question in a book before she raised the flag, for she had learned that a flag alone is soon \
forgotten. One winter a storm put out all her lamps and tore the roof from the house. When the storm was over she lit \
the lamps again, opened the book, and raised the very flags that had flown before. No captain had to be told that \
there had been a storm.

It also happened that two boats came from one ship, each with an answer to the same question, and the answers did not \
agree. The keeper took the one that reached the stairs first, and wrote it down with the name of the man who brought \
it. To the other she said, kindly: this has been answered, by him, at noon; here is what he said. Nobody was left \
standing at the stairs without a word.

In time a second signal house was built across the bay, so that one could sleep while the other watched. They had a \
single book between them, and the rule that only one of them might hold the pen. If the one with the pen fell asleep, \
the other waited a little while, took up the pen, and wrote a higher number at the head of the page. When the sleeper \
woke and wished to go on writing, she saw the number, and put her own pen down.

Ships still come into that bay. The questions are still short, and the answers are still late. And whoever asks the \
keepers how they can bear so much waiting gets the same reply: we do not wait at all. The book waits. We do other \
things, and when an answer comes, we open it at the right page.

And that is the end of the story."""


def script(request: ModelRequest) -> Iterator[Line]:
    """One model step of the demo."""
    turns = to_turns(request.messages)
    if request.step > 0 and turns and isinstance(turns[-1], ToolTurn):
        results = turns[-1].results
        yield "\n\n".join(_tell(result) for result in results)
        return
    said = next((turn.text for turn in reversed(turns) if isinstance(turn, UserTurn)), "")
    yield from _answer(said.lower())


def _answer(said: str) -> Iterable[Line]:
    """The reply to the first keyword that was said; "report" comes last, since every other wish may be about one."""
    words = re.findall(r"[a-z]+", said)
    for keyword, reply in _REPLIES.items():
        if keyword in words:
            return reply
    return [HELP]


_REPORT = Call("collectReportDetails", {"report_id": "R-1", "known_summary": "Sales in the third quarter"})

_REPLIES: dict[str, list[Line]] = {
    "draft": [
        "Let us draft it together.",
        Call("draftReport", {"report_id": "R-2"}),
    ],
    "approve": [
        "The report is ready. I send nothing without your approval.",
        Call("requestApproval", {"summary": "Send the quarterly report to all 120 customers?"}),
    ],
    "both": [
        "Two things at once. Answer them in any order; I go on when I have both.",
        _REPORT,
        Call("requestApproval", {"summary": "Book the large meeting room for the presentation?"}),
    ],
    "form": [
        "Gladly. This form has a field of every kind.",
        Call("planEvent", {"occasion": "summer event"}),
    ],
    "story": [STORY],
    "report": [
        "I will write that report. I only need two more details.",
        _REPORT,
    ],
}


def _tell(result: ToolResult) -> str:
    """Say how a call ended, quoting what came out of it."""
    if result.error_text is not None:
        return f"That did not work out. {result.error_text.splitlines()[0]}"
    output = result.output
    match result.tool_name:
        case "collectReportDetails":
            due = f", due {output['deadline']}" if output.get("deadline") else ", without a deadline"
            return f"Noted: the report is for {output['audience']}{due}. Thank you!"
        case "draftReport" if output["status"] == "rejected":
            return f"Understood, the draft is rejected{_quoted(output)}. I leave it at that."
        case "draftReport":
            return f"Done: the draft is approved{_quoted(output)}, with file {output['file_id']} attached."
        case "requestApproval" if output["approved"]:
            return f"Approved{_quoted(output)}. On its way!"
        case "requestApproval":
            return f"Not approved{_quoted(output)}. Then I leave it."
        case "planEvent":
            venue = output["venue"]
            topics = f" Topics: {', '.join(output['topics'])}." if output["topics"] else ""
            return (
                f"“{output['title']}” is a {output['kind']} for {output['seats']} at {venue['name']}, {venue['city']}, "
                f"{'open to everybody' if output['public'] else 'by invitation'}.{topics}"
            )
        case _:
            return f"{result.tool_name} returned {output}."


def _quoted(output: dict[str, str | None]) -> str:
    return f" (“{output['comment']}”)" if output.get("comment") else ""


chat = Chat(
    ScriptedModel(script, delay=WORD_DELAY),
    TOOLS,
    title="Waitpoint demo",
    suggestions=["report", "draft", "approve", "both", "form", "story"],
)
