"""The application's hooks are asked, and anything but a clear yes is no."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from waitpoint.auth import ANONYMOUS, AuthRefused, AuthUnavailable, Connection, Guard, Identity, check_bind
from waitpoint.errors import ConfigurationError
from waitpoint_protocol.frames import Hello

CONNECTION = Connection(headers={"host": "app.example.com"}, query={}, client="10.0.0.1", path="/ws")
ANN = Identity("ann")


def _ann(connection: Connection, hello: Hello) -> Identity | None:
    return ANN if hello.token == "secret" else None


async def test_everybody_is_anonymous_without_a_hook() -> None:
    guard = Guard()
    assert await guard.identify(CONNECTION, Hello()) is ANONYMOUS
    assert await guard.may(ANONYMOUS, "send", "t1")


async def test_the_hook_decides_who_it_is() -> None:
    guard = Guard(_ann)
    assert await guard.identify(CONNECTION, Hello(token="secret")) is ANN
    assert await guard.identify(CONNECTION, Hello(token="wrong")) is None


async def test_hooks_may_be_async() -> None:
    async def authenticate(connection: Connection, hello: Hello) -> Identity | None:
        await asyncio.sleep(0)
        return ANN

    async def may(identity: Identity, verb: str, thread: str, action: Any) -> bool:
        await asyncio.sleep(0)
        return thread == "mine"

    guard = Guard(authenticate, may)
    assert await guard.identify(CONNECTION, Hello()) is ANN
    assert await guard.may(ANN, "send", "mine")
    assert not await guard.may(ANN, "send", "theirs")


async def test_a_hook_that_refuses_by_raising_refuses() -> None:
    def authenticate(connection: Connection, hello: Hello) -> Identity | None:
        raise AuthRefused("token expired")

    assert await Guard(authenticate).identify(CONNECTION, Hello()) is None


async def test_a_broken_authenticate_hook_lets_nobody_in_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def authenticate(connection: Connection, hello: Hello) -> Identity | None:
        raise KeyError("jwks")

    with pytest.raises(AuthUnavailable):
        await Guard(authenticate).identify(CONNECTION, Hello())
    assert "authenticate hook broke" in caplog.text


async def test_an_authenticate_hook_that_returns_something_else_lets_nobody_in() -> None:
    def authenticate(connection: Connection, hello: Hello) -> Any:
        return "ann"

    with pytest.raises(AuthUnavailable):
        await Guard(authenticate).identify(CONNECTION, Hello())


async def test_a_hook_that_hangs_lets_nobody_in() -> None:
    async def authenticate(connection: Connection, hello: Hello) -> Identity | None:
        await asyncio.Event().wait()
        return ANN

    async def may(identity: Identity, verb: str, thread: str, action: Any) -> bool:
        await asyncio.Event().wait()
        return True

    guard = Guard(authenticate, may, timeout=0.02)
    with pytest.raises(AuthUnavailable):
        await guard.identify(CONNECTION, Hello())
    assert not await guard.may(ANN, "read", "t1")


async def test_a_broken_may_hook_is_no_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def may(identity: Identity, verb: str, thread: str, action: Any) -> bool:
        raise RuntimeError("database")

    assert not await Guard(_ann, may).may(ANN, "send", "t1")
    assert "may hook broke" in caplog.text


@pytest.mark.parametrize("answer", [None, 1, "yes", ["row"]])
async def test_only_true_is_yes(answer: Any) -> None:
    guard = Guard(_ann, lambda identity, verb, thread, action: answer)
    assert not await guard.may(ANN, "send", "t1")


async def test_the_page_must_be_ours() -> None:
    foreign = Connection({"host": "app.example.com"}, {}, None, "/ws", origin="https://evil.example")
    own = Connection({"host": "app.example.com"}, {}, None, "/ws", origin="https://app.example.com")
    assert not Guard(_ann).origin_allowed(foreign)
    assert Guard(_ann).origin_allowed(own)
    assert Guard(_ann, origins=["https://evil.example"]).origin_allowed(foreign)
    assert not Guard().origin_allowed(own)  # nobody says who they are: this machine only


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.2", "example.com"])
def test_listening_to_others_without_authenticate_is_refused(host: str) -> None:
    with pytest.raises(ConfigurationError, match="authenticate"):
        check_bind(host, None)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_listening_on_loopback_needs_no_hook(host: str) -> None:
    check_bind(host, None)


def test_listening_to_others_with_authenticate_is_allowed() -> None:
    check_bind("0.0.0.0", _ann)


def test_an_identity_needs_an_id() -> None:
    with pytest.raises(ValueError, match="non-empty"):
        Identity("")
