"""What all tests share: reports that can be carried between worker processes whatever they quote."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Spell lone surrogates out: tests handle them on purpose, and a captured log line may quote one."""
    return _printable((yield))


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_printable, value))
    return value
