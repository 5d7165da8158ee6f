"""The first moments of a WebSocket connection: which subprotocol to speak. Knows codecs; no frames.

What a page must be able to tell apart is accepted first and then closed with a code: a refused upgrade looks the same
as a dead network to it.
"""

from __future__ import annotations

from waitpoint_protocol.codec import Codec, codec_for

__all__ = ["choose_codec"]


def choose_codec(offered: list[str]) -> tuple[Codec | None, str | None]:
    """The codec to speak (``None``: none that we know) and the subprotocol to name in the answer.

    A browser drops a connection whose answer names none of the subprotocols it offered, before it can see a close
    code. So when we speak none of them the first is named all the same: to say goodbye in.
    """
    for name in offered:
        codec = codec_for(name)
        if codec is not None:
            return codec, name
    if offered:
        return None, offered[0]
    return codec_for(None), None
