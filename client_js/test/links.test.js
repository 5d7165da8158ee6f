import assert from "node:assert/strict";
import { test } from "node:test";

import { Machine, batch, cursor, welcome } from "./machine.js";

const connected = (options) => new Machine(options).follow("t", "m1", "m2");
const goodbye = (reconnectWithin) => ({ type: "goodbye", reason: "draining", reconnectWithin });

/** How long until the next socket opens, from a closed one. */
function waitAfter(machine) {
  const { opens } = machine;
  const from = machine.now;
  for (let turns = 0; machine.opens === opens; turns++) {
    assert.ok(turns < 10, "no attempt follows");
    if (machine.session.phase === "waiting") machine.pass(machine.wakeAt - machine.now);
    if (machine.session.phase === "token") machine.token();
  }
  return machine.now - from;
}

// --- heartbeats and silence

test("a ping is answered at once, in every phase that can carry it", () => {
  const machine = connected();
  machine.receive({ type: "ping" });
  assert.deepEqual(machine.take(), [{ type: "pong" }]);
});

test("case 98: ten idle minutes with pings keep one connection", () => {
  const machine = connected();
  for (let beat = 0; beat < 24; beat++) {
    machine.pass(25_000);
    machine.receive({ type: "ping" });
  }
  assert.equal(machine.opens, 1);
  assert.equal(machine.take("pong").length, 24);
});

test("case 98: a link that swallows what the server sends is given up after 2.5 heartbeats", () => {
  const machine = connected();
  machine.pass(62_000);
  assert.equal(machine.session.phase, "ready");
  machine.pass(1_000);
  assert.equal(machine.closes.length, 1);
  assert.equal(machine.standing.status, "reconnecting");
  assert.match(machine.standing.reason, /silent/);
});

test("case 99: a socket that never opens, and a server that never welcomes, are abandoned after ten seconds", () => {
  const machine = new Machine();
  machine.subscribe("t");
  machine.token();
  machine.pass(9_999);
  assert.equal(machine.closes.length, 0);
  machine.pass(1);
  assert.equal(machine.closes.length, 1);
  waitAfter(machine);
  machine.opened();
  machine.pass(9_999);
  assert.equal(machine.session.phase, "greeting");
  machine.pass(1);
  assert.equal(machine.closes.length, 2);
  waitAfter(machine);
  assert.equal(machine.opens, 3);
});

test("case 99: what an old socket still says is ignored", () => {
  const machine = connected();
  const old = machine.open;
  machine.pass(63_000);
  const stale = [
    { type: "message", attempt: old, data: JSON.stringify(batch("t", "L", 3, "x", "y")) },
    { type: "message", attempt: old, data: JSON.stringify(goodbye(0)) },
    { type: "message", attempt: old, data: "{" },
    { type: "opened", attempt: old },
    { type: "token", attempt: old, token: "x" },
    { type: "closed", attempt: old, code: 4501, reason: "" },
  ];
  for (const input of stale) assert.deepEqual(machine.step(input).filter(({ type }) => type !== "wake"), []);
  machine.connect();
  machine.take();
  for (const input of stale) assert.deepEqual(machine.step(input).filter(({ type }) => type !== "wake"), []);
  assert.equal(machine.session.phase, "ready");
  assert.deepEqual(machine.texts("t"), ["m1", "m2"]);
});

test("a page that slept reads what waited for it before it judges the socket", () => {
  const machine = connected();
  machine.sleep(300_000);
  assert.equal(machine.closes.length, 0);
  machine.receive({ type: "ping" });
  machine.pass(60_000);
  assert.equal(machine.closes.length, 0);
  machine.sleep(300_000);
  machine.pass(3_000);
  assert.equal(machine.closes.length, 1);
});

test("case 100: a throttled background tab stays connected, and one whose token expired is back with one fresh token", () => {
  const machine = connected();
  for (let minute = 0; minute < 10; minute++) {
    for (const at of [25_000, 50_000]) {
      machine.now = minute * 60_000 + at;
      machine.receive({ type: "ping" }); // messages are not throttled
    }
    machine.now = (minute + 1) * 60_000;
    machine.step({ type: "tick" }); // timers are: once a minute
  }
  assert.equal(machine.opens, 1);
  const { tokens } = machine;
  machine.closed(4002);
  machine.sleep(60_000);
  machine.step({ type: "awake" });
  machine.connect();
  assert.equal(machine.tokens, tokens + 1);
});

// --- what close codes ask for

for (const code of [4500, 4501, 4502, 4503, 4504, 4505, 4506, 4999]) {
  test(`close ${code} is final, with a reason to read`, () => {
    const machine = connected();
    machine.closed(code);
    assert.equal(machine.standing.status, "closed");
    assert.ok(machine.standing.reason.length > 10);
    assert.equal(machine.wakeAt, Infinity);
    machine.step({ type: "awake" });
    machine.pass(1_000_000);
    assert.equal(machine.opens, 1);
  });
}

