"""What tool authors import, and what enters their tools.

Knows definitions, types and one execution at a time. Knows no Redis, no sockets, no thread and no runner.
"""

from __future__ import annotations

from .bodiless import BodilessTool, client_tool, external_tool
from .context import Identity, Report, ToolContext, ToolInput
from .continuation import Continuation, ContinuationContext, Say
from .contract import Misfit
from .entry import (
    ActionRef,
    Cancel,
    CancelledVisit,
    Entry,
    ExpiredVisit,
    Fail,
    FailedVisit,
    Initial,
    Resume,
    SubmittedVisit,
    UnsupportedEntry,
    Visit,
)
from .execute import MAX_OUTPUT, MAX_SUSPEND_DATA, ToolError, execute
from .inline import suspend
from .outcome import EntryData, Execution, Failure, InitialEntry, Outcome, Output, ResumeEntry, Suspended, VisitData
from .ready import ask_user, ask_user_multi, confirm
from .steps import step, step_sync
from .stored import check_against
from .tool import Tool, tool
from .toolbox import Toolbox
from .waitpoint import WaitPoint

__all__ = [
    "MAX_OUTPUT",
    "MAX_SUSPEND_DATA",
    "ActionRef",
    "BodilessTool",
    "Cancel",
    "CancelledVisit",
    "Continuation",
    "ContinuationContext",
    "Entry",
    "EntryData",
    "Execution",
    "ExpiredVisit",
    "Fail",
    "FailedVisit",
    "Failure",
    "Identity",
    "Initial",
    "InitialEntry",
    "Misfit",
    "Outcome",
    "Output",
    "Report",
    "Resume",
    "ResumeEntry",
    "Say",
    "SubmittedVisit",
    "Suspended",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolInput",
    "Toolbox",
    "UnsupportedEntry",
    "Visit",
    "VisitData",
    "WaitPoint",
    "ask_user",
    "ask_user_multi",
    "check_against",
    "client_tool",
    "confirm",
    "execute",
    "external_tool",
    "step",
    "step_sync",
    "suspend",
    "tool",
]
