"""The model port over pydantic-ai: one streamed request per model step.

Knows how its own parts are put together, and imports pydantic-ai only when a model is made, so that Waitpoint works
without the extra.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from ...errors import ConfigurationError
from ..port import ModelError, ModelEvent, ModelRequest
from ..transcript import Turn, UserTurn, to_turns

if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings

__all__ = ["PydanticAIModel"]

logger = logging.getLogger(__name__)

FILES = ("image/", "application/pdf")
"""Media types (or their beginnings) that most models of today can read."""


class PydanticAIModel:
    """A model of any provider, by its pydantic-ai name: ``PydanticAIModel("anthropic:claude-sonnet-4-5")``.

    ``model`` may also be one of pydantic-ai's ``Model`` objects. ``settings`` are its ``ModelSettings``, for example
    ``{"temperature": 0, "thinking": "low"}``. Retries of the provider's own client are off unless they say otherwise:
    the driver of the thread asks again. ``files`` are the media types, or their beginnings, of attachments that the
    model is given; of others it is told the name.

    Raises :class:`~waitpoint.errors.ConfigurationError` when pydantic-ai, the provider's package or its key is missing,
    or nobody knows the model.
    """

    def __init__(
        self, model: str | Model, settings: ModelSettings | None = None, *, files: Collection[str] = FILES
    ) -> None:
        try:
            import pydantic_ai.models
            from pydantic_ai.exceptions import UserError
        except ImportError as error:
            raise ConfigurationError(
                'PydanticAIModel needs pydantic-ai: pip install "waitpoint[pydantic-ai]"'
            ) from error
        try:
            self.model = pydantic_ai.models.infer_model(model)
        except ImportError as error:
            raise ConfigurationError(f"model {model}: its provider needs one more package: {error}") from error
        except (UserError, ValueError) as error:
            raise ConfigurationError(f"model {model}: {error}") from error
        self.settings: ModelSettings = {"max_retries": 0, **(settings or {})}
        self.files = tuple(files)

    def __repr__(self) -> str:
        return f"PydanticAIModel({self.model.model_id!r})"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream one model step. Closing the stream closes the provider's."""
        turns = to_turns(request.messages)
        begun = False
        try:
            async with aclosing(self._ask(request, turns, self.files)) as events:
                async for event in events:
                    begun = True
                    yield event
            return
        except ModelError as error:
            if begun or not _may_be_a_file(error, turns):
                raise
            logger.warning("thread %s: asked again without the attached files: %s", request.thread_id, error)
        async with aclosing(self._ask(request, turns, ())) as events:
            async for event in events:
                yield event

    async def _ask(
        self, request: ModelRequest, turns: Sequence[Turn], files: Collection[str]
    ) -> AsyncGenerator[ModelEvent]:
        from pydantic_ai.direct import model_request_stream

        from .events import to_events
        from .failure import to_model_error
        from .prompt import to_messages, to_parameters

        try:
            async with model_request_stream(
                self.model,
                to_messages(turns, instructions=request.instructions, files=files),
                model_settings=self.settings,
                model_request_parameters=to_parameters(request.tools),
            ) as response:
                async for event in to_events(response):
                    yield event
        except ModelError:
            raise
        except Exception as error:
            # People in the chat are told what kind of failure it is; what the provider said may hold account names and
            # pieces of keys, and is for the log.
            name, kind = self.model.model_name, type(error).__name__
            logger.warning("thread %s: model %s: %s: %s", request.thread_id, name, kind, error)
            raise to_model_error(error) from error


def _may_be_a_file(error: ModelError, turns: Sequence[Turn]) -> bool:
    """Whether a request failed because of an attachment: a link that is dead, a picture that is none.

    It stays in the thread, so every later request would fail of it too.
    """
    from pydantic_ai.exceptions import ModelAPIError

    if not any(isinstance(turn, UserTurn) and turn.files for turn in turns):
        return False
    return not (error.retryable and isinstance(error.__cause__, ModelAPIError))