for (const code of [1000, 1001, 1002, 1005, 1006, 1009, 1011, 1012, 1013, 1015, 3000, 4000, 4001, 4002, 4003, 4004, 4005, 4499]) {
  test(`close ${code} leads to another attempt`, () => {
    const machine = connected();
    machine.closed(code);
    assert.equal(machine.standing.status, "reconnecting");
    assert.ok(waitAfter(machine) <= 30_000);
  });
}

test("1001 and 1012 are spread over the drain window", () => {
  for (const code of [1001, 1012]) {
    const waits = [0, 0.25, 0.5, 0.999].map((random) => {
      const machine = connected({ random });
      machine.pass(11_000);
      machine.closed(code);
      return waitAfter(machine);
    });
    assert.deepEqual(waits, [0, 2_000, 4_000, 7_992]);
  }
});

test("the backoff doubles with full jitter up to 30 s, and starts anew only after ten stable seconds", () => {
  const machine = connected({ random: 0.999 });
  machine.pass(10_000);
  const waits = [];
  for (let attempt = 0; attempt < 9; attempt++) {
    machine.closed(1006);
    waits.push(waitAfter(machine));
    if (attempt % 2 === 1) {
      machine.opened();
      machine.receive(welcome());
      machine.pass(9_000); // welcomed, but not for long enough
    }
  }
  assert.deepEqual(waits, [499, 999, 1_998, 3_996, 7_992, 15_984, 29_970, 29_970, 29_970]);
  machine.connect();
  machine.pass(10_000);
  machine.closed(1006);
  assert.equal(waitAfter(machine), 499);
  const lucky = connected({ random: 0 });
  lucky.closed(1006);
  assert.equal(waitAfter(lucky), 0);
});

test("a page that is looked at, or a network that is back, cuts the wait short without forgetting the failures", () => {
  const machine = connected({ random: 0.999 });
  for (let attempt = 0; attempt < 7; attempt++) {
    machine.closed(1006);
    waitAfter(machine);
  }
  machine.closed(1006);
  const { failures } = machine.session;
  machine.step({ type: "awake" });
  assert.ok(waitAfter(machine) <= 500);
  assert.equal(machine.session.failures, failures);
});

// --- goodbye

test("after a goodbye everything goes on until a random moment of the window, then the client leaves by 1000 and resumes", () => {
  const machine = connected({ random: 0.5 });
  machine.pass(11_000);
  machine.receive(goodbye(10_000));
  machine.pass(4_999);
  machine.submit("k1");
  machine.receive(batch("t", "L", 3, "x", "y"));
  assert.deepEqual(machine.take().map(({ type }) => type), ["submit"]);
  assert.equal(machine.closes.length, 0);
  machine.pass(1);
  assert.deepEqual(machine.closes.map(({ code }) => code), [1000]);
  machine.receive({ type: "ack", id: "k1" }, batch("t", "L", 4, "y", "z")); // still on their way when we left
  assert.equal(machine.settled.get("k1").type, "ack");
  machine.closed(1000);
  machine.connect();
  assert.deepEqual(machine.take("hello"), [{ type: "hello", subscribe: [{ thread: "t", from: cursor("L", 4, "z") }] }]);
  assert.equal(machine.now, 16_000);
});

test("a second goodbye does not draw the moment again", () => {
  const machine = connected({ random: 0.5 });
  machine.receive(goodbye(10_000));
  machine.random = 0.9;
  machine.receive(goodbye(10_000));
  machine.pass(5_000);
  assert.equal(machine.closes.length, 1);
});

test("a close event that never comes is not waited for longer than three seconds", () => {
  const machine = connected();
  machine.receive(goodbye(0));
  machine.pass(0);
  assert.equal(machine.session.phase, "leaving");
  machine.pass(2_999);
  assert.equal(machine.session.phase, "leaving");
  machine.pass(1);
  machine.connect();
  assert.equal(machine.opens, 2);
});

test("a command asked for while leaving waits for the next connection", () => {
  const machine = connected();
  machine.receive(goodbye(0));
  machine.pass(0);
  machine.submit("k1");
  assert.deepEqual(machine.take(), []);
  machine.closed(1000);
  machine.connect();
  assert.deepEqual(machine.take("submit").map(({ id }) => id), ["k1"]);
});

test("servers that all say goodbye at once are not hammered", () => {
  const machine = connected({ random: 0.5 });
  for (let round = 0; round < 12; round++) {
    machine.receive(goodbye(0));
    machine.pass(0);
    machine.closed(1000);
    machine.connect();
  }
  assert.ok(machine.now > 60_000, `twelve rounds in ${machine.now} ms`);
});
