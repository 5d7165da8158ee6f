"""A build that cannot be loaded without its secret: ``waitpoint serve`` ends before it takes a connection."""

from __future__ import annotations

import os

from support.builds import new

if "WAITPOINT_TEST_SECRET" not in os.environ:
    raise RuntimeError("WAITPOINT_TEST_SECRET is not set")

chat = new
