"""``python -m chaos``: a chaos run of its own. Exits with 1 when a promise was broken."""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import shutil
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from .checker import check
from .history import History
from .report import summary
from .run import LEASE, run


def main() -> int:
    """Parse the command line, run, judge, print."""
    parser = argparse.ArgumentParser(prog="chaos", description="Break everything for a while, then check the promises.")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="what is done, and to whom")
    parser.add_argument("--seconds", type=float, default=120, help="how long faults are injected")
    parser.add_argument("--threads", type=int, default=36)
    parser.add_argument("--every", type=float, default=1.2, help="mean seconds between faults")
    parser.add_argument("--store", choices=("valkey", "redis7"), default="valkey")
    parser.add_argument("--keep", action="store_true", help="keep logs and journal even if all is well")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="chaos-"))
    _say(f"seed {options.seed}, {options.seconds:g} s; logs in {directory}")
    history = asyncio.run(_run(directory, options))
    violations = check(history, lease=LEASE)
    _say(summary(history, violations))
    if violations:
        (directory / "history.json").write_text(json.dumps(asdict(history), indent=1))
        _say(f"replay with --seed {options.seed}; logs, journal and history are in {directory}")
        return 1
    if not options.keep:
        shutil.rmtree(directory, ignore_errors=True)
    return 0


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - it is a command


async def _run(directory: Path, options: argparse.Namespace) -> History:
    # A run that is asked to stop must not leave its servers behind.
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await run(
        directory,
        seed=options.seed,
        seconds=options.seconds,
        threads=options.threads,
        kind=options.store,
        every=options.every,
        say=_say,
    )


if __name__ == "__main__":
    sys.exit(main())
