"""What can go wrong, as types.

    WaitpointError
    +-- ConfigurationError     the operator's: a setting or an environment that cannot work; text says what to change
    +-- DefinitionError        the tool author's: a tool or wait point that cannot work; raised at import
    +-- StoreError             the store's
        +-- StoreRefused       it can be reached but must not be used (version, eviction policy, partitions)
        +-- StoreUnavailable   it cannot be reached, and nothing was written (``store.types``)
        +-- UnknownOutcome     the reply of a write was lost (``store.types``)

A peer's fault is a refusal frame and never an exception; a business refusal is a value (``thread.Refused``).
"""

from __future__ import annotations

__all__ = ["ConfigurationError", "DefinitionError", "StoreError", "StoreRefused", "WaitpointError"]


class WaitpointError(Exception):
    """Root of everything this package raises on purpose."""


class ConfigurationError(WaitpointError):
    """A setting that cannot work; the message says what to change."""


class DefinitionError(WaitpointError):
    """A tool or wait point that cannot work; raised where it is defined."""


class StoreError(WaitpointError):
    """The store cannot do what is needed."""


class StoreRefused(StoreError):
    """The store can be reached, but using it would lose data."""
