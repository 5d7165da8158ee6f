"""Given / when / then for the rules: a thread brought somewhere by commands, one more command, what must come of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from waitpoint.thread import (
    Accepted,
    Action,
    Actor,
    Context,
    Decision,
    Moot,
    Past,
    Refused,
    Rules,
    Thread,
    decide,
    dump,
    empty,
    load,
    project,
)
from waitpoint.thread import commands as c
from waitpoint.thread import facts as f
from waitpoint.thread.decide import outcome_key
from waitpoint.thread.evolve import evolve_all
from waitpoint.thread.model import Outcome, Resolution
from waitpoint.thread.project import drops, values
from waitpoint_protocol.frames import FieldError

ANN = Actor("ann", name="Ann")
BOB = Actor("bob", name="Bob")


class CountingIds:
    """m1, a2, ...: ids a person can follow in a failing test."""

    def __init__(self) -> None:
        self.count = 0

    def new(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"


def check_boolean(action: Action, data: Any) -> Sequence[FieldError]:
    """Answers of the tests are strict booleans."""
    if isinstance(data, bool):
        return ()
    return (FieldError(path=[], message="Input should be a valid boolean", code="bool_type"),)


@dataclass
class World:
    """A thread with everything the store would keep beside it."""

    thread: Thread = field(default_factory=lambda: empty("t"))
    now: int = 1_000_000
    ids: CountingIds = field(default_factory=CountingIds)
    rules: Rules = field(default_factory=Rules)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    resolutions: dict[str, Resolution] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    facts: list[f.Fact] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    last: Decision | None = None
    commands: int = 0

    def do(self, command: c.Command) -> Decision:
        """Decide as the desk does: the outcome table is asked too, and the state goes through the store."""
        past = Past()
        if hasattr(command, "id"):
            known = self.outcomes.get(outcome_key(command.by, command.id))
            past = Past(known, self.resolutions.get(getattr(command, "action", "")))
        context = Context(now=self.now, ids=self.ids, check_answer=check_boolean, rules=self.rules, past=past)
        decision = decide(self.thread, command, context)
        if isinstance(decision, Accepted):
            self.values |= values(decision.facts)
            for gone in drops(self.thread, decision.facts):
                self.values.pop(gone, None)
            self.thread = load("t", dump(evolve_all(self.thread, decision.facts)))
            self.facts.extend(decision.facts)
            self.events.extend(project(decision.facts))
            for fact in decision.facts:
                if isinstance(fact, f.CommandAccepted):
                    assert fact.outcome.key not in self.outcomes
                    self.outcomes[fact.outcome.key] = fact.outcome
                elif isinstance(fact, f.ActionResolved):
                    self.resolutions[fact.action] = fact.resolution
        self.last = decision
        return decision

    # --- shorthands

    def command_id(self) -> str:
        self.commands += 1
        return f"c{self.commands}"

    def say(self, by: Actor = ANN, text: str = "hello", id: str | None = None) -> World:
        self.do(
            c.SendMessage(id or self.command_id(), by, [{"type": "text", "text": text, "state": "done"}], len(text))
        )
        return self

    def model_calls(self, *calls: str, fence: int = 1, reason: str = "stop") -> World:
        """The model is asked, and calls these tools (none: it just answers)."""
        self.do(c.StartStep(fence))
        turn = self.thread.turn
        assert turn is not None
        opened = tuple(c.OpenedCall(call, "approve", {}) for call in calls)
        self.do(c.FinishStep(fence, turn.step, reason, None, opened))
        return self

    def suspends(self, call: str, fence: int = 1, **options: Any) -> str:
        """The tool is entered and stops at its wait point; returns the action's id."""
        self.do(c.StartExecution(fence, call))
        self.do(c.Suspend(fence, call, "approval", {"prompt": "ok?"}, {"type": "boolean"}, **options))
        assert isinstance(self.last, Accepted), self.last
        return self.thread.actions[-1].id

    def waiting(self, *calls: str, **options: Any) -> list[str]:
        """A turn whose calls all wait."""
        calls = calls or ("call1",)
        self.say().model_calls(*calls)
        return [self.suspends(call, **options) for call in calls]

    def submit(self, action: str, data: Any = True, by: Actor = ANN, id: str | None = None) -> Decision:
        return self.do(c.Submit(id or self.command_id(), by, action, data))

    def returns(self, call: str, output: Any = "done", fence: int = 1) -> Decision:
        self.do(c.StartExecution(fence, call))
        return self.do(c.Return(fence, call, output))

    def closes(self, fence: int = 1) -> Decision:
        turn = self.thread.turn
        assert turn is not None
        message: Any = {"id": turn.message, "role": "assistant", "parts": [], "status": "open", "at": "x"}
        return self.do(c.CloseTurn(fence, message))

    def call(self, call: str) -> Any:
        turn = self.thread.turn
        assert turn is not None
        found = turn.call(call)
        assert found is not None
        return found


def refused(decision: Decision | None, code: str) -> Refused:
    assert isinstance(decision, Refused), decision
    assert decision.code == code
    return decision


def accepted(decision: Decision | None) -> Accepted:
    assert isinstance(decision, Accepted), decision
    return decision


def moot(decision: Decision | None) -> Moot:
    assert isinstance(decision, Moot), decision
    return decision


__all__ = [
    "ANN",
    "BOB",
    "CountingIds",
    "World",
    "accepted",
    "check_boolean",
    "moot",
    "refused",
    "replace",
]
