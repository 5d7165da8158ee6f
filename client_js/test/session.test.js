import assert from "node:assert/strict";
import { test } from "node:test";

import { Machine, batch, cursor, said, snapshot, welcome } from "./machine.js";

const live = (thread, at) => ({ type: "live", thread, cursor: at });

/** Connected, and live on thread "t" at (L, 2, x). */
const following = () => new Machine().follow("t", "m1", "m2");

// --- the way up

test("nothing is opened until something is wanted", () => {
  const machine = new Machine();
  machine.step({ type: "awake" });
  machine.pass(100_000);
  assert.equal(machine.tokens, 0);
  assert.equal(machine.session.standing.status, "idle");
});

test("hello carries the token and the threads, in one round trip", () => {
  const machine = new Machine();
  machine.subscribe("t");
  machine.subscribe("u");
  machine.token("secret");
  machine.opened();
  assert.deepEqual(machine.take(), [{ type: "hello", token: "secret", subscribe: [{ thread: "t" }, { thread: "u" }] }]);
  machine.receive(welcome());
  assert.deepEqual(machine.take(), []);
  assert.equal(machine.standing.status, "connected");
});

test("every path to a socket fetches a fresh token", () => {
  const machine = new Machine();
  machine.subscribe("t");
  machine.connect();
  const paths = [
    () => machine.closed(1006),
    () => machine.closed(4002),
    () => machine.closed(1012),
    () => { machine.closed(1006); machine.step({ type: "awake" }); },
    () => { machine.closed(1006); machine.step({ type: "reopen" }); },
    () => { machine.receive({ type: "goodbye", reason: "draining", reconnectWithin: 1_000 }); machine.pass(1_000); machine.closed(1000); },
    () => { machine.pass(70_000); }, // silence
    () => { machine.closed(4501); machine.step({ type: "reopen" }); },
  ];
  for (const path of paths) {
    const { tokens, opens } = machine;
    path();
    machine.connect();
    assert.equal(machine.tokens, tokens + 1, String(path));
    assert.equal(machine.opens, opens + 1, String(path));
  }
});

test("a token function that fails or never answers is tried again", () => {
  const machine = new Machine();
  machine.subscribe("t");
  machine.step({ type: "token-failed", attempt: machine.session.attempt, message: "offline" });
  assert.match(machine.standing.reason, /offline/);
  machine.pass(1_000);
  assert.equal(machine.tokens, 2);
  const hung = machine.session.attempt;
  machine.pass(31_000);
  assert.equal(machine.tokens, 3);
  machine.step({ type: "token", attempt: hung, token: "late" });
  assert.equal(machine.opens, 0);
});

test("a token that comes twice opens one socket", () => {
  const machine = new Machine();
  machine.subscribe("t");
  machine.token();
  machine.token();
  machine.opened();
  machine.token();
  assert.equal(machine.opens, 1);
});

test("more threads than fit into hello are asked for once welcomed", () => {
  const machine = new Machine();
  for (let index = 0; index < 70; index++) machine.subscribe(`t${index}`);
  machine.connect();
  const frames = machine.take();
  const asked = [...frames[0].subscribe, ...frames.filter(({ type }) => type === "subscribe")].map(({ thread }) => thread);
  assert.equal(frames[0].subscribe.length, 64);
  assert.equal(new Set(asked).size, 70);
});

// --- one socket, one subscription

test("case 43: twenty listeners on a thread make one socket and one subscription", () => {
  const machine = new Machine();
  for (let index = 0; index < 20; index++) machine.subscribe("t");
  machine.connect();
  for (let index = 0; index < 20; index++) machine.subscribe("t");
  machine.pass(1_000);
  assert.deepEqual(machine.take(), [{ type: "hello", subscribe: [{ thread: "t" }] }]);
  assert.equal(machine.opens, 1);
});

