"""A process whose clock is wrong: put this folder on ``PYTHONPATH`` and say by how many seconds.

Python imports ``sitecustomize`` before anything else, so the whole server lives in the wrong time.
"""

from __future__ import annotations

import datetime
import os
import time
from typing import Any

_skew = float(os.environ["WAITPOINT_TEST_SKEW"])
_time, _time_ns = time.time, time.time_ns


class _Wrong(datetime.datetime):
    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return cls.fromtimestamp(_time() + _skew, tz)


time.time = lambda: _time() + _skew
time.time_ns = lambda: _time_ns() + int(_skew * 1e9)
datetime.datetime = _Wrong  # type: ignore[misc]
