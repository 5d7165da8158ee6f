"""What can go wrong, as types.

    WaitpointError
    +-- ConfigurationError     the operator's: a setting or an environment that cannot work; text says what to change
    +-- DefinitionError        the tool author's: a tool or wait point that cannot work; raised at import
    +-- StoreError             the store's
        +-- StoreRefused       it can be reached but must not be used (version, eviction policy, partitions)
        +-- StoreUnavailable   it cannot be reached, and nothing was written (``store.types``)
        +-- UnknownOutcome     the reply of a write was lost (``store.types``)
    +-- Refusal                a command of the application's own code was refused; what peers get is a frame

A peer's fault is a refusal frame and never an exception; inside the house a refusal is a value (``thread.Refused``).
"""

from __future__ import annotations

from waitpoint_protocol.codes import RefusalCode
from waitpoint_protocol.frames import FieldError, Reject
from waitpoint_protocol.state import Resolution

__all__ = ["ConfigurationError", "DefinitionError", "Refusal", "StoreError", "StoreRefused", "WaitpointError"]


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


class Refusal(WaitpointError):
    """A command of the application's own code was refused and nothing was written; go by ``code``.

    ``errors`` says where a payload is wrong, ``winner`` how the action had already ended, ``retry_ms`` when to try
    again under the same id.
    """

    def __init__(self, reject: Reject) -> None:
        self.code: RefusalCode = reject.code
        self.message = reject.message
        self.errors: list[FieldError] = reject.errors or []
        self.winner: Resolution | None = reject.winner
        self.retry_ms = reject.retry_ms
        super().__init__(f"{reject.code}: {reject.message}")
