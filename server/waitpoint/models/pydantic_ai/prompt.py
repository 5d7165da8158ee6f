"""Turns of a thread as pydantic-ai messages that strict providers take.

Knows what providers refuse: results without a call, two voices in a row, empty content, ids used twice, names and ids
of other providers' making. Pure; what cannot be sent as it is becomes something that can, so that nothing said once
makes a thread unanswerable.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Sequence
from typing import assert_never

from pydantic_ai.messages import (
    AudioUrl,
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
    VideoUrl,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from waitpoint_protocol.state import FilePart
from waitpoint_protocol.values import Value

from .. import port
from ..transcript import AssistantTurn, SystemTurn, ToolResult, ToolTurn, Turn, UserTurn

__all__ = ["to_messages", "to_parameters"]

NO_TEXT = "(a message without text)"
"""Stands for a user message that has only app data: providers refuse an empty one."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")


def to_parameters(tools: Iterable[port.ToolDefinition]) -> ModelRequestParameters:
    """The tools of a request."""
    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.input_schema)
            for tool in tools
        ]
    )


def to_messages(turns: Sequence[Turn], *, instructions: str | None, files: Collection[str]) -> list[ModelMessage]:
    """Spell turns for a provider; ``files`` are the media types, or their beginnings, that it is given."""
    prompt = _Prompt(files)
    for turn in _from_a_person_on(turns):
        match turn:
            case SystemTurn(text):
                if text.strip():
                    prompt.ask(SystemPromptPart(text))
            case UserTurn():
                prompt.user(turn)
            case AssistantTurn():
                prompt.assistant(turn)
            case ToolTurn(results):
                prompt.results(results)
            case _:
                assert_never(turn)
    return prompt.finish(instructions)


def _from_a_person_on(turns: Sequence[Turn]) -> Sequence[Turn]:
    """Leave out what was answered to a message that is too old to be shown; some providers want a person first."""
    for index, turn in enumerate(turns):
        if isinstance(turn, (UserTurn, SystemTurn)):
            return turns[index:]
    return turns


class _Prompt:
    def __init__(self, files: Collection[str]) -> None:
        self._files = tuple(files)
        self._messages: list[ModelMessage] = []
        self._asked: list[ModelRequestPart] = []
        self._answered: list[ModelResponsePart] = []
        self._used: set[str] = set()
        self._ids: dict[str, str] = {}

    def ask(self, part: ModelRequestPart) -> None:
        self._end_answer()
        self._asked.append(part)

    def user(self, turn: UserTurn) -> None:
        content: list[UserContent] = [turn.text] if turn.text.strip() else []
        content += [self._file(file) for file in turn.files]
        last = self._asked[-1] if self._asked else None
        if isinstance(last, UserPromptPart):
            # The turn between ended without a word; two messages of one voice in a row are refused by some.
            content = [*([last.content] if isinstance(last.content, str) else last.content), *content]
            self._asked.pop()
        if all(isinstance(item, str) for item in content):
            self.ask(UserPromptPart("\n\n".join(map(str, content)) or NO_TEXT))
        else:
            self.ask(UserPromptPart(content))

    def assistant(self, turn: AssistantTurn) -> None:
        if not turn.text.strip() and not turn.calls:
            return
        self._end_request()
        if turn.text.strip():
            self._answered.append(TextPart(turn.text))
        self._ids = {}
        for call in turn.calls:
            own = self._ids[call.tool_call_id] = self._own_id(call.tool_call_id)
            self._answered.append(ToolCallPart(_name(call.tool_name), _arguments(call.input), own))

    def results(self, results: Iterable[ToolResult]) -> None:
        for result in results:
            content = _content(result.error_text if result.failed else result.output)
            self.ask(
                ToolReturnPart(
                    _name(result.tool_name),
                    content,
                    self._ids[result.tool_call_id],
                    outcome="failed" if result.failed else "success",
                )
            )

    def finish(self, instructions: str | None) -> list[ModelMessage]:
        self._end_answer()
        self._end_request()
        if instructions:
            last = next((one for one in reversed(self._messages) if isinstance(one, ModelRequest)), None)
            if last is None:
                last = ModelRequest(parts=[])
                self._messages.append(last)
            last.instructions = instructions
        return self._messages

    def _end_request(self) -> None:
        if self._asked:
            self._messages.append(ModelRequest(parts=self._asked))
            self._asked = []

    def _end_answer(self) -> None:
        if self._answered:
            self._messages.append(ModelResponse(parts=self._answered))
            self._answered = []

    def _own_id(self, call_id: str) -> str:
        """An id that every provider takes, used once: a thread may meet several of them, and some count from 1."""
        own, repeat = call_id, 1
        while own in self._used or not _ID.fullmatch(own):
            own = f"call_{hashlib.sha256(f'{repeat}:{call_id}'.encode()).hexdigest()[:24]}"
            repeat += 1
        self._used.add(own)
        return own

    def _file(self, file: FilePart) -> UserContent:
        media, url = file["mediaType"].lower(), file["url"]
        if self._files and media.startswith(self._files):
            if url.startswith("data:"):
                try:
                    return BinaryContent.from_data_uri(url)
                except ValueError:
                    pass
            elif url.startswith(("https://", "http://")):
                return _url(url, media)
        # A file that the provider cannot take would make it refuse this thread for ever.
        return f"(attached file: {file.get('name') or 'without a name'}, {media})"


def _url(url: str, media: str) -> UserContent:
    match media.partition("/")[0]:
        case "image":
            return ImageUrl(url, media_type=media)
        case "audio":
            return AudioUrl(url, media_type=media)
        case "video":
            return VideoUrl(url, media_type=media)
        case _:
            return DocumentUrl(url, media_type=media)


def _name(tool_name: str) -> str:
    """A model may have made up a tool with a name that no provider takes back."""
    return _NOT_IN_A_NAME.sub("_", tool_name)[:64] or "unnamed"


def _arguments(call_input: Value) -> str | dict[str, Value]:
    if isinstance(call_input, dict):
        return call_input
    if call_input is None:
        return {}
    return call_input if isinstance(call_input, str) else json.dumps(call_input, ensure_ascii=False)


def _content(value: Value) -> Value:
    # Nothing, and blank text, are refused as empty content by some; as JSON they are not empty.
    if value is None or (isinstance(value, str) and not value.strip()):
        return json.dumps(value)
    return value
