"""The rules of a thread, pure: what may happen, what then happened, and what to do next.

No Redis, sockets, asyncio, clock or random numbers in this room: time and ids are arguments. A chat rule is changed
here and nowhere else.
"""

from .commands import (
    CancelAction,
    ClaimAction,
    CloseTurn,
    Command,
    DriverCommand,
    Expire,
    FailAction,
    FailCall,
    FailStep,
    FinishStep,
    OpenedCall,
    PersonCommand,
    ReleaseAction,
    Return,
    SendMessage,
    Settle,
    StartExecution,
    StartStep,
    Stop,
    Submit,
    Suspend,
)
from .decide import Accepted, Context, Decision, Ids, Moot, Past, Refused, Rules, decide
from .evolve import evolve
from .facts import Fact
from .model import Action, Actor, Call, Resolution, Thread, Turn, Visit, dump, empty, load
from .next_steps import CallModel, EnterTool, ExpireAction, FinishTurn, Step, appointment, next_steps
from .project import project

__all__ = [
    "Accepted",
    "Action",
    "Actor",
    "Call",
    "CallModel",
    "CancelAction",
    "ClaimAction",
    "CloseTurn",
    "Command",
    "Context",
    "Decision",
    "DriverCommand",
    "EnterTool",
    "Expire",
    "ExpireAction",
    "Fact",
    "FailAction",
    "FailCall",
    "FailStep",
    "FinishStep",
    "FinishTurn",
    "Ids",
    "Moot",
    "OpenedCall",
    "Past",
    "PersonCommand",
    "Refused",
    "ReleaseAction",
    "Resolution",
    "Return",
    "Rules",
    "SendMessage",
    "Settle",
    "StartExecution",
    "StartStep",
    "Step",
    "Stop",
    "Submit",
    "Suspend",
    "Thread",
    "Turn",
    "Visit",
    "appointment",
    "decide",
    "dump",
    "empty",
    "evolve",
    "load",
    "next_steps",
    "project",
]
