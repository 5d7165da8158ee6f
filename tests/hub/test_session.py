"""The conversation on one connection, without a socket: frames and ticks in, effects out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waitpoint.auth import Identity
from waitpoint.hub.effects import (
    Authenticate,
    CloseSocket,
    Effect,
    Handle,
    Join,
    Leave,
    LoadHistory,
    Reauthenticate,
    Send,
)
from waitpoint.hub.limits import Limits, TokenBucket
from waitpoint.hub.session import Session
from waitpoint_protocol import frames as f
from waitpoint_protocol.codec import JSON, BadFrame
from waitpoint_protocol.codes import Close

ANN = Identity("ann", "Ann")
CURSOR = f.Cursor(log="L", seq=3, tag="x")
LIMITS = Limits(subscriptions=2, in_flight=2, histories=1, rate=10, burst=5, patience=10)


def new(limits: Limits | None = None) -> Session:
    return Session("c1", limits or Limits(), now=0.0)


def greeted(limits: Limits | None = None, now: float = 0.0) -> Session:
    session = new(limits)
    hello = f.Hello()
    session.receive(hello, now)
    session.authenticated(ANN, hello, now)
    return session


def submit(id: str = "s1", thread: str = "t1") -> f.Submit:
    return f.Submit(id=id, thread=thread, action="a1", data=True)


def only_reject(effects: list[Effect]) -> f.Reject:
    (effect,) = effects
    assert isinstance(effect, Send)
    assert isinstance(effect.frame, f.Reject)
    return effect.frame


def close_code(effects: list[Effect]) -> Close:
    effect = effects[-1]
    assert isinstance(effect, CloseSocket)
    return effect.code


# --- hello


def test_hello_is_checked_before_anything_is_said() -> None:
    hello = f.Hello(token="t")
    assert new().receive(hello, 0) == [Authenticate(hello)]


def test_a_good_hello_is_welcomed_with_the_limits_that_hold() -> None:
    session = new(Limits(frame_bytes=1000, subscriptions=7, heartbeat=20, drain_window=3))
    hello = f.Hello()
    session.receive(hello, 0)
    (effect,) = session.authenticated(ANN, hello, 0)
    assert isinstance(effect, Send)
    assert isinstance(effect.frame, f.Welcome)
    assert effect.frame.model_dump() == {
        "type": "welcome",
        "connection": "c1",
        "identity": {"id": "ann", "name": "Ann"},
        "limits": {"frameBytes": 1000, "subscriptions": 7, "depth": 64},
        "heartbeat": 20_000,
        "drainWindow": 3_000,
    }


def test_threads_named_in_hello_are_joined_after_the_welcome() -> None:
    session = new()
    hello = f.Hello(subscribe=[f.Subscription(thread="t1", from_=CURSOR), f.Subscription(thread="t2")])
    session.receive(hello, 0)
    welcome, *joins = session.authenticated(ANN, hello, 0)
    assert isinstance(welcome, Send)
    assert joins == [Join("t1", CURSOR, None), Join("t2", None, None)]


def test_frames_that_come_while_hello_is_checked_are_kept_in_order() -> None:
    session = new()
    hello = f.Hello()
    session.receive(hello, 0)
    assert session.receive(submit("s1"), 0) == []
    assert session.receive(submit("s2"), 0) == []
    assert session.authenticated(ANN, hello, 0)[1:] == [Handle(submit("s1")), Handle(submit("s2"))]


def test_more_frames_than_can_be_kept_before_the_welcome_are_refused() -> None:
    session = new(LIMITS)
    session.receive(f.Hello(), 0)
    session.receive(submit("s1"), 0)
    session.receive(submit("s2"), 0)
    reject = only_reject(session.receive(submit("s3"), 0))
    assert (reject.code, reject.id) == ("busy", "s3")


def test_a_refused_hello_closes_for_good_and_executes_nothing() -> None:
    session = new()
    hello = f.Hello()
    session.receive(hello, 0)
    session.receive(submit(), 0)
    effects = session.unauthenticated()
    assert len(effects) == 1
    assert close_code(effects) is Close.UNAUTHENTICATED
    assert session.authenticated(ANN, hello, 0) == []


def test_a_hello_that_could_not_be_checked_may_come_back() -> None:
    session = new()
    session.receive(f.Hello(), 0)
    code = close_code(session.unauthenticated(for_now=True))
    assert code is Close.INTERNAL_ERROR
    assert code.reconnect


@pytest.mark.parametrize("frame", [submit(), f.Pong(), f.Subscribe(thread="t1"), f.Auth(token="t")])
def test_a_frame_before_hello_closes(frame: f.ClientFrame) -> None:
    assert close_code(new().receive(frame, 0)) is Close.HELLO_EXPECTED


def test_a_hello_that_is_not_one_is_refused_with_where_and_closed() -> None:
    (bad,) = JSON.decode('{"type":"hello","tokn":"x"}', max_bytes=1000)
    reject, close = new().receive(bad, 0)
    assert isinstance(reject, Send)
    assert isinstance(reject.frame, f.Reject)
    assert reject.frame.errors
    assert reject.frame.errors[0].path == ["tokn"]
    assert isinstance(close, CloseSocket)
    assert close.code is Close.HELLO_EXPECTED


def test_a_second_hello_is_refused_and_nothing_else_happens() -> None:
    session = greeted()
    assert only_reject(session.receive(f.Hello(), 0)).code == "bad-frame"
    assert session.receive(submit(), 0) == [Handle(submit())]


def test_no_hello_in_time_closes() -> None:
    session = new(Limits(hello_timeout=10))
    assert session.tick(9.9) == []
    assert close_code(session.tick(10)) is Close.HELLO_TIMEOUT


def test_a_hello_in_time_stops_that_clock() -> None:
    session = new(Limits(hello_timeout=10))
    session.receive(f.Hello(), 9.9)
    assert session.tick(11) == []


# --- commands


def test_a_command_is_handled_and_its_reply_is_sent() -> None:
    session = greeted()
    assert session.receive(submit(), 0) == [Handle(submit())]
    assert session.in_flight == 1
    ack = f.Ack(id="s1", thread="t1")
    assert session.replied(ack) == [Send(ack)]
    assert session.in_flight == 0


def test_commands_over_the_number_in_flight_are_busy_until_one_is_answered() -> None:
    session = greeted(LIMITS)
    session.receive(submit("s1"), 0)
    session.receive(submit("s2"), 0)
    reject = only_reject(session.receive(submit("s3"), 0))
    assert (reject.code, reject.id, reject.thread) == ("busy", "s3", "t1")
    assert reject.retry_ms
    session.replied(f.Ack(id="s1"))
    assert session.receive(submit("s3"), 0) == [Handle(submit("s3"))]


def test_pages_of_history_are_asked_for_one_after_the_other() -> None:
    session = greeted(LIMITS)
    page = f.History(id="h1", thread="t1", before=10)
    assert session.receive(page, 0) == [LoadHistory(page)]
    assert only_reject(session.receive(f.History(id="h2", thread="t1", before=10), 0)).code == "busy"
    session.history_loaded(f.Ack(id="h1"))
    again = f.History(id="h2", thread="t1", before=10)
    assert session.receive(again, 0) == [LoadHistory(again)]


def test_a_reply_after_the_close_goes_nowhere() -> None:
    session = greeted()
    session.receive(submit(), 0)
    session.close(Close.DRAINING, "draining")
    assert session.replied(f.Ack(id="s1")) == []
    assert session.receive(submit("s2"), 0) == []
    assert session.tick(1e9) == []


def test_a_leaving_session_answers_what_it_took_and_takes_nothing_more() -> None:
    session = greeted()
    session.receive(submit("s1"), 0)
    session.leaving()
    assert only_reject(session.receive(submit("s2"), 0)).code == "unavailable"
    ack = f.Ack(id="s1")
    assert session.replied(ack) == [Send(ack)]


# --- threads


def test_subscribing_joins_from_the_cursor() -> None:
    session = greeted()
    frame = f.Subscribe(id="x", thread="t1", from_=CURSOR)
    assert session.receive(frame, 0) == [Join("t1", CURSOR, "x")]


def test_subscribing_again_joins_anew_and_counts_once() -> None:
    session = greeted(LIMITS)
    for _ in range(3):
        assert session.receive(f.Subscribe(thread="t1"), 0) == [Join("t1", None, None)]
    assert session.receive(f.Subscribe(thread="t2"), 0) == [Join("t2", None, None)]


def test_too_many_threads_are_refused_by_name_until_one_is_left() -> None:
    session = greeted(Limits(subscriptions=1))
    session.receive(f.Subscribe(thread="t1"), 0)
    reject = only_reject(session.receive(f.Subscribe(id="x", thread="t2"), 0))
    assert (reject.code, reject.id, reject.thread) == ("forbidden", "x", "t2")
    assert session.receive(f.Unsubscribe(thread="t1"), 0) == [Leave("t1")]
    assert session.receive(f.Subscribe(thread="t2"), 0) == [Join("t2", None, None)]


def test_a_refused_join_frees_its_place() -> None:
    session = greeted(Limits(subscriptions=1))
    session.receive(f.Subscribe(id="x", thread="t1"), 0)
    reject = f.Reject(id="x", thread="t1", code="not-found", message="no such thread")
    assert session.join_refused(reject) == [Send(reject)]
    assert session.receive(f.Subscribe(thread="t2"), 0) == [Join("t2", None, None)]


def test_unsubscribing_is_acknowledged_if_it_has_an_id_also_twice() -> None:
    session = greeted()
    session.receive(f.Subscribe(thread="t1"), 0)
    ack = Send(f.Ack(id="u", thread="t1"))
    assert session.receive(f.Unsubscribe(id="u", thread="t1"), 0) == [Leave("t1"), ack]
    assert session.receive(f.Unsubscribe(id="u", thread="t1"), 0) == [ack]


# --- who


def test_a_fresh_token_is_checked_and_changes_what_the_identity_claims() -> None:
    session = greeted()
    auth = f.Auth(token="fresh")
    assert session.receive(auth, 0) == [Reauthenticate(auth)]
    fresh = Identity("ann", "Ann", {"until": 7})
    assert session.reauthenticated(fresh) == []
    assert session.identity is fresh


def test_a_token_of_somebody_else_closes() -> None:
    session = greeted()
    session.receive(f.Auth(token="t"), 0)
    assert close_code(session.reauthenticated(Identity("bob"))) is Close.FORBIDDEN


def test_a_refused_token_closes() -> None:
    session = greeted()
    session.receive(f.Auth(token="t"), 0)
    assert close_code(session.unauthenticated()) is Close.UNAUTHENTICATED


# --- bad input


def test_what_cannot_be_parsed_is_refused_then_closed() -> None:
    (bad,) = JSON.decode("{", max_bytes=100)
    reject, close = greeted().receive(bad, 0)
    assert isinstance(reject, Send)
    assert isinstance(reject.frame, f.Reject)
    assert reject.frame.code == "bad-frame"
    assert isinstance(close, CloseSocket)
    assert close.code is Close.BAD_FRAME
    assert len(close.reason.encode()) <= 123


@pytest.mark.parametrize("text", ['{"type":"submit","id":"s9","thread":"t1"}', '{"type":"dance","id":"s9"}', "[]", "7"])
def test_what_is_no_frame_is_refused_and_the_connection_kept(text: str) -> None:
    (bad,) = JSON.decode(text, max_bytes=100)
    session = greeted()
    assert only_reject(session.receive(bad, 0)).code == "bad-frame"
    assert session.receive(submit(), 0) == [Handle(submit())]


def test_what_is_too_large_is_refused_by_id_and_the_connection_kept() -> None:
    text = '{"type":"submit","id":"s9","thread":"t1","action":"a","data":"' + "é" * 100 + '"}'
    (bad,) = JSON.decode(text, max_bytes=150)
    session = greeted()
    reject = only_reject(session.receive(bad, 0))
    assert (reject.code, reject.id) == ("too-large", "s9")
    assert not session.closed


# --- rate


def test_frames_over_the_rate_are_refused_with_when_to_try_again() -> None:
    session = greeted(Limits(rate=10, burst=2))
    session.receive(f.Unsubscribe(thread="t"), 0)
    session.receive(f.Unsubscribe(thread="t"), 0)
    reject = only_reject(session.receive(submit(), 0))
    assert (reject.code, reject.id, reject.retry_ms) == ("rate-limited", "s1", 100)
    assert session.receive(submit(), 0.1) == [Handle(submit())]


def test_a_flood_is_closed_and_may_come_back() -> None:
    session = greeted(Limits(rate=10, burst=2, patience=20))
    effects: list[Effect] = []
    for _ in range(2 + 20):
        effects = session.receive(f.Pong(), 0)
        assert effects == []
    code = close_code(session.receive(f.Pong(), 0))
    assert code is Close.FLOODING
    assert code.reconnect


def test_somebody_a_little_too_fast_is_never_taken_for_a_flood() -> None:
    session = greeted(Limits(rate=10, burst=10, patience=20))
    for step in range(1000):
        session.receive(f.Unsubscribe(thread="t"), step * 0.09)
    assert not session.closed


def test_a_bucket_never_gains_from_a_clock_that_stands_still_or_goes_back() -> None:
    bucket = TokenBucket(1, 2, 10)
    assert [bucket.take(10), bucket.take(5), bucket.take(5)] == [True, True, False]


# --- heartbeat


def test_pings_come_at_the_heartbeat_times_the_jitter() -> None:
    session = Session("c1", Limits(heartbeat=20), now=0, jitter=1.2)
    hello = f.Hello()
    session.receive(hello, 0)
    session.authenticated(ANN, hello, 0)
    assert session.tick(23.9) == []
    assert session.tick(24) == [Send(f.Ping())]
    assert session.tick(24) == []


def test_silence_past_the_grace_closes() -> None:
    session = greeted(Limits(heartbeat=20, grace=10))
    session.tick(20)
    assert session.tick(29.9) == []
    assert close_code(session.tick(30)) is Close.NO_PONG


@pytest.mark.parametrize("frame", [f.Pong(), submit(), BadFrame("bad-frame", "?")])
def test_any_frame_is_a_sign_of_life(frame: Any) -> None:
    session = greeted(Limits(heartbeat=20, grace=10))
    session.tick(20)
    session.receive(frame, 29)
    assert session.tick(30) == []
    assert session.tick(40) == [Send(f.Ping())]
    assert close_code(session.tick(50)) is Close.NO_PONG


def test_a_frame_before_the_ping_does_not_answer_it() -> None:
    session = greeted(Limits(heartbeat=20, grace=10))
    session.receive(f.Pong(), 19)
    session.tick(20)
    assert close_code(session.tick(30)) is Close.NO_PONG


def test_goodbye_is_said_and_everything_goes_on() -> None:
    session = greeted()
    assert session.goodbye("draining", 2) == [Send(f.Goodbye(reason="draining", reconnect_within=2000))]
    assert session.receive(submit(), 0) == [Handle(submit())]


# --- any order

_FRAMES: dict[str, Callable[[str, str], f.ClientFrame | BadFrame]] = {
    "hello": lambda id, thread: f.Hello(),
    "pong": lambda id, thread: f.Pong(),
    "auth": lambda id, thread: f.Auth(token="t"),
    "subscribe": lambda id, thread: f.Subscribe(thread=thread),
    "unsubscribe": lambda id, thread: f.Unsubscribe(id=id, thread=thread),
    "history": lambda id, thread: f.History(id=id, thread=thread, before=1),
    "submit": lambda id, thread: f.Submit(id=id, thread=thread, action="a", data=None),
    "stop": lambda id, thread: f.Stop(id=id, thread=thread),
    "bad": lambda id, thread: BadFrame("bad-frame", "?", id=id, thread=thread),
    "unparsable": lambda id, thread: BadFrame("bad-frame", "{", fatal=True),
}
_EXPECT_A_REPLY = {"unsubscribe", "history", "submit", "stop", "bad"}

_steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(sorted(_FRAMES)), st.sampled_from(["t1", "t2", "t3"])),
        st.tuples(st.just("wait"), st.floats(0, 12)),
        st.tuples(st.just("answer"), st.integers(0, 5)),
        st.tuples(st.just("identify"), st.integers(0, 9)),
        st.tuples(st.just("close"), st.none()),
    ),
    max_size=60,
)


class _House:
    """Executes effects as a socket would, except that answers come when the test says so."""

    def __init__(self) -> None:
        self.session = new(LIMITS)
        self.hello: f.Hello | None = None
        self.work: list[Handle | LoadHistory | Reauthenticate] = []
        self.replied: list[str] = []
        self.closed = 0

    def execute(self, effects: list[Effect]) -> None:
        for effect in effects:
            assert not self.closed, "nothing comes after the close"
            match effect:
                case Authenticate(hello):
                    assert self.hello is None
                    self.hello = hello
                case Handle() | LoadHistory() | Reauthenticate():
                    self.work.append(effect)
                case Send(f.Ack(id=id) | f.Reject(id=str(id))):
                    self.replied.append(id)
                case CloseSocket():
                    self.closed += 1
                case _:
                    pass
        assert len(self.session.subscribed) <= LIMITS.subscriptions
        assert len(self.work) <= LIMITS.in_flight + LIMITS.histories

    def identify(self, good: bool, now: float) -> None:
        if self.hello is not None:
            hello, self.hello = self.hello, None
            session = self.session
            self.execute(session.authenticated(ANN, hello, now) if good else session.unauthenticated())

    def answer(self, index: int) -> None:
        if self.work:
            match self.work.pop(index % len(self.work)):
                case Handle(command):
                    self.execute(self.session.replied(f.Ack(id=command.id)))
                case LoadHistory(history):
                    self.execute(self.session.history_loaded(f.Ack(id=history.id)))
                case Reauthenticate():
                    self.execute(self.session.reauthenticated(ANN))


@settings(max_examples=400, deadline=None)
@given(_steps)
def test_whatever_comes_each_command_gets_one_reply_while_the_connection_lives(steps: list[tuple[str, Any]]) -> None:
    house = _House()
    now = 0.0
    asked: list[str] = []
    for number, (kind, value) in enumerate(steps):
        if kind in _FRAMES:
            if kind in _EXPECT_A_REPLY and not house.closed:
                asked.append(f"c{number}")
            house.execute(house.session.receive(_FRAMES[kind](f"c{number}", value), now))
        elif kind == "wait":
            now += value
            house.execute(house.session.tick(now))
        elif kind == "answer":
            house.answer(value)
        elif kind == "identify":
            house.identify(value > 0, now)
        else:
            house.execute(house.session.close(Close.GOING_AWAY, "bye"))
    house.identify(True, now)
    while house.work:
        house.answer(0)

    assert house.closed == house.session.closed
    assert len(house.replied) == len(set(house.replied)), "one reply, not two"
    if not house.closed:
        assert sorted(house.replied) == sorted(asked)
