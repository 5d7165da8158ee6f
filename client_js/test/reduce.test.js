import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { apply, emptyState, fold, openMessage, waitingFor } from "../reduce.js";

const AT = "2026-12-01T08:00:00.000Z";
const vectors = JSON.parse(readFileSync(new URL("../../protocol/vectors/fold.json", import.meta.url), "utf8"));

/** Freeze all the way down, so that a fold that writes into what it was given throws. */
function frozen(value) {
  if (typeof value === "object" && value !== null) Object.values(Object.freeze(value)).forEach(frozen);
  return value;
}

const started = () => fold(emptyState("t"), [{ type: "message-start", messageId: "m1", at: AT }]);
const action = (id, toolCallId = "c1") => ({
  id,
  name: "ask.answer",
  input: { q: id },
  schema: {},
  origin: { toolName: "ask", suspendName: "answer", messageId: "m1", toolCallId },
  at: AT,
});
const asked = () =>
  fold(started(), [
    { type: "tool-input-available", toolCallId: "c1", toolName: "ask", step: 1, input: { a: 1 } },
    { type: "tool-running", toolCallId: "c1", attempt: 1 },
    { type: "action-pending", action: action("a1") },
  ]);

for (const { name, start, events, state, thread } of vectors) {
  const before = () => frozen(structuredClone(start ?? emptyState(state.thread ?? thread)));
  test(`vector: ${name}`, () => {
    assert.deepEqual(fold(before(), frozen(structuredClone(events))), state);
  });
  test(`vector, one event at a time: ${name}`, () => {
    const states = events.reduce((all, event) => [...all, frozen(apply(all[all.length - 1], frozen(event)))], [before()]);
    assert.deepEqual(states[states.length - 1], state);
  });
}

test("there are vectors to hold the fold to", () => {
  assert.ok(vectors.length >= 10, `only ${vectors.length} fold vectors`);
  const seen = new Set(vectors.flatMap(({ events }) => events.map(({ type }) => type)));
  for (const type of ["text-delta", "action-pending", "action-resolved", "step-reset", "message-finish", "data"]) {
    assert.ok(seen.has(type), `no vector has ${type}`);
  }
});

test("an event of an unknown type changes nothing, not even identity", () => {
  const state = frozen(asked());
  assert.equal(apply(state, { type: "tool-sang", toolCallId: "c1" }), state);
});

test("an event that does not fit changes nothing, not even identity", () => {
  const state = frozen(asked());
  const misfits = [
    { type: "text-delta", id: "nope", delta: "x" },
    { type: "message-start", messageId: "m2", at: AT },
    { type: "message-finish", messageId: "m2", reason: "stop" },
    { type: "tool-running", toolCallId: "nope", attempt: 1 },
    { type: "tool-input-start", toolCallId: "c1", toolName: "ask", step: 1 },
    { type: "tool-input-delta", toolCallId: "c1", inputTextDelta: "x" },
    { type: "tool-input-available", toolCallId: "c1", toolName: "ask", step: 1, input: {} },
    { type: "action-claimed", action: "nope" },
    { type: "action-resolved", action: "nope", toolCallId: "nope", resolution: { how: "expired", by: { id: "s", kind: "system" }, at: AT } },
    { type: "step-reset", step: 7 },
    { type: "step-finish", step: 1, reason: "stop" },
    { type: "thread-updated" },
  ];
  for (const event of misfits) assert.equal(apply(state, event), state, event.type);
});

test("what an event does not touch keeps its identity", () => {
  const user = { id: "u1", role: "user", parts: [{ type: "text", text: "hi", state: "done" }], status: "final", at: AT };
  const before = fold(emptyState("t"), [
    { type: "message-added", message: user },
    { type: "message-start", messageId: "m1", at: AT },
    { type: "tool-input-available", toolCallId: "c1", toolName: "ask", step: 1, input: {} },
    { type: "text-start", id: "x", step: 1 },
  ]);
  const after = fold(frozen(before), [{ type: "text-delta", id: "x", delta: "a" }, { type: "text-delta", id: "x", delta: "b" }]);
  assert.notEqual(after, before);
  assert.equal(after.messages[0], before.messages[0]);
  assert.equal(after.pending, before.pending);
  assert.equal(after.messages[1].parts[0], before.messages[1].parts[0]);
  assert.notEqual(after.messages[1].parts[1], before.messages[1].parts[1]);
  assert.equal(after.messages[1].parts[1].text, "ab");
});

test("a batch of deltas copies the list of messages once", () => {
  const state = fold(started(), [{ type: "text-start", id: "x", step: 1 }]);
  let copies = 0;
  const counted = (list) => Object.assign([...list], { slice() { copies += 1; return counted(this); } });
  const messages = counted(state.messages);
  const deltas = Array.from({ length: 32 }, () => ({ type: "text-delta", id: "x", delta: "a" }));
  assert.equal(openMessage(fold({ ...state, messages }, deltas)).parts[0].text, "a".repeat(32));
  assert.equal(copies, 1);
});

test("a claim does not write into the event that announced the action", () => {
  const event = frozen({ type: "action-pending", action: action("a1") });
  const base = fold(started(), [{ type: "tool-input-available", toolCallId: "c1", toolName: "ask", step: 1, input: {} }]);
  const claim = { by: { id: "ann", kind: "person" }, connection: "w1" };
  const claimed = fold(base, [event, { type: "action-claimed", action: "a1", claim }]);
  assert.deepEqual(claimed.pending[0].claim, claim);
  assert.equal("claim" in fold(claimed, [{ type: "action-claimed", action: "a1" }]).pending[0], false);
});

test("a resolution leaves the other actions pending and is remembered by the tool part", () => {
  const two = fold(asked(), [{ type: "action-pending", action: action("a2") }]);
  const resolution = { how: "submitted", by: { id: "ann", kind: "person" }, at: AT, data: null };
  const after = apply(frozen(two), { type: "action-resolved", action: "a1", toolCallId: "c1", resolution });
  assert.deepEqual(after.pending.map(({ id }) => id), ["a2"]);
  assert.deepEqual(openMessage(after).parts[0].actions.map((visit) => visit.resolution), [resolution, undefined]);
});

test("waitingFor counts the calls of the open message that have no result", () => {
  const state = asked();
  assert.equal(waitingFor(state), 1);
  const done = apply(state, { type: "tool-output-available", toolCallId: "c1", output: 0 });
  assert.equal(waitingFor(done), 0);
  assert.equal(waitingFor(emptyState("t")), 0);
});
