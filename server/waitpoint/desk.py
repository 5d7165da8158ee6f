"""The counter: takes commands for a thread, decides on its control state, commits, answers.

One mailbox per thread and instance puts commands in a row; other instances have their own, and the store's revision
guard makes one of them win. Knows the rules (``thread``) and the store. Does not know who asked: identities arrive as
actors, connections as opaque names. Every lost reply is an unknown outcome and is resolved by asking again.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import secrets
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, assert_never

from waitpoint_protocol import events as wire_events
from waitpoint_protocol import frames

from .store.types import (
    Commit,
    Committed,
    Conflict,
    Due,
    Fenced,
    Head,
    Known,
    Store,
    StoreUnavailable,
    UnknownOutcome,
)
from .thread import (
    Accepted,
    Action,
    Actor,
    CancelAction,
    ClaimAction,
    Context,
    Decision,
    DriverCommand,
    FailAction,
    Moot,
    OpenRequest,
    Past,
    PersonCommand,
    Refused,
    ReleaseAction,
    RenewClaim,
    Rules,
    SendMessage,
    Settle,
    Stop,
    Submit,
    Thread,
    appointment,
    decide,
    dump,
    load,
    project,
)
from .thread import facts as f
from .thread.decide import outcome_key
from .thread.evolve import evolve_all
from .thread.model import dump_outcome, dump_resolution, load_outcome, load_resolution
from .thread.project import drops, live_view, values, wire_resolution
from .thread.snapshot import checkpoint
from .turns import Turns

__all__ = ["Desk", "Driven", "Lost", "RandomIds", "Snapshot", "Stale", "dump_value", "new_tag", "persist"]

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

MAX_BATCH = 64
"""Commands of one thread decided together and written in one commit."""

RETRY_DELAYS = (0.01, 0.05, 0.2, 0.5, 1.0)
"""Seconds between attempts to learn what became of a write whose reply was lost."""

REPLY_TIMEOUT = 5.0
"""Seconds after which a person is told ``unavailable``; a repeat under the same id finds out what happened."""

CACHED_THREADS = 4096


class Identity(Protocol):
    """Who somebody is."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str | None: ...


class RandomIds:
    """Ids that nobody can guess: 80 random bits in base 32, with a one-letter prefix for people who read logs."""

    def new(self, kind: str) -> str:
        return f"{kind}_{base64.b32encode(secrets.token_bytes(10)).decode().lower()}"


def new_tag() -> str:
    """A random mark for one stored batch (48 bits)."""
    return secrets.token_urlsafe(6)


def dump_value(value: Any) -> bytes:
    """Encode a value for the store."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The control state as of a head."""

    thread: Thread
    head: Head


