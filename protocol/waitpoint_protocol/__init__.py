"""The Waitpoint wire protocol, version 1: values, state, events, frames, codecs and the reference fold.

Everything here is shapes and rules; ``PROTOCOL.md`` beside this package is the text a client is written from.
"""
