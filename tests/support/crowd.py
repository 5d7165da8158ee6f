"""Thousands of threads that wait, made by copying one that really does.

A copy is the template's keys under another name, with the name in its values and the deadline replaced. Knows the names
of keys; that a control state and a pending entry carry the thread's name is all it knows of values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from waitpoint.store.keys import Keys

from .servers import RedisServer

__all__ = ["multiply"]


def multiply(server: RedisServer, template: str, names: Sequence[str], *, expires_at: int | None = None) -> None:
    """Make threads ``names`` in the image of ``template``; ``expires_at`` (ms) replaces its deadline."""
    keys = Keys()
    client = server.client()
    try:
        source = keys.of(template)
        head = client.hgetall(source.thread)
        entries = client.xrange(source.log)
        messages = client.lrange(source.messages, 0, -1)
        values = client.hgetall(source.values)
        pending = [body for body in client.hvals(source.pending) if template.encode() in body]
        assert len(pending) == 1, "the template waits for one answer"
        (action,) = re.findall(rb'"action":"(a_\w+)"', pending[0])

        def renamed(value: bytes, name: str, number: int) -> bytes:
            value = value.replace(template.encode(), name.encode()).replace(action, action + b"%d" % number)
            if expires_at is not None:
                value = re.sub(rb'"expires_at":\d+', b'"expires_at":%d' % expires_at, value)
            return value

        for start in range(0, len(names), 500):
            with client.pipeline(transaction=False) as pipe:
                for number, name in enumerate(names[start : start + 500], start):
                    target = keys.of(name)
                    pipe.hset(target.thread, mapping={k: renamed(v, name, number) for k, v in head.items()})
                    for entry_id, fields in entries:
                        pipe.xadd(target.log, {k: renamed(v, name, number) for k, v in fields.items()}, entry_id)
                    for message in messages:
                        pipe.rpush(target.messages, renamed(message, name, number))
                    pipe.hset(target.values, mapping={renamed(k, name, number): v for k, v in values.items()})
                    pipe.hset(target.pending, action + b"%d" % number, renamed(pending[0], name, number))
                    if expires_at is not None:
                        pipe.zadd(target.due, {name: expires_at})
                pipe.execute()
    finally:
        client.close()