@dataclass(frozen=True, slots=True)
class Driven:
    """A driver's command was decided; ``committed`` is ``None`` when nothing was to be written."""

    decision: Accepted | Moot
    snapshot: Snapshot
    committed: Committed | None = None
    events: tuple[wire_events.Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Stale:
    """The thread moved while the driver prepared a write that depends on its exact position; look again."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Lost:
    """The lease is gone. Nothing this driver writes will be accepted."""


@dataclass(slots=True)
class _Envelope:
    command: PersonCommand
    done: asyncio.Future[frames.Ack | frames.Reject]
    past: Past = field(default_factory=Past)
    looked_up: bool = False
    tried: bool = False


@dataclass(slots=True)
class _DriverEnvelope:
    command: DriverCommand
    fence: int
    batch: int
    tag: str
    view_checkpoint: Callable[[Sequence[wire_events.Event]], bytes] | None
    base: tuple[int, str] | None
    alive: Callable[[], bool]
    done: asyncio.Future[Driven | Stale | Lost]


class _Mailbox:
    __slots__ = ("queue", "worker")

    def __init__(self) -> None:
        self.queue: deque[_Envelope | _DriverEnvelope] = deque()
        self.worker: asyncio.Task[None] | None = None


class Desk:
    """Takes commands for threads.

    ``check_answer`` judges an answer against an action's schema. ``may_answer`` is asked before a person's command
    touches an action. ``on_commit`` is told of every thread in which a person's command took effect.
    """

    def __init__(
        self,
        store: Store,
        *,
        check_answer: Callable[[Action, Any], Sequence[frames.FieldError]],
        may_answer: Callable[[Any, str, Action], Awaitable[bool]],
        rules: Rules | None = None,
        on_commit: Callable[[str], None] = lambda thread: None,
    ) -> None:
        self._store = store
        self._check_answer = check_answer
        self._may_answer = may_answer
        self._rules = rules or Rules()
        self._ids = RandomIds()
        self._mailboxes: dict[str, _Mailbox] = {}
        self._cache: OrderedDict[str, Snapshot] = OrderedDict()
        self._turns = Turns()
        self.on_commit = on_commit

    # --- people

    async def handle(
        self, thread: str, frame: frames.Command, identity: Any, connection: str
    ) -> frames.Ack | frames.Reject:
        """Decide and commit a person's command; the reply is definite.

        ``identity`` has ``id`` and ``name``. Never raises for anything that a peer or the store did.
        """
        actor = Actor(identity.id, name=identity.name)
        try:
            command = _to_command(frame, actor, connection)
            # One behind the other: a hook that takes long over an answer must not let the message after it go first.
            async with self._turns.of((connection, thread)):
                if not isinstance(command, (SendMessage, Stop, RenewClaim, OpenRequest)) and not await self._allowed(
                    thread, command, identity
                ):
                    return frames.Reject(
                        id=frame.id, thread=thread, code="forbidden", message="you may not answer this action"
                    )
                asked = self._hand_in(thread, command)
            return await self._reply_to(asked)
        except (StoreUnavailable, UnknownOutcome, TimeoutError) as error:
            return _unavailable(frame.id, thread, error)

    async def apply(self, thread: str, frame: frames.Command, actor: Actor) -> frames.Ack | frames.Reject:
        """Decide and commit a command of the application itself: no hook is asked. Otherwise as :meth:`handle`."""
        return await self._ask_definitely(thread, _to_command(frame, actor, ""))

    async def open_request(self, thread: str, request: OpenRequest) -> frames.Ack | frames.Reject:
        """Open a request of the application; the ack names the action. Never raises for what the store did."""
        return await self._ask_definitely(thread, request)

    async def renew_claim(self, thread: str, action: str, by: Identity, connection: str) -> bool:
        """Keep a connection's claim from lapsing. False: it does not hold the action any more.

        Raises ``StoreUnavailable``, ``UnknownOutcome`` or ``TimeoutError``; then the claim may or may not live longer.
        """
        actor = Actor(by.id, name=by.name)
        reply = await self._ask(thread, RenewClaim(self._ids.new("c"), actor, action, connection))
        return isinstance(reply, frames.Ack)

    async def release_claim(self, thread: str, action: str, by: Identity, connection: str) -> None:
        """Give an action back for a connection that is gone; no hook is asked. Raises as :meth:`renew_claim`."""
        actor = Actor(by.id, name=by.name)
        await self._ask(thread, ReleaseAction(self._ids.new("c"), actor, action, connection))

    async def _ask(self, thread: str, command: PersonCommand) -> frames.Ack | frames.Reject:
        return await self._reply_to(self._hand_in(thread, command))

    async def _ask_definitely(self, thread: str, command: PersonCommand) -> frames.Ack | frames.Reject:
        try:
            return await self._ask(thread, command)
        except (StoreUnavailable, UnknownOutcome, TimeoutError) as error:
            return _unavailable(command.id, thread, error)

    def _hand_in(self, thread: str, command: PersonCommand) -> asyncio.Future[frames.Ack | frames.Reject]:
        done: asyncio.Future[frames.Ack | frames.Reject] = asyncio.get_running_loop().create_future()
        self._post(thread, _Envelope(command, done))
        return done

    async def _reply_to(self, done: asyncio.Future[frames.Ack | frames.Reject]) -> frames.Ack | frames.Reject:
        async with asyncio.timeout(REPLY_TIMEOUT):
            return await done

    async def _allowed(
        self,
        thread: str,
        command: Submit | CancelAction | FailAction | ClaimAction | ReleaseAction,
        identity: Any,
    ) -> bool:
        snapshot = self._cache.get(thread)
        action = snapshot.thread.action(command.action) if snapshot else None
        if action is None:
            action = (await self.refresh(thread)).thread.action(command.action)
        # An action that is not pending is decided without the hook: the reply says only what any reader may know.
        return action is None or await self._may_answer(identity, thread, action)

    # --- the driver

    async def drive(
        self,
        thread: str,
        command: DriverCommand,
        *,
        fence: int,
        batch: int,
        tag: str,
        alive: Callable[[], bool],
        view_checkpoint: Callable[[Sequence[wire_events.Event]], bytes] | None = None,
        base: tuple[int, str] | None = None,
    ) -> Driven | Stale | Lost:
        """Decide and commit a driver's command under its fence; ``tag`` marks the batch that is written.

        ``view_checkpoint`` turns the events of this commit into a checkpoint of the driver's fold; it is only asked
        while the thread's revision and its mark are ``base``, else the answer is :class:`Stale`. While the store is out
        of reach the write is repeated for as long as ``alive()`` says the lease may still hold; then the answer is
        :class:`Lost`.
        """
        done: asyncio.Future[Driven | Stale | Lost] = asyncio.get_running_loop().create_future()
        self._post(thread, _DriverEnvelope(command, fence, batch, tag, view_checkpoint, base, alive, done))
        return await done

    async def refresh(self, thread: str) -> Snapshot:
        """Read the control state anew. Raises ``StoreUnavailable``."""
        return self._remember(thread, await self._store.head(thread))

    async def current(self, thread: str) -> Snapshot:
        """The control state as last seen here; read if it was not. Raises ``StoreUnavailable``."""
        return self._cache.get(thread) or await self.refresh(thread)

    def observe(self, thread: str, head: Head) -> Snapshot:
        """Take over a head that somebody just read."""
        return self._remember(thread, head)

    def forget(self, thread: str) -> None:
        """Drop what is cached of a thread."""
        self._cache.pop(thread, None)

    # --- the mailbox

    def _post(self, thread: str, envelope: _Envelope | _DriverEnvelope) -> None:
        mailbox = self._mailboxes.setdefault(thread, _Mailbox())
        mailbox.queue.append(envelope)
        if mailbox.worker is None:
            # The worker belongs to the mailbox, not to the caller: a cancelled caller must not cut a commit short.
            mailbox.worker = asyncio.create_task(self._work(thread, mailbox), name=f"desk {thread}")

    async def _work(self, thread: str, mailbox: _Mailbox) -> None:
        try:
            while mailbox.queue:
                first = mailbox.queue.popleft()
                if isinstance(first, _DriverEnvelope):
                    await self._guarded([first], self._serve_driver(thread, first))
                    continue
                batch = [first]
                while mailbox.queue and len(batch) < MAX_BATCH and isinstance(mailbox.queue[0], _Envelope):
                    following = mailbox.queue.popleft()
                    assert isinstance(following, _Envelope)
                    batch.append(following)
                await self._guarded(batch, self._serve(thread, batch))
        finally:
            mailbox.worker = None
            if not mailbox.queue:
                self._mailboxes.pop(thread, None)

    async def _guarded(self, batch: Sequence[_Envelope | _DriverEnvelope], work: Awaitable[None]) -> None:
        try:
            await work
        except Exception as error:
            if not isinstance(error, (StoreUnavailable, UnknownOutcome)):
                logger.exception("a command could not be decided")
            for envelope in batch:
                if not envelope.done.done():
                    envelope.done.set_exception(error)

    async def _serve(self, thread: str, batch: list[_Envelope]) -> None:
        snapshot = self._cache.get(thread)
        fresh = snapshot is None
        if snapshot is None:
            snapshot = await self.refresh(thread)
        unknown = 0
        while True:
            working, facts, decisions = self._decide_all(snapshot, batch)
            if not fresh and any(not isinstance(d, Accepted) or not d.facts for d in decisions):
                # A refusal writes nothing, so no guard would catch a decision on an outdated state: look first.
                snapshot, fresh = await self.refresh(thread), True
                continue
            if await self._look_up(thread, batch, decisions):
                continue
            if not facts:
                break
            commit = self._commit(thread, snapshot, working, facts, project(facts))
            try:
                result = await self._store.commit(commit)
            except UnknownOutcome:
                if unknown >= len(RETRY_DELAYS):
                    raise
                for envelope in batch:
                    envelope.tried = True
                    # It may have been written after all, and with it what was not in the outcome table before.
                    envelope.looked_up = False
                await asyncio.sleep(RETRY_DELAYS[unknown])
                unknown += 1
                snapshot, fresh = await self._refresh_persistently(thread), True
                continue
            match result:
                case Committed():
                    self._learn(thread, snapshot, working, commit, result)
                    break
                case Conflict(head):
                    snapshot, fresh = self._take(thread, head), True
                    for envelope in batch:
                        envelope.looked_up = False
                case Known(name):
                    await self._look_up_known(thread, batch, name)
                case Fenced():
                    raise AssertionError("a person's commit carries no fence")
                case _:
                    assert_never(result)
        for envelope, decision in zip(batch, decisions, strict=True):
            _settle(envelope.done, _reply(thread, envelope, decision))
        # After a lost reply the facts may be in the store already, and whoever had written them did not say so.
        if any(envelope.tried for envelope in batch) or any(not isinstance(fact, f.ClaimRenewed) for fact in facts):
            self.on_commit(thread)

    async def _refresh_persistently(self, thread: str) -> Snapshot:
        for delay in RETRY_DELAYS:
            try:
                return await self.refresh(thread)
            except StoreUnavailable:
                await asyncio.sleep(delay)
        return await self.refresh(thread)

    def _decide_all(
        self, snapshot: Snapshot, batch: Iterable[_Envelope]
    ) -> tuple[Thread, list[f.Fact], list[Decision]]:
        working = snapshot.thread
        facts: list[f.Fact] = []
        decisions: list[Decision] = []
        for envelope in batch:
            decision = decide(working, envelope.command, self._context(_with_facts(envelope, facts)))
            if isinstance(decision, Accepted):
                working = evolve_all(working, decision.facts)
                facts.extend(decision.facts)
            decisions.append(decision)
        return working, facts, decisions

    async def _look_up(self, thread: str, batch: Sequence[_Envelope], decisions: Sequence[Decision]) -> bool:
        """Ask the outcome table about actions the control state does not know. True: decide again."""
        again = False
        for envelope, decision in zip(batch, decisions, strict=True):
            if envelope.looked_up or not isinstance(decision, Refused):
                continue
            # Of a repeat: what was accepted then may be refused now, and must get its first reply all the same.
            if decision.code in ("unknown-action", "already-resolved", "expired", "waiting", "busy"):
                await self._look_up_one(thread, envelope)
                again = again or envelope.past != Past()
        return again

    async def _look_up_one(self, thread: str, envelope: _Envelope) -> None:
        command = envelope.command
        envelope.looked_up = True
        found = await self._store.outcomes(thread, _outcome_names(command))
        envelope.past = Past(
            outcome=load_outcome(found[0]) if found[0] else None,
            resolution=load_resolution(found[1]) if len(found) > 1 and found[1] else None,
        )

    async def _look_up_known(self, thread: str, batch: Sequence[_Envelope], name: str) -> None:
        for envelope in batch:
            if name in _outcome_names(envelope.command):
                await self._look_up_one(thread, envelope)

    def _context(self, past: Past | None = None) -> Context:
        return Context(
            now=self._store.now(),
            ids=self._ids,
            check_answer=self._check_answer,
            rules=self._rules,
            past=past or Past(),
        )

    async def _serve_driver(self, thread: str, envelope: _DriverEnvelope) -> None:
        snapshot = self._cache.get(thread)
        fresh = snapshot is None
        while True:
            if snapshot is None:
                snapshot = await persist(lambda: self.refresh(thread), envelope.alive)
                if snapshot is None:
                    _settle(envelope.done, Lost())
                    return
            stale = envelope.base is not None and (snapshot.head.rev, snapshot.head.mark) != envelope.base
            decision = decide(snapshot.thread, envelope.command, self._context())
            if isinstance(decision, Refused):
                raise AssertionError(f"a driver's command was refused: {decision}")
            if stale or isinstance(decision, Moot) or not decision.facts:
                if not fresh:
                    snapshot, fresh = None, True
                    continue
                _settle(envelope.done, Stale(snapshot) if stale else Driven(decision, snapshot))
                return
            working = evolve_all(snapshot.thread, decision.facts)
            events = project(decision.facts)
            commit = self._commit(thread, snapshot, working, decision.facts, events, envelope)
            # Repeating a batch number under the same fence is harmless, so a lost reply is simply asked for again.
            result = await persist(lambda commit=commit: self._store.commit(commit), envelope.alive)  # type: ignore[misc]
            match result:
                case Committed():
                    learnt = self._learn(thread, snapshot, working, commit, result)
                    _settle(envelope.done, Driven(decision, learnt, result, tuple(events)))
                    return
                case Conflict(head):
                    snapshot, fresh = self._take(thread, head), True
                case Fenced() | None:
                    self.forget(thread)
                    _settle(envelope.done, Lost())
                    return
                case Known(name):
                    raise AssertionError(f"a driver writes an outcome twice: {name}")
                case _:
                    assert_never(result)

    # --- facts to commits

    def _commit(
        self,
        thread: str,
        snapshot: Snapshot,
        after: Thread,
        facts: Sequence[f.Fact],
        events: list[wire_events.Event],
        envelope: _DriverEnvelope | None = None,
    ) -> Commit:
        head = snapshot.head
        outcomes: dict[str, bytes] = {}
        pending: dict[str, bytes | None] = {}
        messages: list[bytes] = []
        for fact in facts:
            match fact:
                case f.CommandAccepted(outcome):
                    outcomes[f"c:{outcome.key}"] = dump_outcome(outcome)
                case f.ActionSuspended(action) | f.RequestOpened(action=action):
                    pending[action.id] = dump_value(
                        {"thread": thread, "action": action.id, "name": action.name, "at": action.at}
                    )
                case f.ActionResolved(action=action_id, resolution=resolution):
                    outcomes[f"a:{action_id}"] = dump_resolution(resolution)
                    pending[action_id] = None
                case f.MessageAdded(message) | f.TurnClosed(message):
                    messages.append(dump_value(message))
                case _:
                    pass
        checkpointed: bytes | None = None
        if any(isinstance(fact, (f.TurnOpened, f.TurnClosed)) for fact in facts):
            checkpointed = checkpoint(live_view(after))
        elif envelope is not None and envelope.view_checkpoint is not None:
            checkpointed = envelope.view_checkpoint(events)
        return Commit(
            thread=thread,
            log=head.log,
            new_log="" if head.log else new_tag() + new_tag(),
            tag=envelope.tag if envelope else new_tag(),
            rev=head.rev,
            mark=head.mark,
            fence=envelope.fence if envelope else None,
            batch=envelope.batch if envelope else 0,
            count=len(events),
            body=wire_events.encode_events(events) if events else b"",
            control=dump(after),
            outcomes=outcomes,
            puts={name: dump_value(value) for name, value in values(facts).items()},
            drops=drops(snapshot.thread, facts),
            messages=messages,
            checkpoint=checkpointed,
            due=Due(appointment(after)),
            pending=pending,
            release=envelope is not None and isinstance(envelope.command, Settle),
        )

    def _learn(self, thread: str, before: Snapshot, after: Thread, commit: Commit, result: Committed) -> Snapshot:
        old = before.head
        head = Head(
            log=result.log,
            seq=result.seq + result.count - 1 if result.count else old.seq,
            tag=result.tag if result.count else old.tag,
            rev=result.rev,
            control=b"",
            fence=old.fence,
            owner=old.owner,
            lease_until=old.lease_until,
            now=result.now,
            mark=commit.tag,
        )
        return self._keep(thread, Snapshot(after, head))

    def _remember(self, thread: str, head: Head) -> Snapshot:
        cached = self._cache.get(thread)
        if (
            cached is not None
            and cached.head.log == head.log
            and cached.head.rev > head.rev
            and cached.head.now >= head.now
        ):
            return cached  # a slower read must not undo what a commit has taught
        # A head that is younger and yet behind: the store has lost writes, and what is there is what counts.
        return self._take(thread, head)

    def _take(self, thread: str, head: Head) -> Snapshot:
        """What the store itself says against a decision is never outweighed by what is remembered."""
        return self._keep(thread, Snapshot(load(thread, head.control), head))

    def _keep(self, thread: str, snapshot: Snapshot) -> Snapshot:
        self._cache[thread] = snapshot
        self._cache.move_to_end(thread)
        while len(self._cache) > CACHED_THREADS:
            self._cache.popitem(last=False)
        return snapshot


def _named_action(command: PersonCommand) -> str | None:
    """The action that a command is about, if it is about one that exists already."""
    return None if isinstance(command, (SendMessage, Stop, OpenRequest)) else command.action


def _outcome_names(command: PersonCommand) -> list[str]:
    """Where the outcome table would hold what became of this command and of its action, in this order."""
    action = _named_action(command)
    return [f"c:{outcome_key(command.by, command.id)}", *([] if action is None else [f"a:{action}"])]


def _with_facts(envelope: _Envelope, facts: Iterable[f.Fact]) -> Past:
    """What the outcome table says, and what it will say once the commands before this one in the row are written.

    The control state forgets an action as soon as its step is over, which may be in this very commit.
    """
    past, command = envelope.past, envelope.command
    key = outcome_key(command.by, command.id)
    named = _named_action(command)
    for fact in facts:
        match fact:
            case f.CommandAccepted(outcome) if outcome.key == key:
                past = replace(past, outcome=outcome)
            case f.ActionResolved(action=action, resolution=resolution) if action == named:
                past = replace(past, resolution=resolution)
            case _:
                pass
    return past


def _settle(done: asyncio.Future[_T], result: _T) -> None:
    if not done.done():  # the caller may have gone; the commit stands all the same
        done.set_result(result)


async def persist(call: Callable[[], Awaitable[_T]], alive: Callable[[], bool]) -> _T | None:
    """Call until the store answers, or until ``alive()`` is false (then ``None``). For idempotent calls only."""
    delay = 0.02
    while True:
        try:
            return await call()
        except (StoreUnavailable, UnknownOutcome) as error:
            if not alive():
                return None
            logger.info("the store did not answer, asking again: %s", error)
            await asyncio.sleep(delay)
            delay = min(delay * 2, 0.5)


def _to_command(frame: frames.Command, actor: Actor, connection: str) -> PersonCommand:
    match frame:
        case frames.SendMessage():
            parts = [_part(part) for part in frame.parts]
            return SendMessage(frame.id, actor, parts, size=len(dump_value(parts)))
        case frames.Submit():
            return Submit(frame.id, actor, frame.action, frame.data, connection)
        case frames.Cancel():
            return CancelAction(frame.id, actor, frame.action, frame.reason)
        case frames.Fail():
            return FailAction(frame.id, actor, frame.action, frame.error.message, connection)
        case frames.Claim():
            return ClaimAction(frame.id, actor, frame.action, connection)
        case frames.Release():
            return ReleaseAction(frame.id, actor, frame.action, connection)
        case frames.Stop():
            return Stop(frame.id, actor)
        case _:
            assert_never(frame)


def _part(part: frames.UserText | frames.UserFile | frames.UserData) -> Any:
    match part:
        case frames.UserText():
            return {"type": "text", "text": part.text, "state": "done"}
        case frames.UserFile() | frames.UserData():
            return part.model_dump()
        case _:
            assert_never(part)


def _reply(thread: str, envelope: _Envelope, decision: Decision) -> frames.Ack | frames.Reject:
    command = envelope.command
    match decision:
        case Accepted():
            # When the reply of this very commit was lost, what looks like a repeat is the first reply after all.
            dup = True if decision.dup and not envelope.tried else None
            return frames.Ack(id=command.id, thread=thread, dup=dup, **decision.reply)
        case Refused():
            return frames.Reject(
                id=command.id,
                thread=thread,
                code=decision.code,
                message=decision.message,
                errors=list(decision.errors) or None,
                winner=wire_resolution(decision.winner) if decision.winner else None,
                retry_ms=decision.retry_ms,
            )
        case Moot():
            raise AssertionError("a person's command is never moot")
        case _:
            assert_never(decision)


def _unavailable(command_id: str, thread: str, error: Exception) -> frames.Reject:
    logger.warning("thread %s: a command could not be stored: %s", thread, error)
    return frames.Reject(
        id=command_id,
        thread=thread,
        code="unavailable",
        message="the store cannot be reached; send the command again under the same id",
        retry_ms=1000,
    )
