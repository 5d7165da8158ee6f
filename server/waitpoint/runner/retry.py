"""Whether, and when, a model step that failed is asked again. Pure: chance is an argument.

This is the only layer that asks again; the adapters turn off the retries of the clients below them, since two layers
multiply.
"""

from __future__ import annotations

from ..models import ModelError

__all__ = ["LONGEST", "RETRIES", "pause"]

RETRIES = 3
"""How often one model step is asked again."""

FIRST = 0.5
"""Seconds before the first repeat; each further pause is twice as long."""

LONGEST = 30.0
"""Seconds of pause that a provider may ask for. Who asks for more is not waited for: a person looks at the thread."""


def pause(error: ModelError, retry: int, chance: float) -> float | None:
    """Seconds to wait before repeat number ``retry`` (from 0), or ``None`` to give up.

    ``chance`` (0 to 1) spreads the repeats of threads that failed together.
    """
    if not error.retryable or retry >= RETRIES:
        return None
    own = FIRST * 2.0**retry * (0.5 + chance)
    if error.retry_after is None:
        return own
    if error.retry_after > LONGEST:
        return None
    return error.retry_after + own
