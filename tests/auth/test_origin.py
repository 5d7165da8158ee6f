"""Which pages may open a socket here."""

from __future__ import annotations

import pytest

from waitpoint.auth import OriginPolicy, is_loopback
from waitpoint.errors import ConfigurationError


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://localhost:8000", "localhost:8000"),
        ("https://app.example.com", "app.example.com"),
        ("https://app.example.com", "app.example.com:443"),  # a proxy that adds the default port
        ("http://app.example.com", "APP.example.com:80"),
        ("http://[::1]:8000", "[::1]:8000"),
        (None, "app.example.com"),  # not a browser
    ],
)
def test_the_pages_own_host_is_allowed(origin: str | None, host: str) -> None:
    assert OriginPolicy().allows(origin, host)


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("https://evil.example", "app.example.com"),
        ("http://localhost:3000", "localhost:8000"),  # another port is another page
        ("https://app.example.com.evil.example", "app.example.com"),
        ("https://app.example.com@evil.example", "evil.example"),
        ("null", "app.example.com"),
        ("", "app.example.com"),
        ("file://", "app.example.com"),
        ("https://app.example.com:notaport", "app.example.com"),
        ("https://app.example.com", None),
        ("https://[::1", "[::1"),
    ],
)
def test_a_foreign_origin_is_refused(origin: str, host: str | None) -> None:
    assert not OriginPolicy().allows(origin, host)


def test_a_listed_origin_is_allowed_and_no_other() -> None:
    policy = OriginPolicy(["https://app.example.com/", "http://localhost:3000"])
    assert policy.allows("https://app.example.com", "api.example.com")
    assert policy.allows("http://localhost:3000", "localhost:8000")
    assert not policy.allows("http://app.example.com", "api.example.com")  # another scheme


@pytest.mark.parametrize("entry", ["app.example.com", "*", "https://", "https://a.example/path", "ws://a.example"])
def test_an_entry_that_is_no_origin_is_a_configuration_error(entry: str) -> None:
    with pytest.raises(ConfigurationError, match="is not an origin"):
        OriginPolicy([entry])


def test_a_rebound_name_is_refused_where_nobody_has_to_say_who_they_are() -> None:
    policy = OriginPolicy(loopback_only=True)
    assert not policy.allows("http://rebound.example:8000", "rebound.example:8000")
    assert policy.allows("http://127.0.0.1:8000", "127.0.0.1:8000")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("LOCALHOST.", True),
        ("demo.localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("192.168.1.2", False),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
    ],
)
def test_loopback_is_this_machine_only(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
