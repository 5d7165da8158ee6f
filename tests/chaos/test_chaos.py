"""A short chaos run within the test suite; ``python -m chaos`` rains for as long as one likes."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.checker import check, takeovers
from chaos.report import summary
from chaos.run import LEASE, run


@pytest.mark.timeout(240)
async def test_whatever_dies_every_answer_counts_once_and_every_client_sees_the_same(tmp_path: Path) -> None:
    history = await run(tmp_path, seed=4, seconds=20, threads=12, every=0.6)
    violations = check(history, lease=LEASE)
    report = summary(history, violations)
    print(report)  # noqa: T201 - pytest shows it with the failure
    assert not violations, report
    # A run in which nothing happened proves nothing.
    assert len(history.faults) >= 15, report
    assert len({fault.kind for fault in history.faults}) >= 7, report
    assert sum(bool(command.acks) for command in history.commands.values() if command.kind == "submit") >= 50, report
    assert history.resumes >= 20, report
    assert takeovers(history), report