test("leaving and coming back within the grace sends nothing", () => {
  const machine = following();
  machine.unsubscribe("t");
  machine.pass(400);
  machine.receive(batch("t", "L", 3, "x", "y"));
  machine.subscribe("t");
  machine.pass(5_000);
  assert.deepEqual(machine.take(), []);
  assert.deepEqual(machine.texts("t"), ["m1", "m2", "m3"]);
});

test("leaving for good unsubscribes, and coming back asks only for what was missed", () => {
  const machine = following();
  machine.unsubscribe("t");
  machine.pass(600);
  assert.deepEqual(machine.take(), [{ type: "unsubscribe", thread: "t" }]);
  machine.receive(batch("t", "L", 3, "x", "y")); // crossed with our leaving
  assert.deepEqual(machine.texts("t"), ["m1", "m2"]);
  machine.subscribe("t");
  assert.deepEqual(machine.take(), [{ type: "subscribe", thread: "t", from: cursor("L", 2, "x") }]);
});

test("an unsubscribe that the server did not take is sent again", () => {
  const machine = following();
  machine.unsubscribe("t");
  machine.pass(600);
  assert.equal(machine.take("unsubscribe").length, 1);
  machine.receive({ type: "reject", thread: "t", code: "rate-limited", message: "too fast", retryMs: 100 });
  machine.pass(2_000);
  assert.deepEqual(machine.take(), [{ type: "unsubscribe", thread: "t" }]);
  machine.pass(20_000);
  assert.deepEqual(machine.take(), []);
});

test("a refused thread says why, and is asked for again by the next connection", () => {
  const machine = new Machine();
  machine.subscribe("t");
  machine.connect();
  machine.receive({ type: "reject", thread: "t", code: "not-found", message: "no such thread" });
  assert.equal(machine.views.get("t").error.code, "not-found");
  machine.pass(20_000);
  assert.deepEqual(machine.take("subscribe"), []);
  machine.closed();
  machine.connect();
  assert.deepEqual(machine.take("hello").at(-1).subscribe, [{ thread: "t" }]);
  machine.receive(snapshot("t", cursor("L", 1, "a")), live("t", cursor("L", 1, "a")));
  assert.equal(machine.views.get("t").error, null);
});

test("a refused thread is asked for again when somebody new listens", () => {
  const machine = new Machine();
  machine.subscribe("t");
  machine.connect();
  machine.receive({ type: "reject", thread: "t", code: "not-found", message: "no such thread" });
  machine.unsubscribe("t");
  machine.take();
  machine.subscribe("t");
  assert.deepEqual(machine.take(), [{ type: "subscribe", thread: "t" }]);
});

test("a thread refused for now is asked for again on the same socket", () => {
  const machine = new Machine();
  machine.subscribe("t");
  machine.connect();
  machine.take();
  for (let turn = 0; turn < 4; turn++) {
    machine.receive({ type: "reject", thread: "t", code: "unavailable", message: "no store", retryMs: 1_000 });
    assert.deepEqual(machine.take(), []);
    machine.pass(1_000 + 250 * 2 ** turn);
    assert.equal(machine.take("subscribe").length, 1);
  }
  assert.equal(machine.opens, 1);
});

test("a join that leads nowhere is asked for again, then without a cursor, then on another socket", () => {
  const machine = following();
  machine.closed();
  machine.connect();
  assert.deepEqual(machine.take().at(-1).subscribe, [{ thread: "t", from: cursor("L", 2, "x") }]);
  const asked = [];
  for (let turn = 0; turn < 400 && machine.opens === 2; turn++) {
    machine.receive({ type: "ping" });
    machine.pass(1_000);
    asked.push(...machine.take("subscribe"));
  }
  assert.equal(machine.opens, 2);
  assert.equal(machine.session.phase !== "ready", true);
  assert.deepEqual(asked[0].from, cursor("L", 2, "x"));
  assert.ok(asked.length >= 2 && asked.slice(1).every(({ from }) => from === undefined));
  machine.connect(); // the next socket gets the same patience
  machine.take();
  machine.pass(15_000);
  assert.equal(machine.take("subscribe").length, 1);
  assert.equal(machine.session.phase, "ready");
});

