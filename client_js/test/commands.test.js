import assert from "node:assert/strict";
import { test } from "node:test";

import { LIMITS, Machine, welcome } from "./machine.js";

const connected = () => new Machine().follow("t");
const reject = (id, code, more = {}) => ({ type: "reject", id, code, message: code, ...more });
const ids = (frames) => frames.map(({ id }) => id);

test("a command goes out with type and id first", () => {
  const machine = connected();
  const [effect] = machine.submit("k1", { audience: "team" }).filter(({ type }) => type === "send");
  assert.ok(effect.text.startsWith('{"type":"submit","id":"k1",'));
  assert.deepEqual(machine.take(), [{ type: "submit", id: "k1", thread: "t", action: "a1", data: { audience: "team" } }]);
});

test("a command alone is reason enough to connect", () => {
  const machine = new Machine();
  machine.say("k1");
  machine.connect();
  assert.deepEqual(ids(machine.take("message")), ["k1"]);
  machine.receive({ type: "ack", id: "k1" });
  machine.closed(1006);
  machine.pass(60_000);
  assert.equal(machine.standing.status, "idle");
  assert.equal(machine.opens, 1);
});

test("case 71: a command asked for while reconnecting and while the token changes is sent once connected and settles once", () => {
  const machine = connected();
  machine.closed(4002);
  machine.submit("k1");
  machine.pass(1_000);
  machine.submit("k2");
  machine.token("new");
  machine.submit("k3");
  machine.opened();
  machine.submit("k4");
  assert.deepEqual(ids(machine.take("submit")), []);
  machine.receive(welcome());
  assert.deepEqual(ids(machine.take("submit")), ["k1", "k2", "k3", "k4"]);
  for (const id of ["k1", "k2", "k3", "k4"]) machine.receive({ type: "ack", id });
  assert.deepEqual([...machine.settled.keys()], ["k1", "k2", "k3", "k4"]);
});

test("an unanswered command is sent again after a reconnect, as the same frame", () => {
  const machine = connected();
  const data = { list: [1] };
  machine.submit("k1", data);
  const [first] = machine.take("submit");
  data.list.push(2); // the page goes on using its object
  machine.closed(1006);
  machine.connect();
  assert.deepEqual(machine.take("submit"), [first]);
  machine.receive({ type: "ack", id: "k1", dup: true });
  machine.receive({ type: "ack", id: "k1", dup: true }, reject("k1", "already-resolved"));
  assert.equal(machine.settled.get("k1").dup, true);
  machine.closed(1006);
  machine.connect();
  assert.deepEqual(machine.take("submit"), []);
});

test("a command that stays unanswered on a living connection is asked again under the same id", () => {
  const machine = connected();
  machine.submit("k1");
  machine.take();
  for (let second = 0; second < 35; second++) {
    machine.pass(1_000);
    machine.receive({ type: "ping" });
  }
  assert.deepEqual(ids(machine.take("submit")), ["k1", "k1"]);
  assert.equal(machine.opens, 1);
});

for (const code of ["invalid", "already-resolved", "expired", "unknown-action", "not-found", "forbidden", "waiting", "id-conflict", "too-large", "tool-unavailable", "bad-frame"]) {
  test(`reject ${code} settles the command with what the server said`, () => {
    const machine = connected();
    machine.submit("k1");
    machine.take();
    const winner = { how: "submitted", by: { id: "bob", kind: "person" }, at: "2026-12-01T08:00:00.000Z" };
    const errors = [{ path: ["deadline"], message: "not a date", code: "format" }];
    machine.receive(reject("k1", code, { winner, errors }));
    const error = machine.settled.get("k1");
    assert.deepEqual([error.name, error.code, error.errors, error.winner], ["WaitpointError", code, errors, winner]);
    machine.closed();
    machine.connect();
    assert.deepEqual(machine.take("submit"), []);
  });
}

