/** The shell with its clock, timers and sockets in hand: what only shows when they misbehave. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { SocketShell } from "../socket.js";

/** A world whose time stands still until it is moved. */
class World {
  time = 1_000_000;
  timers = [];
  sockets = [];
  awake = () => {};
  stopped = 0;

  constructor() {
    const world = this;
    this.surroundings = {
      now: () => this.time,
      random: () => 0.5,
      setTimeout: (fn, ms) => {
        const timer = { fn, at: this.time + ms };
        this.timers.push(timer);
        return timer;
      },
      clearTimeout: (timer) => { this.timers = this.timers.filter((other) => other !== timer); },
      onAwake: (fn) => {
        this.awake = fn;
        return () => { this.stopped += 1; };
      },
      WebSocket: class {
        constructor(url, protocols) {
          Object.assign(this, { url, protocols, sent: [], closes: [] });
          world.sockets.push(this);
          world.onConstruct?.(this);
        }
        send(text) { if (world.onSend) world.onSend(this); this.sent.push(JSON.parse(text)); }
        close(code) { this.closes.push(code); if (world.onClose) world.onClose(this); }
      },
    };
  }

  shell(options = {}) {
    this.effects = [];
    return new SocketShell({ url: "ws://host/ws", surroundings: this.surroundings, onEffect: (effect) => this.effects.push(effect), ...options });
  }

  /** Fire what is due within `ms`, in order; the promises in between get their turn. */
  async pass(ms) {
    const end = this.time + ms;
    for (;;) {
      await new Promise((resolve) => setImmediate(resolve));
      const [next] = this.timers.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);
      if (next === undefined) break;
      this.timers = this.timers.filter((timer) => timer !== next);
      this.time = Math.max(this.time, next.at);
      next.fn();
    }
    this.time = end;
  }
}

test("a socket is opened with the subprotocol, and never more than one timer runs", async () => {
  const world = new World();
  const shell = world.shell();
  shell.input({ type: "subscribe", thread: "t" });
  await world.pass(0);
  assert.deepEqual(world.sockets.map(({ url, protocols }) => [url, protocols]), [["ws://host/ws", ["waitpoint.v1.json"]]]);
  for (let step = 0; step < 40; step++) {
    assert.ok(world.timers.length <= 1);
    await world.pass(1_000);
  }
  assert.ok(world.sockets.length >= 3, "sockets that hang are given up one after the other");
  assert.ok(world.sockets.slice(0, -1).every(({ closes }) => closes.length === 1));
});

test("a clock that is set back by an hour does not stop the client", async () => {
  const world = new World();
  world.shell().input({ type: "subscribe", thread: "t" });
  await world.pass(5_000);
  world.time -= 3_600_000;
  world.timers = world.timers.map(({ fn, at }) => ({ fn, at: at - 3_600_000 })); // a browser's timers do not care
  await world.pass(20_000);
  assert.ok(world.sockets.length >= 2);
});

test("what the platform throws is a failed attempt, not an exception in the page", async () => {
  const world = new World();
  world.onConstruct = () => { throw new Error("blocked by policy"); };
  const shell = world.shell();
  shell.input({ type: "subscribe", thread: "t" });
  await world.pass(10_000);
  assert.ok(world.sockets.length > 3);
  assert.ok(world.effects.some(({ type, standing }) => type === "standing" && /blocked by policy/.test(standing.reason)));
  world.onConstruct = undefined;
  world.onSend = () => { throw new Error("still connecting"); };
  world.onClose = () => { throw new Error("InvalidAccessError"); };
  await world.pass(30_000);
  const socket = world.sockets.at(-1);
  socket.onopen();
  await world.pass(30_000);
  assert.notEqual(world.sockets.at(-1), socket);
});

test("a socket that closes inside its own close call is one failure, in order", async () => {
  const world = new World();
  world.onClose = (socket) => socket.onclose?.({ code: 1006, reason: "" });
  world.shell().input({ type: "subscribe", thread: "t" });
  await world.pass(10_000);
  const { standing } = world.effects.filter(({ type }) => type === "standing").at(-1);
  assert.equal(standing.status, "reconnecting");
  assert.match(standing.reason, /did not open/);
});

test("waking up leads to a tick, and closing the client stops the listening and the timers", async () => {
  const world = new World();
  const shell = world.shell();
  shell.input({ type: "subscribe", thread: "t" });
  await world.pass(0);
  world.sockets[0].onclose({ code: 1013, reason: "busy" });
  assert.equal(world.timers[0].at - world.time, 1_000);
  world.awake();
  assert.equal(world.timers[0].at - world.time, 250);
  shell.input({ type: "close" });
  assert.deepEqual([world.stopped, world.timers.length], [1, 0]);
  await world.pass(100_000);
  assert.equal(world.sockets.length, 1);
});

for (const [name, token, expected] of [
  ["a text", "abc", "abc"],
  ["a function", () => "abc", "abc"],
  ["an async function", async () => "abc", "abc"],
  ["nothing", undefined, undefined],
  ["a function that knows none", () => null, undefined],
]) {
  test(`the token may be ${name}`, async () => {
    const world = new World();
    world.shell({ token }).input({ type: "subscribe", thread: "t" });
    await world.pass(0);
    world.sockets[0].onopen();
    assert.equal(world.sockets[0].sent[0].token, expected);
  });
}

test("a token that is not a text is told, and nothing is opened with it", async () => {
  const world = new World();
  world.shell({ token: () => ({ secret: 1 }) }).input({ type: "subscribe", thread: "t" });
  await world.pass(0);
  assert.equal(world.sockets.length, 0);
  assert.match(world.effects.at(-1).standing.reason, /a token of type object/);
});
