"""The Lua scripts as values: text, digest, and how to call one.

Knows that scripts are cached per server and vanish at any time. Only an error that starts with NOSCRIPT proves that
nothing ran; then, and only then, the text itself is sent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from redis.exceptions import NoScriptError

from .link import Argument, Link

__all__ = ["Script", "script"]


class Script:
    """One script; see its file for KEYS, ARGV and what it returns."""

    __slots__ = ("name", "sha", "text")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    async def run(self, link: Link, keys: Sequence[bytes], args: Sequence[Argument]) -> Any:
        """Run it over a link; raises what :meth:`Link.send` does."""
        try:
            return await link.call(b"EVALSHA", self.sha, len(keys), *keys, *args)
        except NoScriptError:
            return await link.call(b"EVAL", self.text, len(keys), *keys, *args)


@cache
def script(name: str) -> Script:
    """The script of that name, with the functions that all of them share in front."""
    folder = resources.files(__package__) / "lua"
    prelude, body = ((folder / f"{part}.lua").read_text(encoding="utf-8") for part in ("prelude", name))
    return Script(name, f"{prelude}\n{body}")
