"""Driving one thread under a lease: model steps, parallel tool calls, deadlines, the end of the turn.

Asks ``next_steps`` what to do, does it, and reports each outcome as a command. It keeps no state that matters: whatever
is lost with it is derived again by the next driver.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, assert_never

from waitpoint_protocol import events as e
from waitpoint_protocol.state import Message
from waitpoint_protocol.timestamps import from_millis
from waitpoint_protocol.values import Value

from .. import models, tools
from ..desk import Desk, Driven, Snapshot, Stale, persist
from ..store.types import Batch, Claimed, Due, Store
from ..thread import (
    Actor,
    Call,
    CallModel,
    CloseTurn,
    ContinueRequest,
    EnterTool,
    Expire,
    ExpireAction,
    FailCall,
    FailStep,
    FinishStep,
    FinishTurn,
    Lapse,
    LapseClaim,
    OpenedCall,
    RecordStep,
    Return,
    Settle,
    StartExecution,
    StartStep,
    Step,
    Suspend,
    Turn,
    Visit,
    appointment,
    deadline,
    next_steps,
)
from ..thread.project import answer_id, input_id, question_id, step_id
from .lease import Lease, LeaseLost
from .log import DriverLog
from .requests import continue_request
from .retry import pause
from .streaming import ModelCall, StepOutput, sound, stream_step, unfinished_calls

__all__ = ["Chatter", "Driver"]

logger = logging.getLogger(__name__)

CANCEL_GRACE = 2.0
"""Seconds that cancelled tools get to clean up; one that ignores it is left behind, and nothing it says counts."""

POLL = 1.0
"""Seconds between looks at the thread when nothing tells that it moved (publish is only a hint)."""


@dataclass(frozen=True, slots=True)
class Chatter:
    """What a chat brings to its driver: the model, the tools, instructions, dependencies, and continuations."""

    model: models.Model
    toolbox: tools.Toolbox
    instructions: str | None = None
    deps: Any = None
    history: int = 200
    continuations: Mapping[str, tools.Continuation] = field(default_factory=dict)
    say: tools.Say | None = None


@dataclass(slots=True)
class _Work:
    step: Step
    task: asyncio.Task[None]


@dataclass(slots=True)
class Driver:
    """One driven thread. ``run()`` returns when the thread is settled or the lease is lost."""

    store: Store
    desk: Desk
    chat: Chatter
    thread: str
    claimed: Claimed
    lease: Lease
    follow: Callable[[str, Any], Any]
    unfollow: Callable[[str, Any], None]
    _work: dict[str, _Work] = field(default_factory=dict)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _foreign: bool = False
    _going: bool = False
    _log: DriverLog | None = None
    _messages: list[Message] | None = None
    _left_behind: set[asyncio.Task[None]] = field(default_factory=set)

    # --- hints from outside

    def wake(self) -> None:
        """Something may have happened to the thread: look."""
        self._foreign = True
        self._wake.set()

    def lose(self) -> None:
        """The lease is gone: stop."""
        self._wake.set()

    def go(self) -> None:
        """Hand the thread over as soon as possible; what runs is left for the next driver and counts as no crash."""
        self._going = True
        self._wake.set()

    def on_batch(self, batch: Batch) -> None:
        """A batch of this thread was published, perhaps our own."""
        if self._log is None or not self._log.wrote(batch.tag):
            self.wake()

    def on_reset(self, why: str) -> None:
        """The followed log broke; look."""
        self.wake()

    # --- the loop

    async def run(self) -> None:
        """Drive until there is nothing to do."""
        head = self.claimed.head
        snapshot = self.desk.observe(self.thread, head)
        if not next_steps(snapshot.thread, now=self.store.now(), fence=head.fence) and snapshot.thread.run is None:
            moved = await self._release(snapshot)
            if moved is None:
                return
            snapshot = moved
        following = asyncio.create_task(self._follow(), name=f"follow {self.thread}")
        try:
            joined = await self.lease.ask(lambda: self.store.join(self.thread, page=1))
            self._log = DriverLog(
                self.store,
                self.desk,
                joined,
                thread=self.thread,
                fence=head.fence,
                alive=self.lease.alive,
                on_foreign=self.wake,
            )
            await self._loop(self._log, self.desk.observe(self.thread, joined.head))
        except LeaseLost:
            logger.info("thread %s: lease lost under fence %d", self.thread, head.fence)
        finally:
            await self._cancel_all()
            if self._log is not None:
                await self._log.close()
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
            self.unfollow(self.thread, self)

    async def _release(self, snapshot: Snapshot) -> Snapshot | None:
        """Give the lease up without having written; returns what the thread became if it moved meanwhile."""
        head = await persist(
            lambda: self.store.release(
                self.thread,
                fence=self.claimed.head.fence,
                rev=snapshot.head.rev,
                due=Due(appointment(snapshot.thread)),
            ),
            self.lease.alive,
        )
        return None if head is None else self.desk.observe(self.thread, head)

    async def _follow(self) -> None:
        try:
            await self.follow(self.thread, self)
        except Exception as error:
            # Following only makes the driver notice sooner; polling notices anyway.
            logger.info("thread %s: not followed while driven: %s", self.thread, error)

    async def _loop(self, log: DriverLog, snapshot: Snapshot) -> None:
        fence = log.fence
        while True:
            self.lease.trust()
            if self._foreign:
                self._foreign = False
                snapshot = await self.lease.ask(lambda: self.desk.refresh(self.thread))
            self._reap()
            if self._going:
                await self._cancel_all()
                snapshot = await self._end_unrepeatable(log)
            elif await self._cancel_moot(snapshot, fence):
                continue
            steps = [] if self._going else next_steps(snapshot.thread, now=self.store.now(), fence=fence)
            steps = [step for step in steps if _key(step) not in self._work]
            for step in steps:
                task = asyncio.create_task(self._do(log, step), name=f"{type(step).__name__} {self.thread}")
                task.add_done_callback(lambda _: self._wake.set())
                self._work[_key(step)] = _Work(step, task)
            if not steps and not self._work:
                settled = await log.command(Settle(fence), with_checkpoint=True)
                if isinstance(settled, Driven) and settled.committed is not None:
                    return
                moved = None if isinstance(settled, Stale) else await self._release(settled.snapshot)
                if isinstance(settled, Driven) and moved is None:
                    return
                snapshot = moved or settled.snapshot
                continue
            await self._sleep(snapshot)
            snapshot = await self._current()

    async def _sleep(self, snapshot: Snapshot) -> None:
        next_deadline = deadline(snapshot.thread)
        timeout = POLL
        if next_deadline is not None:
            timeout = min(timeout, max(0.0, (next_deadline - self.store.now()) / 1000))
        try:
            # Not wait_for: on Python 3.11 it can swallow a cancellation that comes together with the result.
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        except TimeoutError:
            self._foreign = True
        self._wake.clear()

    async def _current(self) -> Snapshot:
        return await self.lease.ask(lambda: self.desk.current(self.thread))

    def _reap(self) -> None:
        for key in [key for key, work in self._work.items() if work.task.done()]:
            task = self._work.pop(key).task
            if task.cancelled():
                continue
            error = task.exception()
            if isinstance(error, LeaseLost):
                raise error
            if error is not None:
                logger.error("thread %s: %s failed", self.thread, key, exc_info=error)
                raise error

    async def _cancel_moot(self, snapshot: Snapshot, fence: int) -> bool:
        """Cancel what the thread has moved past (a stop, an expiry). True: something was cancelled, look again."""
        moot: list[_Work] = []
        turn = snapshot.thread.turn
        for work in self._work.values():
            match work.step:
                case CallModel():
                    if turn is None or turn.phase != "model":
                        moot.append(work)
                case EnterTool(call_id):
                    call = turn.call(call_id) if turn else None
                    if call is None or call.terminal:
                        moot.append(work)
                case ContinueRequest() | ExpireAction() | LapseClaim() | FinishTurn():
                    pass
                case _:
                    assert_never(work.step)
        # What has just ended by its own doing is done within moments; only the rest needs cancelling.
        moot = [work for work in moot if not work.task.done()]
        if not moot:
            return False
        await self._cancel(moot)
        return True

    async def _end_unrepeatable(self, log: DriverLog) -> Snapshot:
        """Before a hand-over: what was cut off and may run only once is over, whoever cut it off."""
        snapshot = await self._current()
        turn = snapshot.thread.turn
        for call in turn.calls if turn is not None else ():
            tool = self.chat.toolbox.get(call.tool)
            if call.state == "running" and call.fence == log.fence and tool is not None and tool.on_crash == "fail":
                text = "The server was stopped while the tool ran; it is not run again."
                snapshot = (await log.command(FailCall(log.fence, call.id, text))).snapshot
        return snapshot

    async def _cancel_all(self) -> None:
        await self._cancel(list(self._work.values()))

    async def _cancel(self, works: Sequence[_Work]) -> None:
        for work in works:
            work.task.cancel()
        if works:
            _, stubborn = await asyncio.wait([work.task for work in works], timeout=CANCEL_GRACE)
            for task in stubborn:
                logger.warning("thread %s: %s ignores cancellation and is left behind", self.thread, task.get_name())
                self._left_behind.add(task)
                task.add_done_callback(self._left_behind.discard)
        for work in works:
            self._work.pop(_key(work.step), None)
            if work.task.done() and not work.task.cancelled() and work.task.exception() is not None:
                logger.info("thread %s: cancelled work ended with %r", self.thread, work.task.exception())

    # --- one step

    async def _do(self, log: DriverLog, step: Step) -> None:
        match step:
            case CallModel():
                await self._call_model(log)
            case EnterTool(call_id):
                await self._enter_tool(log, call_id)
            case ContinueRequest(action_id):
                current = await self._current()
                await continue_request(self.chat, log, self.store, self.lease, current, action_id)
            case ExpireAction(action_id):
                await log.command(Expire(action_id))
            case LapseClaim(action_id):
                await log.command(Lapse(action_id))
            case FinishTurn():
                await self._finish_turn(log)
            case _:
                assert_never(step)

    async def _finish_turn(self, log: DriverLog) -> None:
        snapshot = await self._current()
        await log.sync(snapshot)
        turn = snapshot.thread.turn
        if turn is None:
            return
        # A call that the model was still writing never became one; in a finished message nothing may stay open.
        for event in unfinished_calls(log.view, turn.reason):
            await log.emit(event)

        def close() -> CloseTurn:
            message = log.finished_message()
            if message is None:
                # The log lost the message (a failover can do that); the turn still has to end.
                logger.error("thread %s: a turn is open but its message is not", self.thread)
                at = from_millis(self.store.now())
                message = {"id": turn.message, "role": "assistant", "parts": [], "status": "open", "at": at}
            return CloseTurn(log.fence, message)

        driven = await log.command(close)
        if isinstance(driven, Driven) and driven.committed is not None:
            self._messages = None

    # --- model steps

    async def _call_model(self, log: DriverLog) -> None:
        driven = await log.command(StartStep(log.fence))
        if not isinstance(driven, Driven) or driven.committed is None:
            return
        turn = driven.snapshot.thread.turn
        if turn is None or turn.phase != "model":
            return
        step, attempt = turn.step, turn.step_attempt
        self.lease.trust()
        for retry in itertools.count():
            try:
                output = await self._stream(log, step, f"{attempt}.{retry}" if retry else str(attempt))
                break
            except (LeaseLost, _LeftBehind, GeneratorExit):
                raise
            except asyncio.CancelledError:
                if _cancelling():
                    raise
                await log.command(FailStep(log.fence, step, "The model failed: it was cancelled from inside."))
                return
            except models.ModelError as error:
                seconds = pause(error, retry, random.random())
                if seconds is None:
                    logger.error("thread %s: the model failed: %s", self.thread, error, exc_info=error.__cause__)
                    await log.command(FailStep(log.fence, step, sound(f"The model failed: {error}")))
                    return
                logger.warning("thread %s: the model failed, asked again in %.1f s: %s", self.thread, seconds, error)
                # What came so far is discarded: the repeat begins from the start, and says it in other words.
                await log.emit(e.StepReset(step=step))
                await asyncio.sleep(seconds)
            except BaseException as error:  # also SystemExit, which would otherwise stop the whole server
                logger.exception("thread %s: the model raised", self.thread)
                await log.command(FailStep(log.fence, step, sound(f"The model failed: {_spell(error)}")))
                return
        self._require_present()
        calls = tuple(self._open(call) for call in output.calls)
        await log.command(FinishStep(log.fence, step, output.reason, output.usage, calls))

    async def _stream(self, log: DriverLog, step: int, attempt: str) -> StepOutput:
        messages = await self._history(log)
        opened = messages[-1]
        taken = {part["toolCallId"] for part in opened["parts"] if part["type"] == "tool"}
        request = models.ModelRequest(
            thread_id=self.thread,
            step=step,
            messages=messages if opened["parts"] else messages[:-1],
            tools=self.chat.toolbox.definitions,
            instructions=self.chat.instructions,
        )

        async def emit(event: e.Event) -> None:
            self._require_present()
            await log.emit(event)

        return await stream_step(self.chat.model.stream(request), emit, step=step, attempt=attempt, taken_ids=taken)

    def _require_present(self) -> None:
        """A stream that ignored its cancellation must not speak in the turn after."""
        if asyncio.current_task() in self._left_behind:
            raise _LeftBehind(self.thread)

    async def _history(self, log: DriverLog) -> list[Message]:
        """Finished messages and the open one, oldest first."""
        # A result that a person's command brought may be in the log and not yet in our fold.
        await log.sync(await self._current())
        view_finished = [message for message in log.view["messages"] if message["status"] == "final"]
        if self._messages is None:
            before = log.view["before"] + len(view_finished)
            limit = self.chat.history
            _, stored = await self.lease.ask(lambda: self.store.messages(self.thread, before=before, limit=limit))
            self._messages = [json.loads(body) for body in stored]
        opened = log.open_message()
        if opened is None:
            raise models.ModelError("the message to write to is not in the log any more")
        # What a cut-off attempt at this step left is gone by its reset; text of this attempt is not there yet.
        return [*self._messages, opened]

    def _open(self, call: ModelCall) -> OpenedCall:
        tool = self.chat.toolbox.get(call.tool)
        error = call.error
        if tool is None:
            names = ", ".join(sorted(definition.name for definition in self.chat.toolbox.definitions)) or "none"
            error = f"There is no tool {call.tool}. Tools: {names}."
        elif error is None and (errors := tool.check_input(call.input)):
            said = "; ".join(f"{'.'.join(map(str, wrong.path)) or 'input'}: {wrong.message}" for wrong in errors)
            error = f"The input does not fit the tool: {said}"
        return OpenedCall(call.id, call.tool, call.input, None if error is None else sound(error))

    # --- tools

    async def _enter_tool(self, log: DriverLog, call_id: str) -> None:
        snapshot = await self._current()
        turn = snapshot.thread.turn
        call = turn.call(call_id) if turn else None
        if turn is None or call is None or call.terminal or call.action is not None:
            return
        tool = self.chat.toolbox.get(call.tool)
        if tool is None:
            text = f"There is no tool {call.tool} any more; it was removed while the call was open."
            await log.command(FailCall(log.fence, call_id, text, running=False))
            return
        loaded = await self._load(call, turn)
        if loaded is None:
            text = "What is stored of this call is gone; it cannot be entered."
            await log.command(FailCall(log.fence, call_id, text, running=False))
            return
        started = await log.command(
            StartExecution(log.fence, call_id, max_attempts=tool.max_attempts, on_crash=tool.on_crash)
        )
        if not isinstance(started, Driven) or started.committed is None:
            return
        turn = started.snapshot.thread.turn
        entered = turn.call(call_id) if turn else None
        if turn is None or entered is None or entered.state != "running":
            return

        async def record(step: str, value: Value) -> None:
            driven = await log.command(RecordStep(log.fence, call_id, step, value))
            if not isinstance(driven, Driven) or driven.committed is None:
                raise _Moot(f"the execution of {call_id} is over")

        execution = tools.Execution(
            thread_id=self.thread,
            message_id=turn.message,
            tool_call_id=call_id,
            input=loaded.input,
            entry=loaded.entry,
            history=loaded.history,
            attempt=entered.attempt,
            identity=loaded.identity,
            deps=self.chat.deps,
            report=log.emit_nowait,
            steps=loaded.steps,
            record=record,
        )
        self.lease.trust()
        outcome = await tools.execute(tool, execution)
        match outcome:
            case tools.Output(value):
                await log.command(Return(log.fence, call_id, value))
            case tools.Failure(error_text):
                await log.command(FailCall(log.fence, call_id, error_text))
            case tools.Suspended():
                await log.command(
                    Suspend(
                        log.fence,
                        call_id,
                        outcome.wait_point,
                        outcome.input,
                        outcome.schema,
                        expires_in=outcome.expires_in_ms,
                        on_message=outcome.on_message,
                        audience=outcome.audience,
                        redact=outcome.redact,
                        kind=outcome.kind,
                        style=outcome.style,
                    )
                )
            case _:
                assert_never(outcome)

    async def _load(self, call: Call, turn: Turn) -> _Loaded | None:
        """Everything the tool will see: the original input, the answer, earlier answers, and results of steps."""
        ids = [input_id(call.id), *(step_id(call.id, step) for step in call.steps)]
        for visit in call.visits:
            ids += [question_id(visit.action), answer_id(visit.action)]
        stored = await self.lease.ask(lambda: self.store.values(self.thread, ids))
        by_id = dict(zip(ids, stored, strict=True))
        call_input = by_id[input_id(call.id)]
        kept = [*(step_id(call.id, step) for step in call.steps), *(answer_id(visit.action) for visit in call.visits)]
        if call_input is None or any(by_id[name] is None for name in kept):
            return None
        history = [_visit(visit, by_id) for visit in call.visits]
        entry: tools.InitialEntry | tools.ResumeEntry = tools.InitialEntry()
        identity = turn.by
        # Inline waits and approvals do not make an entry: the body runs from where it was last entered.
        last = next((visit for visit in reversed(call.visits) if visit.style == "entry"), None)
        if last is not None:
            entry = tools.ResumeEntry(
                name=last.wait_point, data=_json(by_id[answer_id(last.action)]), action=_action_ref(last, call, by_id)
            )
            identity = last.resolution.by
        steps = {step: _json(by_id[step_id(call.id, step)]) for step in call.steps}
        return _Loaded(json.loads(call_input), entry, history, identity, steps)


class _LeftBehind(Exception):
    """Work that ignored its cancellation wants to go on; nothing it says counts."""


def _cancelling() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _spell(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


@dataclass(frozen=True, slots=True)
class _Loaded:
    input: Value
    entry: tools.InitialEntry | tools.ResumeEntry
    history: list[tools.VisitData]
    identity: Actor | None
    steps: dict[str, Value]


class _Moot(Exception):
    """A tool reported something that does not count any more."""


def _action_ref(visit: Visit, call: Call, by_id: dict[str, bytes | None]) -> tools.ActionRef:
    return tools.ActionRef(
        id=visit.action,
        name=f"{call.tool}.{visit.wait_point}",
        input=_asked(visit.action, by_id),
        suspended_at=from_millis(visit.at),
        resumed_at=from_millis(visit.resolution.at),
        by=visit.resolution.by.wire(),
    )


def _visit(visit: Visit, by_id: dict[str, bytes | None]) -> tools.VisitData:
    answer = by_id[answer_id(visit.action)]
    return tools.VisitData(
        name=visit.wait_point,
        suspended_at=from_millis(visit.at),
        input=_asked(visit.action, by_id),
        status=visit.resolution.how,
        resolved_at=from_millis(visit.resolution.at),
        answer=_json(answer),
        reason=visit.resolution.reason,
        message=visit.resolution.message,
        action=visit.action,
        style=visit.style,
        by=visit.resolution.by.wire(),
    )


def _asked(action: str, by_id: dict[str, bytes | None]) -> Value:
    return _json(by_id[question_id(action)])


def _json(body: bytes | None) -> Value:
    return None if body is None else json.loads(body)


def _key(step: Step) -> str:
    match step:
        case CallModel(step=number):
            return f"model {number}"
        case EnterTool(call):
            return f"tool {call}"
        case ContinueRequest(action):
            return f"continue {action}"
        case ExpireAction(action):
            return f"expire {action}"
        case LapseClaim(action):
            return f"lapse {action}"
        case FinishTurn():
            return "finish"
        case _:
            assert_never(step)