// --- live, gaps, forks

test("batches that continue the chain are shown; a repeat of a delivered one is dropped", () => {
  const machine = following();
  const third = batch("t", "L", 3, "x", "y", "m3", "m4");
  machine.receive(third);
  machine.receive(third);
  machine.receive(batch("t", "L", 5, "y", "z"));
  assert.deepEqual(machine.texts("t"), ["m1", "m2", "m3", "m4", "m5"]);
  assert.deepEqual(machine.take(), []);
});

const misfits = {
  "a gap": batch("t", "L", 4, "y", "z"),
  "another batch at the next place (a fork)": batch("t", "L", 3, "w", "z"),
  "another batch at an old place (a fork)": batch("t", "L", 2, "q", "r"),
  "another log": batch("t", "M", 3, "x", "y"),
  "the known tag in another log": batch("t", "M", 2, "w", "x"),
  "a place between": batch("t", "L", 2, "x", "y"),
};
for (const [name, frame] of Object.entries(misfits)) {
  test(`${name} is not shown, and is answered by asking from the cursor, once`, () => {
    const machine = following();
    machine.receive(frame);
    assert.equal(machine.sent.length, 1);
    machine.receive(batch("t", "L", 9, "p", "s"), batch("t", "L", 10, "s", "u"));
    assert.deepEqual(machine.take(), [{ type: "subscribe", thread: "t", from: cursor("L", 2, "x") }]);
    assert.deepEqual(machine.texts("t"), ["m1", "m2"]);
    assert.equal(machine.views.get("t").live, false);
    machine.receive(batch("t", "L", 3, "x", "y"), live("t", cursor("L", 3, "y")));
    assert.deepEqual(machine.texts("t"), ["m1", "m2", "m3"]);
    assert.equal(machine.views.get("t").live, true);
  });
}

for (const at of [cursor("L", 3, "y"), cursor("L", 2, "y"), cursor("L", 1, "x"), cursor("M", 2, "x")]) {
  test(`live at ${JSON.stringify(at)}, where I am not, is a hole, so it is asked for again`, () => {
    const machine = following();
    machine.closed();
    machine.connect();
    machine.take();
    machine.receive(live("t", at));
    assert.deepEqual(machine.take(), [{ type: "subscribe", thread: "t", from: cursor("L", 2, "x") }]);
    assert.equal(machine.views.get("t").live, false);
  });
}

test("a reset that no snapshot follows is not waited for longer than a join", () => {
  const machine = following();
  machine.receive({ type: "reset", thread: "t", why: "lagged" });
  machine.pass(15_000);
  assert.deepEqual(machine.take(), [{ type: "subscribe", thread: "t" }]);
});

test("half a snapshot is forgotten with its connection", () => {
  const machine = new Machine();
  machine.subscribe("t");
  machine.connect();
  const at = cursor("L", 9, "k");
  machine.receive(snapshot("t", at, { messages: [said("p1")] }, { index: 1, of: 2 }));
  machine.closed();
  machine.connect();
  machine.receive(snapshot("t", at, { messages: [said("p2")] }, { index: 2, of: 2 }));
  assert.equal(machine.views.has("t"), false);
});

test("a thread without a log takes its first batch", () => {
  const machine = new Machine();
  machine.subscribe("t");
  machine.connect();
  machine.receive(snapshot("t", cursor("", 0, "")), live("t", cursor("", 0, "")));
  assert.equal(machine.views.get("t").live, true);
  machine.take();
  machine.receive(batch("t", "L", 1, "", "a"), batch("t", "L", 2, "a", "b"));
  assert.deepEqual(machine.texts("t"), ["m1", "m2"]);
  assert.deepEqual(machine.take(), []);
});