for (const code of ["unavailable", "busy", "rate-limited"]) {
  test(`reject ${code} is tried again under the same id, not before retryMs, and not for ever`, () => {
    const machine = connected();
    machine.submit("k1");
    let tries = 0;
    for (; !machine.settled.has("k1"); tries++) {
      assert.ok(tries < 50);
      assert.deepEqual(ids(machine.take("submit")), ["k1"]);
      machine.receive(reject("k1", code, { retryMs: 2_000 }));
      machine.pass(1_999);
      assert.deepEqual(machine.take("submit"), []);
      for (let second = 0; second < 20 && !machine.settled.has("k1") && machine.sent.length === 0; second++) {
        machine.receive({ type: "ping" });
        machine.take();
        machine.pass(1_000);
      }
    }
    assert.equal(machine.settled.get("k1").code, code);
    assert.ok(tries >= 5 && tries <= 12, `${tries} tries`);
  });
}

test("a full outbox against a rate limit is neither a flood nor a failure", () => {
  const machine = connected();
  for (let index = 0; index < 600; index++) machine.submit(`k${index}`);
  let tokens = 100; // the server's bucket: 100 at once, 50 per second
  let refused = 0;
  for (let second = 0; machine.session.commands.outbox.size > 0; second++) {
    assert.ok(second < 60, `${machine.session.commands.outbox.size} commands left after a minute`);
    for (let frames = machine.take("submit"); frames.length > 0; frames = machine.take("submit")) {
      for (const { id } of frames) {
        if (tokens-- > 0) machine.receive({ type: "ack", id });
        else machine.receive(reject(id, "rate-limited", { retryMs: 20 })), (refused += 1);
      }
    }
    machine.receive({ type: "ping" });
    machine.pass(1_000);
    tokens = Math.min(100, Math.max(0, tokens) + 50);
  }
  assert.ok([...machine.settled.values()].every(({ type }) => type === "ack"));
  assert.ok(refused <= 250, `${refused} frames over the limit`); // without a pause it is twice that
});

test("messages of one thread stay in order when one is put off; answers and other threads go on", () => {
  const machine = connected();
  machine.say("m1");
  machine.say("m2");
  machine.submit("k1");
  machine.say("o1", "other");
  assert.deepEqual(ids(machine.take()), ["m1", "k1", "o1"]);
  machine.receive(reject("m1", "busy", { retryMs: 500 }));
  assert.deepEqual(machine.take(), []);
  machine.pass(800);
  assert.deepEqual(ids(machine.take()), ["m1"]);
  machine.receive({ type: "ack", id: "m1" });
  assert.deepEqual(ids(machine.take()), ["m2"]);
});

test("no more commands are in flight than the server takes; the rest follow as answers come", () => {
  const machine = connected();
  for (let index = 0; index < 100; index++) machine.submit(`k${index}`);
  const seen = new Set();
  for (let round = 0; machine.session.commands.outbox.size > 0; round++) {
    assert.ok(round < 20);
    const sent = machine.take("submit");
    assert.ok(sent.length > 0 && sent.length <= 32);
    for (const { id } of sent) {
      assert.equal(seen.has(id), false, "sent twice");
      seen.add(id);
      machine.receive({ type: "ack", id });
    }
  }
  assert.equal(seen.size, 100);
});

test("a full outbox refuses by name and keeps what it has", () => {
  const machine = new Machine();
  for (let index = 0; index < 1_001; index++) machine.submit(`k${index}`);
  assert.equal(machine.settled.get("k1000").code, "busy");
  assert.equal(machine.settled.size, 1);
  const bytes = new Machine();
  for (let index = 0; index < 20; index++) bytes.submit(`k${index}`, "x".repeat(1_000_000));
  const refused = bytes.settled.size;
  assert.ok(refused >= 3 && refused <= 5);
  bytes.connect({ limits: { ...LIMITS, frameBytes: 4_000_000 } });
  for (let index = 0; index < 15; index++) bytes.receive({ type: "ack", id: `k${index}` });
  for (let index = 20; index < 35; index++) bytes.submit(`k${index}`, "x".repeat(1_000_000));
  assert.equal(bytes.settled.size, refused + 15, "room is given back with each answer");
});

