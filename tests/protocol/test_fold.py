"""The fold: every vector, any order of events, and its twin in the JavaScript client."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter

from protocol.data import CLIENT_JS, names, vectors
from protocol.strategies import OPENED, event_lists
from waitpoint_protocol.events import TYPES, Event, decode_events, dump_events, encode_events
from waitpoint_protocol.schema import schemas
from waitpoint_protocol.state import ThreadState, empty
from waitpoint_protocol.values import MAX_SAFE_INTEGER, same
from waitpoint_protocol.view import fold, waiting_for

VECTORS = vectors("fold")
STATE = TypeAdapter(ThreadState)
STATE_SCHEMA = Draft202012Validator(schemas()["state"])
varied = settings(deadline=None, max_examples=100)


class Twin:
    """One node process that folds with the client's ``reduce.js``."""

    def __init__(self) -> None:
        node = shutil.which("node")
        assert node is not None, "node is needed to hold the JavaScript fold to this one"
        script = str(CLIENT_JS.parent / "tests" / "protocol" / "twin.mjs")
        self.process = subprocess.Popen(
            [node, script, (CLIENT_JS / "reduce.js").as_uri()],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
        )  # fmt: skip

    def fold(self, start: ThreadState | None, batches: list[list[Any]]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        question = {"batches": batches} if start is None else {"start": start, "batches": batches}
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        # JavaScript spells doubles between 2^53 and 1e21 without an exponent; they are doubles all the same.
        said: dict[str, Any] = json.loads(self.process.stdout.readline(), parse_int=_number)
        return said

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


def _number(digits: str) -> int | float:
    return int(digits) if abs(int(digits)) <= MAX_SAFE_INTEGER else float(digits)


@pytest.fixture(scope="module")
def twin() -> Iterator[Twin]:
    running = Twin()
    yield running
    running.close()


def folded(start: ThreadState | None, events: list[Event]) -> ThreadState:
    return fold(empty("t1") if start is None else copy.deepcopy(start), events)


@pytest.mark.parametrize("vector", VECTORS, ids=names(VECTORS))
def test_events_of_a_vector_fold_to_its_state(vector: dict[str, Any]) -> None:
    state = folded(vector.get("start"), decode_events(json.dumps(vector["events"])))
    assert same(state, vector["state"])


@pytest.mark.parametrize("vector", VECTORS, ids=names(VECTORS))
def test_events_of_a_vector_fold_to_its_state_in_the_javascript_client(vector: dict[str, Any], twin: Twin) -> None:
    said = twin.fold(vector.get("start"), [vector["events"]])
    assert same(said.get("state"), vector["state"]), said


def test_vectors_show_every_event() -> None:
    assert {event["type"] for vector in VECTORS for event in vector["events"]} >= TYPES


def test_states_of_vectors_are_valid_by_shape_and_schema() -> None:
    for vector in VECTORS:
        STATE.validate_python(vector["state"], strict=True)
        STATE_SCHEMA.validate(vector["state"])


@varied
@given(event_lists)
def test_any_events_in_any_order_leave_a_well_formed_state_and_the_events_as_they_were(events: list[Event]) -> None:
    before = encode_events(events)
    state = folded(None, events)
    STATE.validate_python(state, strict=True)
    STATE_SCHEMA.validate(json.loads(json.dumps(state)))
    assert encode_events(events) == before
    assert waiting_for(state) >= 0
    assert sum(message["status"] == "open" for message in state["messages"]) <= 1


@varied
@given(event_lists, st.integers(0, 30))
def test_a_fold_may_stop_anywhere_and_go_on_from_the_stored_state(events: list[Event], cut: int) -> None:
    middle = json.loads(json.dumps(folded(None, events[:cut])))
    assert same(folded(middle, events[cut:]), folded(None, events))


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(event_lists, st.integers(0, 30))
def test_both_folds_agree_on_any_events_in_any_order(twin: Twin, events: list[Event], cut: int) -> None:
    state = folded(None, events)
    plain = dump_events(events)
    said = twin.fold(None, [plain[:cut], plain[cut:]])
    assert same(said.get("state"), json.loads(json.dumps(state))), said
    assert said["waiting"] == waiting_for(state)
    # From a state in the middle, as after a snapshot.
    middle = folded(None, events[:cut])
    said = twin.fold(middle, [[event] for event in plain[cut:]])
    assert same(said.get("state"), json.loads(json.dumps(state))), said


def test_a_claim_does_not_write_into_the_event_that_announced_the_action() -> None:
    vector = next(vector for vector in VECTORS if vector["name"] == "a claim moves to another connection")
    events = decode_events(json.dumps(vector["events"]))
    before = encode_events(events)
    assert same(folded(None, events), vector["state"])
    assert encode_events(events) == before


def test_folding_a_delta_costs_the_same_in_a_long_text_as_in_a_short_one() -> None:
    deltas: list[Event] = decode_events(json.dumps([{"type": "text-delta", "id": "x1", "delta": "word "}] * 2000))
    opening = decode_events(json.dumps([OPENED, {"type": "text-start", "id": "x1", "step": 0}]))

    def cost(length: int) -> float:
        state = folded(None, opening)
        state["messages"][0]["parts"][0]["text"] = "x" * length  # type: ignore[typeddict-unknown-key]
        times = []
        for _ in range(5):
            started = time.process_time()
            fold(state, deltas)
            times.append(time.process_time() - started)
        return min(times)

    # Copying the long text for each delta would make it some hundred times slower.
    assert cost(4_000_000) < 20 * cost(10)
