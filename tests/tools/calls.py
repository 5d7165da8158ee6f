"""One tool call with everything the store would keep of it, so that a test can answer it and enter it again."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from waitpoint.tools import (
    ActionRef,
    Execution,
    Failure,
    InitialEntry,
    Misfit,
    Outcome,
    Output,
    ResumeEntry,
    Suspended,
    Tool,
    Toolbox,
    VisitData,
    execute,
    tool,
)

ASKED_AT, ANSWERED_AT = "2026-12-01T08:00:00.000Z", "2026-12-01T09:00:00.000Z"
ANN = {"id": "ann", "kind": "person", "name": "Ann"}


@dataclass
class CallOf:
    """A call of ``tool``. Everything kept goes through JSON, as through the store."""

    tool: Tool
    input: Any = field(default_factory=dict)
    id: str = "call_1"
    history: list[VisitData] = field(default_factory=list)
    steps: dict[str, Any] = field(default_factory=dict)
    last: Outcome | None = None
    attempt: int = 0

    async def enter(self) -> Outcome:
        self.attempt += 1
        declared = [visit for visit in self.history if visit.style == "entry"]
        entry: InitialEntry | ResumeEntry = InitialEntry()
        if declared:
            last = declared[-1]
            ref = ActionRef(last.action, f"{self.tool.name}.{last.name}", last.input, ASKED_AT, ANSWERED_AT, last.by)
            entry = ResumeEntry(last.name, json.loads(json.dumps(last.answer)), ref)
        execution = Execution(
            "t1",
            "msg_1",
            self.id,
            json.loads(json.dumps(self.input)),
            entry,
            tuple(self.history),
            self.attempt,
            steps=json.loads(json.dumps(self.steps)),
            record=self.record,
        )
        self.last = await execute(self.tool, execution)
        return self.last

    async def record(self, name: str, value: Any) -> None:
        assert name not in self.steps, "a step was kept twice"
        self.steps[name] = json.loads(json.dumps(value))

    def errors(self, data: Any) -> list[Any]:
        """What the server would say to this answer."""
        assert isinstance(self.last, Suspended), self.last
        name = f"{self.tool.name}.{self.last.wait_point}"
        return Toolbox([self.tool]).check_answer(name, self.last.schema, data)

    async def answer(self, data: Any) -> Outcome:
        """Accept an answer as the server does, and enter again."""
        if errors := self.errors(data):
            raise Misfit(errors)
        assert isinstance(self.last, Suspended)
        self.history.append(
            VisitData(
                self.last.wait_point,
                ASKED_AT,
                json.loads(json.dumps(self.last.input)),
                "submitted",
                ANSWERED_AT,
                json.loads(json.dumps(data)),
                action=f"a_{len(self.history) + 1}",
                style=self.last.style,
                by=ANN,
            )
        )
        self.attempt = 0
        return await self.enter()

    async def asks(self) -> Suspended:
        """Enter; it must suspend."""
        return suspended(await self.enter())


def probe(body: Any, **options: Any) -> CallOf:
    """A call of a tool made of ``body``."""
    return CallOf(tool(name="probe", **options)(body))


def suspended(outcome: Outcome) -> Suspended:
    assert isinstance(outcome, Suspended), outcome
    return outcome


def output(outcome: Outcome) -> Any:
    assert isinstance(outcome, Output), outcome
    return outcome.value


def failure(outcome: Outcome) -> str:
    assert isinstance(outcome, Failure), outcome
    return outcome.error_text
