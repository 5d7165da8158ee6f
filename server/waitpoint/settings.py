"""Settings of one server process. The only module that reads the environment.

Every field can be set by ``WAITPOINT_<FIELD IN CAPITALS>``; what is given in code wins over the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches

from .errors import ConfigurationError

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How one process serves a chat. Times are in milliseconds unless the name says otherwise."""

    redis_url: str = ""
    """Outside Redis or Valkey; empty: the embedded Valkey."""

    store_wait: int = 5_000
    """How long a store that does not answer yet is waited for at start-up."""

    data_dir: str = ".waitpoint"
    """Where the embedded Valkey keeps its data."""

    partitions: int = 64
    """Number of key partitions; fixed at first use of a store."""

    lease: int = 10_000
    """How long a driver that fell silent keeps its thread."""

    look: int = 1_000
    """How often threads that are due are looked for."""

    max_runs: int = 1_000
    """Threads driven at once by this process."""

    step_cap: int = 16
    """Model steps in one turn."""

    frame_bytes: int = 262_144
    """Largest client message, in bytes of UTF-8."""

    subscriptions: int = 100
    """Threads one connection may follow."""

    connections: int = 10_000
    """Sockets this process accepts."""

    rate: int = 50
    """Frames per second that one connection may send on average; twice as many at once."""

    claim: int = 15_000
    """How long an action stays claimed when the instance of whoever claimed it dies."""

    heartbeat: int = 25_000
    """Time between pings, before jitter."""

    drain_window: int = 2_000
    """How long clients are given to leave by themselves when the server stops."""

    grace: int = 20_000
    """From the signal to the exit, at the most."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, **given: str | int | None) -> Settings:
        """Read ``WAITPOINT_*``; ``given`` values that are not ``None`` win. Raises :class:`ConfigurationError`."""
        environment = os.environ if environment is None else environment
        values: dict[str, str | int] = {name: value for name, value in given.items() if value is not None}
        for spec in fields(cls):
            name = f"WAITPOINT_{spec.name.upper()}"
            text = environment.get(name)
            if spec.name in values or text is None:
                continue
            if isinstance(spec.default, int):
                try:
                    values[spec.name] = int(text)
                except ValueError:
                    raise ConfigurationError(f"{name}={text!r} is not a whole number") from None
            else:
                values[spec.name] = text
        settings = cls(**values)  # type: ignore[arg-type]
        settings.check()
        return settings

    @classmethod
    def doubtful(cls, environment: Mapping[str, str] | None = None) -> list[str]:
        """What to say of variables that look like settings and are close to one, but are none: spelling mistakes."""
        known = [f"WAITPOINT_{spec.name.upper()}" for spec in fields(cls)]
        words = []
        for name in os.environ if environment is None else environment:
            close = get_close_matches(name, known, n=1, cutoff=0.9) if name.startswith("WAITPOINT_") else []
            if close and name not in known:
                words.append(f"there is no setting {name}; did you mean {close[0]}?")
        return words

    def check(self) -> None:
        """Refuse values that cannot work."""
        for spec in fields(self):
            value = getattr(self, spec.name)
            if isinstance(value, int) and value <= 0:
                raise ConfigurationError(f"WAITPOINT_{spec.name.upper()} must be positive, not {value}")
        if self.lease < 400:
            raise ConfigurationError(f"WAITPOINT_LEASE={self.lease} ms cannot be renewed in time; give it 400 or more")
        if self.redis_url and not self.redis_url.startswith(("redis://", "rediss://", "unix://")):
            raise ConfigurationError(
                "WAITPOINT_REDIS_URL must start with redis://, rediss:// or unix://, as in redis://localhost:6379"
            )