for (const why of ["gone", "forked", "log-lost", "lagged"]) {
  test(`after reset ${why} nothing is added until the snapshot replaces the view`, () => {
    const machine = following();
    machine.receive({ type: "reset", thread: "t", why });
    assert.equal(machine.views.get("t").live, false);
    machine.receive(batch("t", "L", 3, "x", "y"));
    assert.deepEqual(machine.texts("t"), ["m1", "m2"]);
    machine.receive(snapshot("t", cursor("L", 7, "f"), { messages: [said("n1")] }), live("t", cursor("L", 7, "f")));
    assert.deepEqual(machine.texts("t"), ["n1"]);
    assert.equal(machine.views.get("t").live, true);
    assert.deepEqual(machine.take(), []);
  });
}

test("a connection lost between reset and snapshot resumes without the void cursor", () => {
  const machine = following();
  machine.receive({ type: "reset", thread: "t", why: "forked" });
  machine.closed();
  machine.connect();
  assert.deepEqual(machine.take("hello")[0].subscribe, [{ thread: "t" }]);
});

test("a snapshot in parts is shown when it is whole, with its messages in order", () => {
  const machine = following();
  const at = cursor("L", 9, "k");
  machine.receive({ type: "reset", thread: "t", why: "gone" });
  machine.receive(snapshot("t", at, { messages: [said("p1")], before: 4 }, { index: 1, of: 3 }));
  machine.receive(snapshot("t", at, { messages: [said("p2")], before: 4 }, { index: 2, of: 3 }));
  assert.deepEqual(machine.texts("t"), ["m1", "m2"]);
  machine.receive(snapshot("t", at, { messages: [said("p3")], before: 4 }, { index: 3, of: 3 }), live("t", at));
  assert.deepEqual(machine.texts("t"), ["p1", "p2", "p3"]);
  assert.equal(machine.views.get("t").state.before, 4);
});

test("parts of two snapshots are never mixed", () => {
  const machine = following();
  machine.receive({ type: "reset", thread: "t", why: "gone" });
  machine.receive(snapshot("t", cursor("L", 9, "k"), { messages: [said("p1")] }, { index: 1, of: 2 }));
  machine.receive(snapshot("t", cursor("L", 10, "l"), { messages: [said("q2")] }, { index: 2, of: 2 }));
  assert.deepEqual(machine.texts("t"), ["m1", "m2"]);
  assert.equal(machine.take("subscribe").length, 1);
});

test("several frames in one message are shown as one change", () => {
  const machine = following();
  const effects = machine.receive(batch("t", "L", 3, "x", "y"), batch("t", "L", 4, "y", "z"));
  assert.equal(effects.filter(({ type }) => type === "publish").length, 1);
});

test("frames about threads and commands we believe finished are ignored", () => {
  const machine = following();
  machine.receive(batch("other", "L", 3, "x", "y"), live("other", cursor("L", 3, "y")), { type: "reset", thread: "other", why: "gone" });
  machine.receive({ type: "ack", id: "ghost" }, { type: "reject", id: "ghost", code: "invalid", message: "no" });
  machine.receive({ type: "hum", of: "a newer protocol" });
  assert.deepEqual(machine.take(), []);
  assert.equal(machine.settled.size, 0);
  assert.equal(machine.session.phase, "ready");
});

for (const [name, data] of [["not JSON", "{"], ["not a frame", "[1]"], ["a malformed frame", '{"type":"live","thread":"t"}'], ["binary", new Uint8Array(3)]]) {
  test(`a message that is ${name} ends the connection, and the next one resumes`, () => {
    const machine = following();
    machine.step({ type: "message", attempt: machine.open, data });
    assert.equal(machine.closes.length, 1);
    machine.connect();
    assert.deepEqual(machine.take("hello").at(-1).subscribe, [{ thread: "t", from: cursor("L", 2, "x") }]);
  });
}

