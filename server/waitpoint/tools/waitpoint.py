"""Wait points: the named, typed places where a tool may stop and wait for people.

Knows how one is declared and what may be asked and answered there. Does not know who waits, or where that is kept.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeGuard, cast, get_args, overload

from typing_extensions import TypedDict, TypeVar, Unpack

from waitpoint_protocol.frames import FieldError
from waitpoint_protocol.values import Value

from ..errors import DefinitionError
from .contract import Contract
from .schema import fingerprint

if TYPE_CHECKING:
    from .entry import Entry, Resume

__all__ = ["OnMessage", "WaitOptions", "WaitPoint", "WaitSettings", "WaitStyle", "check_name", "read_options"]

S = TypeVar("S", default=Any)
R = TypeVar("R", default=Any)

OnMessage = Literal["cancel", "keep", "refuse"]
"""What a new user message does to a wait: abandon it, queue behind it, or be refused with ``waiting``."""

WaitStyle = Literal["entry", "inline", "approval"]
"""Who makes a wait: a tool at a declared wait point, an inline ``suspend()``, or the approval gate before a tool."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")

LONGEST = 100 * 365 * 24 * 3600
"""Seconds that a wait or an execution may be given: no clock here counts on for ever."""


class WaitOptions(TypedDict, total=False):
    """How a wait point behaves, beyond its types."""

    expires_in: timedelta | float | None
    """After this long (seconds, or a ``timedelta``) an unanswered action expires. Default: never."""

    audience: Collection[str] | None
    """Ids of the identities that may answer. Default: whoever may write to the thread."""

    redact: bool
    """Keep the answer out of what other clients see."""

    on_message: OnMessage
    """What a new user message does to the wait."""


@dataclass(frozen=True, slots=True)
class WaitSettings:
    """:class:`WaitOptions`, checked."""

    expires_in_ms: int | None
    audience: tuple[str, ...] | None
    redact: bool
    on_message: OnMessage


def read_options(what: str, options: WaitOptions) -> WaitSettings:
    """Check how a wait is to behave; ``what`` names it in the :class:`DefinitionError` of an option that cannot be."""
    if unknown := options.keys() - WaitOptions.__annotations__.keys():
        raise DefinitionError(f"{what} has no option {', '.join(sorted(unknown))}")
    on_message: OnMessage = options.get("on_message", "cancel")
    if on_message not in get_args(OnMessage):
        raise DefinitionError(f'{what}: on_message is "cancel", "keep" or "refuse"')
    return WaitSettings(
        _milliseconds(what, options.get("expires_in")),
        _audience(what, options.get("audience")),
        bool(options.get("redact", False)),
        on_message,
    )


def check_name(what: str, name: object) -> None:
    """Raise :class:`DefinitionError` unless ``name`` can name a wait point."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DefinitionError(
            f"{what} {name!r} is not usable; start with a letter, then up to 63 letters, digits and _"
        )


class WaitPoint(Generic[S, R]):
    """Declare a wait point: ``WaitPoint("approval", suspend=Ask, resume=Decision)``.

    ``suspend`` is the type of what clients are shown, ``resume`` of what they may answer. A client sees the action
    under the name ``toolName.name``. For types that are not classes (``bool | None``, ``Literal[...]``) annotate the
    variable, so that checkers know them: ``pick: WaitPoint[Ask, Literal["a", "b"]] = WaitPoint(...)``.

    Raises :class:`DefinitionError` for a name, a type or an option that cannot work.
    """

    @overload
    def __init__(self, name: str, *, suspend: type[S], resume: type[R], **options: Unpack[WaitOptions]) -> None: ...

    @overload
    def __init__(
        self: WaitPoint[Any, Any], name: str, *, suspend: Any, resume: Any, **options: Unpack[WaitOptions]
    ) -> None: ...

    def __init__(self, name: str, *, suspend: Any, resume: Any, **options: Unpack[WaitOptions]) -> None:
        check_name("wait point name", name)
        settings = read_options(f"wait point {name}", options)
        self.name = name
        self.suspend: Contract[S] = Contract(suspend, f"suspend type of wait point {name}", "serialization")
        self.resume: Contract[R] = Contract(resume, f"resume type of wait point {name}")
        self.fingerprint = fingerprint(self.resume.schema)
        self.expires_in_ms = settings.expires_in_ms
        self.audience = settings.audience
        self.redact = settings.redact
        self.on_message: OnMessage = settings.on_message
        self.kind: str | None = None
        """Who is to end it, where that is not a person; told to clients."""

    def __repr__(self) -> str:
        return f"WaitPoint({self.name!r})"

    @property
    def resume_schema(self) -> dict[str, Any]:
        """JSON Schema of an answer, as stored with each action and sent to clients."""
        return self.resume.schema

    def answered(self, entry: Entry) -> TypeGuard[Resume[R]]:
        """Whether the tool re-enters with an answer to this wait point; ``entry.data`` then has its type."""
        from .entry import Resume

        return isinstance(entry, Resume) and entry.name == self.name

    def check_resume(self, value: Value) -> list[FieldError]:
        """What is wrong with an answer; nothing if the wait point takes it."""
        return self.resume.check(value)

    def check_suspend(self, data: S) -> Value:
        """Suspend data as the JSON value clients are shown. Raises ``Misfit`` when it breaks the suspend type."""
        return self.suspend.spell(data)


def _milliseconds(what: str, span: timedelta | float | None) -> int | None:
    if span is None:
        return None
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not math.isfinite(seconds) or seconds <= 0:
        raise DefinitionError(f"{what}: expires_in is a timedelta or seconds above 0, not {span!r}")
    if seconds > LONGEST:
        raise DefinitionError(f"{what}: expires_in is a hundred years at most; leave it out to wait for ever")
    return max(1, round(seconds * 1000))


def _audience(what: str, audience: Collection[str] | None) -> tuple[str, ...] | None:
    if audience is None:
        return None
    named = cast("tuple[object, ...]", () if isinstance(audience, str) else tuple(audience))
    ids = tuple(identity for identity in named if isinstance(identity, str))
    if not ids or len(ids) != len(named) or any("\ud800" <= sign <= "\udfff" for sign in "".join(ids)):
        raise DefinitionError(
            f'{what}: audience lists the ids of who may answer, e.g. ["ann"]; leave it out to let '
            "everybody answer who may write to the thread"
        )
    return ids
