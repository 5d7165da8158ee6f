"""What a provider's failure means: words for the person who waits, and whether asking again may help.

Knows pydantic-ai's exceptions and HTTP status codes. Never passes on a provider's own text: it may name accounts and
quote keys, and everybody in the chat can read it.
"""

from __future__ import annotations

from pydantic_ai import exceptions as x

from ..port import ModelError

__all__ = ["to_model_error"]

BRIEFLY = frozenset({408, 409, 425, 429})
"""4xx statuses that pass; those from 500 up do too."""


def to_model_error(error: Exception) -> ModelError:
    """The :class:`ModelError` for what pydantic-ai (or a client below it) raised."""
    match error:
        case ExceptionGroup():
            # A FallbackModel whose models all failed: worth another try if it is for one of them.
            failures = [to_model_error(one) for one in error.exceptions if isinstance(one, Exception)]
            return next((one for one in failures if one.retryable), failures[-1])
        case x.ModelAPIError():
            status = error.status_code if isinstance(error, x.ModelHTTPError) else None
            said, retryable = _meaning(error, status)
            number = "" if status is None else f" (HTTP {status})"
            return ModelError(said + number, retryable=retryable, retry_after=error.retry_after if retryable else None)
        case x.ContentFilterError():
            return ModelError("the model's provider withheld the answer: its content filter")
        case x.UserError():
            return ModelError(f"the request cannot be put to this model: {error.message}")
        case TimeoutError():
            return ModelError("the model's provider did not answer in time", retryable=True)
        case _ if isinstance(error, OSError) or _is_transport(error):
            return ModelError("the connection to the model's provider broke", retryable=True)
        case x.UnexpectedModelBehavior():
            return ModelError("the model's provider answered with something that is no answer", retryable=True)
        case _:
            return ModelError(f"the request to the model's provider failed: {type(error).__name__}")


def _meaning(error: x.ModelAPIError, status: int | None) -> tuple[str, bool]:
    match error:
        case x.ModelQuotaExceededError():
            return "the account at the model's provider has no credit left", False
        case x.ModelRateLimitError():
            return "the model's provider asks for a pause: too many requests", True
        case x.ModelUnavailableError():
            return "the model's provider is overloaded", True
        case x.ModelTimeoutError() | x.ModelRequestTimeout():
            return "the model's provider did not answer in time", True
        case x.ModelConnectionError():
            return "the connection to the model's provider broke", True
        case x.ModelContextWindowExceededError():
            return "the conversation is longer than the model can read; start a new thread", False
        case x.ModelAuthenticationError():
            return "the model's provider refused the server's key; whoever runs it has to check that", False
        case x.ModelNotFoundError():
            return f"the model's provider knows no model {error.model_name}", False
        case x.ModelRequestRejectedError() if status not in BRIEFLY:
            return "the model's provider refused the request; the server's log says why", False
        case _ if status is not None and status < 500 and status not in BRIEFLY:
            return "the model's provider refused the request; the server's log says why", False
        case _:
            return "the model's provider failed", True


def _is_transport(error: Exception) -> bool:
    """Whether an HTTP library let its own error through."""
    return any(kind.__module__.split(".")[0] in ("httpx", "httpx2", "httpcore") for kind in type(error).__mro__)
