"""A store that would lose data is refused at start-up, with what to change."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from support.servers import RedisServer, start_server
from waitpoint.errors import ConfigurationError, StoreRefused
from waitpoint.store import RedisStore, StoreUnavailable
from waitpoint.store.startup import _check_version, parse_info


async def opened(url: str, **options: int) -> None:
    store = RedisStore(url, **options)  # type: ignore[arg-type]
    try:
        await store.open()
    finally:
        await store.close()


async def test_evicting_store_is_refused(server: RedisServer) -> None:
    server.run("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(StoreRefused, match="set maxmemory-policy to noeviction"):
            await opened(server.url)
    finally:
        server.run("CONFIG", "SET", "maxmemory-policy", "noeviction")
    await opened(server.url)


async def test_other_number_of_partitions_is_refused(server: RedisServer) -> None:
    await opened(server.url, partitions=64)
    with pytest.raises(StoreRefused, match="WAITPOINT_PARTITIONS=64"):
        await opened(server.url, partitions=128)


async def test_newer_format_is_refused(server: RedisServer) -> None:
    await opened(server.url)
    server.run("HSET", "wp:meta", "format", "99")
    try:
        with pytest.raises(StoreRefused, match="format 99"):
            await opened(server.url)
    finally:
        server.run("HSET", "wp:meta", "format", "1")


async def test_missing_persistence_is_said(
    server: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "waitpoint"):
        await opened(server.url)
        assert "append-only" not in caplog.text
        server.run("CONFIG", "SET", "appendonly", "no")
        try:
            await opened(server.url)
        finally:
            server.run("CONFIG", "SET", "appendonly", "yes")
    assert "set appendonly yes" in caplog.text


async def test_wrong_password_is_refused_without_showing_it(server: RedisServer, tmp_path: Path) -> None:
    with start_server(server.kind, tmp_path, options=["--requirepass", "right"]) as own:
        own_url = f"redis://:wrong@127.0.0.1:{own.port}/0"
        with pytest.raises(StoreUnavailable, match=r"(?i)invalid username-password|WRONGPASS") as caught:
            await opened(own_url)
        assert "wrong@" not in str(caught.value)
        await opened(f"redis://:right@127.0.0.1:{own.port}/0")


def test_old_server_is_refused() -> None:
    with pytest.raises(StoreRefused, match=r"Redis 6\.2\.14.*7\.0 or newer"):
        _check_version({"redis_version": "6.2.14"}, "somewhere")
    _check_version({"redis_version": "7.0.0"}, "somewhere")
    _check_version({"redis_version": "10.1.0"}, "somewhere")


def test_info_is_parsed() -> None:
    assert parse_info("# Server\r\nredis_version:7.0.15\r\n\r\nio:a:b\r\n") == {"redis_version": "7.0.15", "io": "a:b"}


def test_url_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not a store's URL"):
        RedisStore("http://user:secret@example.com")
