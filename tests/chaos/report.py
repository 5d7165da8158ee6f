"""What a chaos run did, for people: a summary of a history. Counts; judges nothing."""

from __future__ import annotations

from collections import Counter
from statistics import median

from .checker import resolutions, takeovers
from .history import History

__all__ = ["summary"]

SHOWN = 50


def summary(history: History, violations: list[str]) -> str:
    """Lines that say what was done, what came of it, and what was wrong."""
    commands = list(history.commands.values())
    faults = Counter(fault.kind for fault in history.faults)
    accepted = Counter(command.kind for command in commands if command.acks)
    refused = Counter(refusal["code"] for command in commands for refusal in command.refusals)
    replies = [reply for command in commands for reply in command.replies]
    unavailable = sum(reply.frame is not None and reply.frame.get("code") == "unavailable" for reply in replies)
    silent = sum(reply.frame is None for reply in replies)
    ends = Counter(resolution["how"] for resolution in resolutions(history).values())
    entries = [line for line in history.journal if line["kind"] == "enter"]
    taken, undisturbed = takeovers(history), takeovers(history, undisturbed=True)
    resets = Counter(why for observer in history.observers for why in observer.resets)
    lost = sum("lost" in violation or "is there 0 times" in violation for violation in violations)
    doubled = sum(" times" in violation and "is there 0 times" not in violation for violation in violations)
    lines = [
        f"seed         {history.seed}",
        f"rain         {history.ended - history.started:.0f} s on {len(history.finals)} threads",
        f"faults       {sum(faults.values())}: {_counts(faults)}",
        f"commands     {len(commands)} in {len(replies)} sendings; {silent} without a reply, {unavailable} unavailable",
        f"accepted     {_counts(accepted)}",
        f"refused      {_counts(refused)}",
        f"actions      {sum(ends.values())}: {_counts(ends)}",
        f"entries      {len(entries)} of tools, {sum(line['attempt'] > 1 for line in entries)} of them again",
        f"takeovers    {_times(taken)}; with nothing else wrong {_times(undisturbed)}",
        f"sockets      {history.sockets} opened, {history.resumes} resumed by cursor, resets: {_counts(resets)}",
        f"events       {sum(map(len, history.events.values()))} positions compared on all clients",
        f"lost         {lost}",
        f"doubled      {doubled}",
        f"violations   {len(violations)}",
    ]
    return "\n".join([*lines, *(f"  - {violation}" for violation in violations[:SHOWN])])


def _times(seconds: list[float]) -> str:
    return f"{len(seconds)}: median {median(seconds):.2f} s, worst {max(seconds):.2f} s" if seconds else "none"


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counter.most_common()) or "none"