test("case 97: an answer over the limit is refused here by name, and the rest of the outbox goes on", () => {
  const machine = connected();
  machine.submit("big", "x".repeat(300_000));
  machine.submit("small");
  assert.equal(machine.settled.get("big").code, "too-large");
  assert.deepEqual(ids(machine.take("submit")), ["small"]);
});

test("the limit counts UTF-8 bytes", () => {
  const frame = (text) => ({ type: "submit", id: "k", thread: "t", action: "a1", data: text });
  const room = LIMITS.frameBytes - new TextEncoder().encode(JSON.stringify(frame(""))).length;
  const fits = connected();
  fits.submit("k", "😀".repeat(Math.floor(room / 4)));
  assert.equal(fits.settled.size, 0);
  const over = connected();
  over.submit("k", "😀".repeat(Math.floor(room / 4) + 1));
  assert.equal(over.settled.get("k").code, "too-large");
});

test("an answer asked for before the limit was known is dropped at the welcome that names it", () => {
  const machine = new Machine();
  machine.submit("big", "x".repeat(300_000));
  machine.submit("small");
  machine.connect();
  assert.equal(machine.settled.get("big").code, "too-large");
  assert.deepEqual(ids(machine.take("submit")), ["small"]);
});

test("close 1009 drops the largest unanswered command, never re-sends it, and re-sends the others", () => {
  const machine = connected();
  machine.submit("small");
  machine.submit("big", "x".repeat(200_000));
  machine.take();
  machine.closed(1009);
  assert.equal(machine.settled.get("big").code, "too-large");
  machine.connect();
  assert.deepEqual(ids(machine.take("submit")), ["small"]);
});

test("close 1009 is never about a command that was not sent", () => {
  const machine = connected();
  machine.say("m1");
  machine.command({ type: "message", id: "m2", thread: "t", parts: [{ type: "text", text: "x".repeat(1_000) }] });
  machine.closed(1009);
  assert.deepEqual([...machine.settled.keys()], ["m1"]);
});

test("too-large without an id is about the largest unanswered command", () => {
  const machine = connected();
  machine.submit("small");
  machine.submit("big", "x".repeat(200_000));
  machine.receive({ type: "reject", code: "too-large", message: "message of 200080 bytes" });
  assert.equal(machine.settled.get("big").code, "too-large");
  assert.equal(machine.settled.size, 1);
});

test("a value outside the data model is refused here, with the path in the payload, and nothing is sent", () => {
  const machine = connected();
  machine.submit("k1", { list: [1, { when: new Date(0) }] });
  const error = machine.settled.get("k1");
  assert.equal(error.code, "invalid");
  assert.deepEqual(error.errors.map(({ path, code }) => [path, code]), [[["list", 1, "when"], "unsupported-type"]]);
  assert.deepEqual(machine.take(), []);
  machine.command({ type: "submit", id: "k2", thread: "t", action: "a1", data: undefined });
  assert.equal(machine.settled.get("k2").code, "invalid");
  machine.submit("k3", { get a() { throw new Error("mine"); } });
  assert.match(machine.settled.get("k3").message, /mine/);
});

test("a client told not to come back rejects what waits, and what is asked afterwards", () => {
  const machine = connected();
  machine.submit("k1");
  machine.closed(4501, "token revoked");
  assert.deepEqual([machine.standing.status, machine.standing.code], ["closed", 4501]);
  assert.match(machine.standing.reason, /not authenticated: token revoked/);
  machine.submit("k2");
  for (const id of ["k1", "k2"]) {
    assert.equal(machine.settled.get(id).code, "closed");
    assert.match(machine.settled.get(id).message, /token revoked/);
  }
  machine.pass(1_000_000);
  assert.equal(machine.opens, 1);
});

test("closing the client rejects what waits, closes the socket, and is final", () => {
  const machine = connected();
  machine.submit("k1");
  machine.step({ type: "close" });
  machine.step({ type: "close" });
  assert.equal(machine.settled.get("k1").code, "closed");
  assert.deepEqual(machine.closes.map(({ code }) => code), [1000]);
  machine.step({ type: "reopen" });
  machine.subscribe("u");
  machine.pass(100_000);
  assert.equal(machine.opens, 1);
});
