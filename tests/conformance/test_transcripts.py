"""Every transcript of ``protocol/transcripts``, against a real server process, over both subprotocols.

What a transcript says of a thread's state is asked of the reference fold and of the JavaScript client, and both must
have the very same state.
"""

from __future__ import annotations

import secrets
from contextlib import AsyncExitStack
from typing import Any

import pytest

from conformance.conftest import Serve
from conformance.peer import Memory, Peer
from conformance.script import TRANSCRIPTS, Step, Transcript, differences, fill, load
from conformance.watcher import Watcher
from waitpoint_protocol.values import Value, same

LOADED = [load(path) for path in sorted(TRANSCRIPTS.glob("*.yaml"))]
HELD = [(transcript, subprotocol) for transcript in LOADED for subprotocol in transcript.subprotocols]

# Frames that a transcript has to mention: a reply nobody expected is as wrong as one that is missing.
ANSWERS = ("ack", "reject", "reset", "goodbye", "welcome")


class Conversation:
    """A transcript while it is held."""

    def __init__(self, transcript: Transcript, subprotocol: str, url: str, watcher: Watcher | None) -> None:
        self.transcript = transcript
        self.subprotocol = subprotocol
        self.url = url
        self.watcher = watcher
        # Some chats judge by the thread's name; a transcript may ask for one with `$ann`, `$shared` or `$read`.
        mark = f"t{secrets.token_hex(6)}"
        self.known: dict[str, Value] = {"$thread": mark, "$ann": f"ann.{mark}", "$shared": f"shared.{mark}"}
        self.known |= {"$read": f"read.{mark}", "$bob": f"bob.{mark}"}
        self.peers: dict[str, Peer] = {}
        self.memory: Memory = {}

    async def hold(self, stack: AsyncExitStack) -> None:
        for number, step in enumerate(self.transcript.steps, 1):
            try:
                await self.take(step, stack)
            except AssertionError as error:
                raise AssertionError(f"{self.transcript.name}, step {number} ({step.kind}): {error}") from None
        for name, peer in self.peers.items():
            left = [frame for frame in peer.frames if frame["type"] in ANSWERS]
            assert left == [], f"{self.transcript.name}: connection {name or 'c'} got more than was expected"

    async def take(self, step: Step, stack: AsyncExitStack) -> None:
        if step.kind == "hang-up":
            await self.peers.pop(step.peer).close()
            return
        peer = await self.peer(step, stack)
        match step.kind:
            case "send":
                await peer.send(fill(step.value, self.known))
            case "frame":
                await self.expect_frame(peer, step.value)
            case "event":
                await self.expect_event(peer, step.value)
            case "closed":
                await peer.until(lambda: "the connection is open", lambda: peer.closed is not None)
                assert peer.closed is not None
                assert peer.closed[0] == step.value, f"closed with {peer.closed}, not {step.value}"
            case "state":
                await self.expect_state(peer, step.value)
            case _:
                raise AssertionError(f"unknown step {step.kind}")

    async def peer(self, step: Step, stack: AsyncExitStack) -> Peer:
        peer = self.peers.get(step.peer)
        if peer is None:
            offer = step.value.get("offer") if isinstance(step.value, dict) and step.value.keys() == {"offer"} else None
            peer = await Peer.open(self.url, subprotocol=self.subprotocol, memory=self.memory, offer=offer)
            self.peers[step.peer] = peer
            stack.push_async_callback(peer.close)
        return peer

    async def expect_frame(self, peer: Peer, pattern: dict[str, Value]) -> None:
        """The next frame of that type (and, for a reply, with that id) must fit."""
        kinds = ("ack", "reject") if pattern["type"] in ("ack", "reject") else (pattern["type"],)
        id = pattern.get("id")
        if isinstance(id, str) and id.startswith("$") and id != "$absent":
            id = self.known[id]

        def candidate() -> dict[str, Any] | None:
            for frame in peer.frames:
                if frame["type"] not in kinds:
                    continue
                if len(kinds) == 1 or (frame.get("id") == id if id != "$absent" else "id" not in frame):
                    return frame
            return None

        def missing() -> str:
            heard = [{k: v for k, v in frame.items() if k != "state"} for frame in peer.frames[-6:]]
            return f"no frame like {pattern}; closed: {peer.closed}; last frames: {heard}"

        await peer.until(missing, lambda: candidate() is not None or peer.closed is not None)
        frame = candidate()
        assert frame is not None, missing()
        wrong = differences(pattern, frame, self.known)
        assert not wrong, f"{'; '.join(wrong)}\nin {frame}"
        peer.frames.remove(frame)

    async def expect_event(self, peer: Peer, pattern: dict[str, Value]) -> None:
        """Some event after those already passed must fit; the ones before it are passed, too."""
        closest: list[str] = []

        def look() -> bool:
            closest.clear()
            for index in range(peer.seen, len(peer.events)):
                wrong = differences(pattern, peer.events[index], self.known)
                if not wrong:
                    peer.seen = index + 1
                    return True
                if peer.events[index]["type"] == pattern["type"]:
                    closest[:] = wrong
            return False

        def missing() -> str:
            return (
                f"no event like {pattern}; closest: {closest}; since: {[e['type'] for e in peer.events[peer.seen :]]}"
            )

        await peer.until(missing, look)

    async def expect_state(self, peer: Peer, pattern: dict[str, Value]) -> None:
        """The view must come to fit, and the JavaScript client must come to have the same one."""
        thread = self.known[pattern["thread"]] if "thread" in pattern else self.main
        assert isinstance(thread, str)

        def wrong(state: Any) -> list[str]:
            return differences({**pattern, "thread": thread}, state, self.known) if state is not None else ["no state"]

        def view() -> Any:
            return peer.views[thread].state if thread in peer.views else None

        await peer.until(lambda: f"{'; '.join(wrong(view()))}\nin {view()}", lambda: not wrong(view()))
        watcher = self.watcher
        if watcher is None or thread != self.main:
            return
        await watcher.until(
            lambda: f"its state differs\nit has {watcher.seen(thread)}\nthe reference has {view()}",
            lambda: same(watcher.seen(thread)["state"], view()) and not wrong(watcher.seen(thread)["state"]),
        )

    @property
    def main(self) -> str:
        """The thread that the JavaScript client watches."""
        name = "$thread" if self.transcript.token is None else f"${self.transcript.token}"
        thread = self.known[name]
        assert isinstance(thread, str)
        return thread


@pytest.mark.system
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    ("transcript", "subprotocol"), HELD, ids=[f"{transcript.name}-{name}" for transcript, name in HELD]
)
async def test_the_server_holds_this_conversation(
    transcript: Transcript, subprotocol: str, serve: Serve, watcher: Watcher
) -> None:
    server = await serve(transcript.given)
    conversation = Conversation(transcript, subprotocol, server.url, watcher if transcript.watcher else None)
    async with AsyncExitStack() as stack:
        if transcript.watcher:
            await watcher.watch(server.url, conversation.main, transcript.token)
            stack.push_async_callback(watcher.leave, conversation.main)
        try:
            await conversation.hold(stack)
        except AssertionError as error:
            raise AssertionError(f"{error}\n--- server\n{server.output()[-3000:]}") from None


def test_there_are_transcripts() -> None:
    assert len(LOADED) >= 15
