"""Promises 1-3, 5, 6 and "states only move forward", over random interleavings of people, drivers, crashes and time."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from thread.dsl import ANN, BOB, World
from waitpoint.thread import (
    Accepted,
    Actor,
    CallModel,
    CancelAction,
    ClaimAction,
    CloseTurn,
    ContinueRequest,
    EnterTool,
    Expire,
    ExpireAction,
    FailAction,
    FailCall,
    FinishContinuation,
    FinishStep,
    FinishTurn,
    Lapse,
    LapseClaim,
    OpenedCall,
    OpenRequest,
    RecordStep,
    Refused,
    ReleaseAction,
    RenewClaim,
    Return,
    Settle,
    StartContinuation,
    StartExecution,
    StartStep,
    Stop,
    Suspend,
    appointment,
    next_steps,
)
from waitpoint.thread import facts as f
from waitpoint.thread.moves import MOVES
from waitpoint.thread.project import answer_id, live_view, step_id
from waitpoint_protocol import events as e
from waitpoint_protocol.state import ThreadState, empty
from waitpoint_protocol.view import apply, open_message

APP = Actor("application", "system")

ORDER = ["input-streaming", "input-available", "running", "waiting", "output-available", "output-error"]


class ThreadMachine(RuleBasedStateMachine):
    """People and drivers act at random; what is checked holds after every single step."""

    @initialize()
    def start(self) -> None:
        self.world = World()
        self.fence = 1
        self.view: ThreadState = empty("t")
        self.seen = 0
        self.states: dict[str, str] = {}
        self.calls = 0
        self.resolved: dict[str, tuple[str, Any]] = {}
        self.entered_after: dict[tuple[str, str], int] = {}
        self.model_steps: list[tuple[str, int]] = []
        self.replies: dict[str, Any] = {}
        self.steps: dict[tuple[str, str], Any] = {}
        self.requests: dict[str, bool] = {}
        self.continued: set[str] = set()

    # --- people

    @rule(by=st.sampled_from([ANN, BOB]), rarely=st.integers(0, 5))
    def say(self, by: Any, rarely: int) -> None:
        if self.world.thread.turn is None or rarely == 0:
            self.world.say(by)
            self.look()

    @precondition(lambda self: self.known_actions())
    @rule(data=st.data(), answer=st.sampled_from([True, False, "yes", None, 1]), by=st.sampled_from([ANN, BOB]))
    def submit(self, data: st.DataObject, answer: Any, by: Any) -> None:
        action = data.draw(st.sampled_from([*self.known_actions(), "made-up"]))
        before = self.world.thread
        decision = self.world.submit(action, answer, by=by)
        pending = before.action(action)
        if isinstance(decision, Accepted) and not decision.dup:
            assert pending is not None
            assert isinstance(answer, bool)
            assert action not in self.resolved, "two answers were accepted"
        else:
            assert self.world.thread == before, "a refusal wrote something"
            if pending is None:
                expected = "unknown-action" if action == "made-up" else ("already-resolved", "expired")
                assert isinstance(decision, Refused)
                assert decision.code in expected
        self.look()

    @precondition(lambda self: self.known_actions())
    @rule(data=st.data(), way=st.sampled_from(["cancel", "fail", "expire"]))
    def end(self, data: st.DataObject, way: str) -> None:
        action = data.draw(st.sampled_from([*self.known_actions(), "made-up"]))
        if way == "cancel":
            self.world.do(CancelAction(self.world.command_id(), BOB, action))
        elif way == "fail":
            self.world.do(FailAction(self.world.command_id(), BOB, action, "cannot"))
        else:
            self.world.do(Expire(action))
        self.look()

    @precondition(lambda self: self.known_actions())
    @rule(
        data=st.data(),
        how=st.sampled_from([ClaimAction, ClaimAction, ReleaseAction, RenewClaim]),
        tab=st.sampled_from(["tab1", "tab2"]),
    )
    def claim(self, data: st.DataObject, how: Any, tab: str) -> None:
        action = data.draw(st.sampled_from(self.known_actions()))
        pending = self.world.thread.action(action)
        held = pending.held(self.world.now) if pending else None
        decision = self.world.do(how(self.world.command_id(), ANN, action, tab))
        if isinstance(decision, Accepted):
            assert held is None or held.connection == tab, "a living claim was taken from its holder"
        self.look()

    @rule(data=st.data())
    @precondition(lambda self: bool(self.world.outcomes))
    def repeat(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.world.outcomes)))
        before = self.world.thread
        by = {"ann": ANN, "bob": BOB, "application": APP}[key.split(":")[1]]
        decision = self.world.do(Stop(key.split(":")[2], by))
        assert isinstance(decision, Refused | Accepted)
        if isinstance(decision, Accepted):
            assert decision.dup
        assert self.world.thread == before, "a repeat wrote something"

    @precondition(lambda self: self.world.thread.turn is not None)
    @rule(rarely=st.integers(0, 7))
    def stop(self, rarely: int) -> None:
        if rarely:
            return
        self.world.do(Stop(self.world.command_id(), ANN))
        self.look()

    @rule(rarely=st.integers(0, 9), unanswered=st.booleans(), expires_in=st.sampled_from([None, 2000]))
    def request(self, rarely: int, unanswered: bool, expires_in: int | None) -> None:
        """The application asks something outside any turn."""
        if rarely:
            return
        command = OpenRequest(
            self.world.command_id(), APP, "paid", "approval", {}, {"type": "boolean"}, expires_in, unanswered=unanswered
        )
        decision = self.world.do(command)
        if isinstance(decision, Accepted):
            self.requests[decision.reply["action"]] = unanswered
        self.look()

    @precondition(lambda self: any(request.fence == self.fence for request in self.world.thread.requests))
    @rule(stale=st.booleans())
    def continuation_ends(self, stale: bool) -> None:
        for request in self.world.thread.requests:
            if request.fence == self.fence:
                fence = self.fence - 1 if stale else self.fence
                decision = self.world.do(FinishContinuation(fence, request.action))
                assert isinstance(decision, Accepted) != stale
        self.look()

    @rule(ms=st.integers(1, 3000))
    def time_passes(self, ms: int) -> None:
        self.world.now += ms

    # --- drivers

    @precondition(lambda self: self.world.thread.run is not None)
    @rule(rarely=st.integers(0, 2))
    def crash(self, rarely: int) -> None:
        """The driver dies; another one claims with a higher fence."""
        if rarely == 0:
            self.fence += 1

    @precondition(lambda self: self.world.thread.run is not None)
    @rule(rarely=st.integers(0, 2))
    def hand_over(self, rarely: int) -> None:
        if rarely:
            return
        self.world.do(Settle(self.fence))
        self.fence += 1
        self.look()

    @precondition(lambda self: self.todo())
    @rule(data=st.data())
    def drive(self, data: st.DataObject) -> None:
        match data.draw(st.sampled_from(self.todo())):
            case CallModel():
                self.world.do(StartStep(self.fence))
            case EnterTool(call):
                self.world.do(StartExecution(self.fence, call, on_crash=data.draw(st.sampled_from(["retry", "fail"]))))
            case ExpireAction(action):
                self.world.do(Expire(action))
            case LapseClaim(action):
                self.world.do(Lapse(action))
            case ContinueRequest(action):
                how, _ = self.resolved[action]
                assert how == "submitted" or self.requests[action], "nobody answered"
                assert action not in self.continued
                self.world.do(StartContinuation(self.fence, action, max_attempts=100))
            case FinishTurn():
                message = open_message(self.view)
                assert message is not None
                self.world.do(CloseTurn(self.fence, message))
        self.look()

    @precondition(lambda self: self.world.thread.turn is not None and self.world.thread.turn.phase == "model")
    @rule(calls=st.sampled_from([0, 1, 2, 3, 3]), bad=st.sampled_from([False, False, False, True]))
    def model_answers(self, calls: int, bad: bool) -> None:
        turn = self.world.thread.turn
        assert turn is not None
        self.world.do(StartStep(self.fence))
        opened = []
        for n in range(calls):
            self.calls += 1
            opened.append(OpenedCall(f"call{self.calls}", "approve", {}, "bad input" if bad and n == 0 else None))
        decision = self.world.do(FinishStep(self.fence, turn.step, "stop", None, tuple(opened)))
        if isinstance(decision, Accepted):
            self.model_steps.append((turn.message, turn.step))
        self.look()

    @precondition(lambda self: self.running())
    @rule(
        data=st.data(),
        outcome=st.sampled_from(["return", "fail", "suspend", "suspend", "suspend", "step", "step"]),
        stale=st.sampled_from([False, False, True]),
        on_message=st.sampled_from(["cancel", "keep", "refuse"]),
        expires_in=st.sampled_from([None, None, 2000]),
    )
    def tool_reports(
        self, data: st.DataObject, outcome: str, stale: bool, on_message: Any, expires_in: int | None
    ) -> None:
        call = data.draw(st.sampled_from(self.running()))
        fence = self.fence - 1 if stale else self.fence
        turn, before, known = self.world.thread.turn, self.world.thread, len(self.world.facts)
        assert turn is not None
        entered = turn.call(call)
        assert entered is not None
        match outcome:
            case "return":
                decision = self.world.do(Return(fence, call, "done"))
            case "fail":
                decision = self.world.do(FailCall(fence, call, "boom"))
            case "step":
                # Results are numbered, so that a second one for the same name would show.
                name = data.draw(st.sampled_from(["charge#0", "charge#1"]))
                decision = self.world.do(RecordStep(fence, call, name, known))
                assert not (isinstance(decision, Accepted) and name in entered.steps)
            case _:
                suspend = Suspend(
                    fence, call, "approval", {}, {"type": "boolean"}, expires_in=expires_in, on_message=on_message
                )
                decision = self.world.do(suspend)
        if entered.fence != fence:
            assert not isinstance(decision, Accepted), "somebody who does not run the tool reported for it"
            assert self.world.thread == before
            assert len(self.world.facts) == known
        self.look()

    def todo(self) -> list[Any]:
        return next_steps(self.world.thread, now=self.world.now, fence=self.fence)

    def running(self) -> list[str]:
        turn = self.world.thread.turn
        return [call.id for call in turn.calls if call.state == "running"] if turn else []

    # --- bookkeeping and checks

    def known_actions(self) -> list[str]:
        return [action.id for action in self.world.thread.actions] + list(self.resolved)[-5:]

    def look(self) -> None:
        """Fold what clients see, and check each fact against what came before it."""
        new, self.seen = self.world.facts[self.seen :], len(self.world.facts)
        for fact in new:
            match fact:
                case f.ActionResolved(action=action):
                    assert action not in self.resolved, "resolved twice"
                    self.resolved[action] = (fact.resolution.how, fact.data)
                case f.ContinuationEnded(action):
                    assert action not in self.continued, "a request was continued to its end twice"
                    self.continued.add(action)
                case f.CallOpened(call):
                    assert call not in self.states, "a call was opened twice"
                    self.states[call] = "input-available"
                case f.ExecutionStarted(call):
                    self.move(call, "running")
                case f.StepRecorded(call, name, value):
                    assert (call, name) not in self.steps, "a step got a second result"
                    self.steps[call, name] = value
                case f.ActionSuspended(action):
                    self.move(action.call, "waiting")
                case f.CallReturned(call):
                    self.move(call, "output-available")
                case f.CallFailed(call):
                    self.move(call, "output-error")
                case _:
                    pass
        events = self.world.events
        for event in events:
            if isinstance(event, e.MessageStart):
                assert open_message(self.view) is None, "a message was opened while another one was open"
            apply(self.view, event)
        events.clear()

    def move(self, call: str, state: str) -> None:
        assert state in MOVES[self.states[call]], f"{self.states[call]} -> {state}"  # type: ignore[index]
        self.states[call] = state

    @invariant()
    def the_view_agrees_with_the_control_state(self) -> None:
        thread = self.world.thread
        assert [action["id"] for action in self.view["pending"]] == [action.id for action in thread.actions]
        shown_claims = [action["claim"]["connection"] if "claim" in action else None for action in self.view["pending"]]
        assert shown_claims == [action.claim.connection if action.claim else None for action in thread.actions]
        message = open_message(self.view)
        assert (message is None) == (thread.turn is None)
        if message is None:
            assert live_view(thread)["pending"] == self.view["pending"], "a checkpoint would show something else"
        assert [m["id"] for m in self.view["queued"]] == [queued.message["id"] for queued in thread.queue]
        if message is not None and thread.turn is not None:
            assert message["id"] == thread.turn.message
            shown = {part["toolCallId"]: part["state"] for part in message["parts"] if part["type"] == "tool"}
            for call in thread.turn.calls:
                assert shown[call.id] == call.state

    @invariant()
    def the_thread_is_not_wedged(self) -> None:
        """Whoever takes over finds something to do, or people have something to answer, or the thread is idle."""
        thread = self.world.thread
        takeover = next_steps(thread, now=self.world.now, fence=self.fence + 1)
        for request in thread.requests:
            assert (thread.action(request.action) is None) == (ContinueRequest(request.action) in takeover)
        if thread.turn is None:
            assert all(action.id in self.requests for action in thread.actions)
            assert thread.queue == ()
        else:
            assert takeover or thread.actions
        assert (appointment(thread) == 0) == bool(
            [step for step in takeover if not isinstance(step, (ExpireAction, LapseClaim))]
        )

    @invariant()
    def every_finished_call_has_exactly_one_result_before_the_model_is_asked_again(self) -> None:
        turn = self.world.thread.turn
        if turn is None:
            return
        message = open_message(self.view)
        assert message is not None
        if turn.phase == "model":
            for part in message["parts"]:
                if part["type"] == "tool":
                    assert part["state"] in ("output-available", "output-error")
                    assert ("output" in part) != ("errorText" in part)

    @invariant()
    def the_result_of_a_step_stays_until_the_turn_has_no_use_for_it(self) -> None:
        turn = self.world.thread.turn
        if turn is None:
            answered = [r for r in self.world.thread.requests if r.resolution and r.resolution.how == "submitted"]
            assert self.world.values.keys() == {answer_id(request.action) for request in answered}
            return
        for call in turn.calls:
            recorded = {name: value for (of, name), value in self.steps.items() if of == call.id}
            assert set(call.steps) == recorded.keys()
            for name, value in recorded.items():
                assert self.world.values[step_id(call.id, name)] == value

    @invariant()
    def finished_steps_are_not_asked_again(self) -> None:
        assert len(self.model_steps) == len(set(self.model_steps))

    def teardown(self) -> None:
        """From anywhere, stopping and driving on leads to an idle thread."""
        if not hasattr(self, "world"):
            return
        self.fence += 1
        for _ in range(50):
            self.world.do(Stop(self.world.command_id(), ANN))
            self.look()
            if self.world.thread.turn is None:
                return
            message = open_message(self.view)
            assert message is not None
            self.world.do(CloseTurn(self.fence, message))
            self.look()
        raise AssertionError("the thread cannot be brought to rest")


ThreadMachine.TestCase.settings = settings(max_examples=400, stateful_step_count=60, deadline=None)
TestThread = ThreadMachine.TestCase