// --- older messages

const page = (id, before, ...ids) => ({ type: "ack", id, thread: "t", page: { before, messages: ids.map((one) => said(one)) } });
const history = (machine, id) => machine.command({ type: "history", id, thread: "t", before: machine.views.get("t").state.before, limit: 50 });

test("older messages are put in front, survive a reconnect and a snapshot of the same log", () => {
  const machine = new Machine();
  machine.subscribe("t");
  machine.connect();
  machine.receive(snapshot("t", cursor("L", 9, "x"), { messages: [said("m3"), said("m4")], before: 2 }), live("t", cursor("L", 9, "x")));
  history(machine, "h1");
  machine.receive(page("h1", 0, "m1", "m2"));
  assert.deepEqual(machine.texts("t"), ["m1", "m2", "m3", "m4"]);
  machine.receive({ type: "reset", thread: "t", why: "lagged" });
  machine.receive(snapshot("t", cursor("L", 12, "z"), { messages: [said("m4"), said("m5")], before: 3 }), live("t", cursor("L", 12, "z")));
  assert.deepEqual(machine.texts("t"), ["m1", "m2", "m3", "m4", "m5"]);
  assert.equal(machine.views.get("t").state.before, 0);
});

test("older messages are not shown in front of a hole, nor of another history", () => {
  const hole = new Machine();
  hole.subscribe("t");
  hole.connect();
  hole.receive(snapshot("t", cursor("L", 9, "x"), { messages: [said("m3")], before: 2 }), live("t", cursor("L", 9, "x")));
  hole.receive(snapshot("t", cursor("L", 90, "y"), { messages: [said("m40")], before: 39 }), live("t", cursor("L", 90, "y")));
  assert.deepEqual(hole.texts("t"), ["m40"]);

  const anew = new Machine();
  anew.subscribe("t");
  anew.connect();
  anew.receive(snapshot("t", cursor("L", 9, "x"), { messages: [said("m1"), said("m2")] }), live("t", cursor("L", 9, "x")));
  anew.closed();
  anew.connect();
  anew.receive(snapshot("t", cursor("M", 9, "y"), { messages: [said("n2")], before: 1 }), live("t", cursor("M", 9, "y")));
  assert.deepEqual(anew.texts("t"), ["n2"]);

  for (const why of ["forked", "log-lost"]) {
    const machine = new Machine();
    machine.subscribe("t");
    machine.connect();
    machine.receive(snapshot("t", cursor("L", 9, "x"), { messages: [said("m3"), said("m4")], before: 2 }), live("t", cursor("L", 9, "x")));
    history(machine, "h1");
    machine.receive({ type: "reset", thread: "t", why });
    machine.receive(snapshot("t", cursor("L", 9, "y"), { messages: [said("n4")], before: 3 }), live("t", cursor("L", 9, "y")));
    machine.receive(page("h1", 0, "m1", "m2", "m3"));
    assert.deepEqual(machine.texts("t"), ["n4"], why);
    assert.equal(machine.settled.get("h1").type, "ack");
  }
});

test("a page that overlaps what is shown is cut, one that does not reach it is left out", () => {
  const machine = new Machine();
  machine.subscribe("t");
  machine.connect();
  machine.receive(snapshot("t", cursor("L", 9, "x"), { messages: [said("m4")], before: 3 }), live("t", cursor("L", 9, "x")));
  history(machine, "h1");
  history(machine, "h2");
  history(machine, "h3");
  machine.receive(page("h1", 0, "m1"));
  assert.deepEqual(machine.texts("t"), ["m4"]);
  machine.receive(page("h2", 1, "m2", "m3"));
  machine.receive(page("h3", 0, "m1", "m2", "m3"));
  assert.deepEqual(machine.texts("t"), ["m1", "m2", "m3", "m4"]);
});
