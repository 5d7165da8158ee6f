"""Waitpoint: a WebSocket chat backend whose tools can stop and wait for people."""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _version

try:
    __version__ = _version("waitpoint")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"
