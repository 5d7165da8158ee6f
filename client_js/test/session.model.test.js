/**
 * Case 102 as a model test: a socket whose constructor throws, which hangs, closes, says nothing or nonsense, in random
 * order, with commands and subscriptions in between. From every state something leads to a new attempt, every command is
 * settled once, and nothing is lost: at the end the world turns healthy and the client must be live with all of it said.
 */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Machine, batch, cursor, snapshot, welcome } from "./machine.js";

const RUNS = Number(process.env.WAITPOINT_MODEL_RUNS ?? 3_000);
const STEPS = 60;

/** A small seeded generator (mulberry32), so that a failing run can be named and repeated. */
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The server's side of one thread: a chain of batches that outlives sockets, and the commands it has taken. */
class Server {
  constructor() {
    this.batches = []; // one event each: seq = index + 1
    this.taken = new Map();
  }

  get head() {
    const last = this.batches.length;
    return last === 0 ? cursor("", 0, "") : cursor("L", last, `g${last}`);
  }

  append() {
    const seq = this.batches.length + 1;
    this.batches.push(batch("t", "L", seq, seq === 1 ? "" : `g${seq - 1}`, `g${seq}`));
    return this.batches.at(-1);
  }

  join(from) {
    const live = { type: "live", thread: "t", cursor: this.head };
    if (from !== undefined) {
      assert.equal(from.tag, `g${from.seq}`, "a cursor is one value");
      return [...this.batches.slice(from.seq), live];
    }
    return [snapshot("t", this.head, { messages: this.batches.map(({ events }) => events[0].message) }), live];
  }

  /** Answer everything a client sent. */
  answer(frames) {
    return frames.flatMap((frame) => {
      switch (frame.type) {
        case "hello": return [welcome(), ...(frame.subscribe ?? []).flatMap(({ from }) => this.join(from))];
        case "subscribe": return this.join(frame.from);
        case "submit": {
          const text = JSON.stringify(frame);
          assert.equal(this.taken.get(frame.id) ?? text, text, "the same id with another payload");
          const dup = this.taken.has(frame.id);
          this.taken.set(frame.id, text);
          return [{ type: "ack", id: frame.id, ...(dup ? { dup } : {}) }];
        }
        default: return [];
      }
    });
  }
}

/** One random misfortune (or a healthy moment). */
function happen(machine, server, random, commands) {
  const pick = Math.floor(random() * 22);
  const attempt = random() < 0.9 ? machine.session.attempt : Math.floor(random() * (machine.session.attempt + 1));
  const step = (input) => machine.step({ attempt, ...input });
  switch (pick) {
    case 0: return step({ type: "token", token: "x" });
    case 1: return machine.session.phase === "token" ? step({ type: "token", token: null }) : undefined;
    case 2: return step({ type: "token-failed", message: "no" });
    case 3: case 4: return step({ type: "opened" });
    case 5: return step({ type: "closed", code: 1006, reason: "constructor threw" });
    case 6: return step({ type: "closed", code: [1000, 1001, 1009, 1011, 1012, 1013, 4000, 4002, 4005][Math.floor(random() * 9)], reason: "" });
    case 7: return step({ type: "message", data: ["{", "[]", "7", '{"type":"events"}', '{"type":"hum"}'][Math.floor(random() * 5)] });
    case 8: case 9: case 10: { // the server answers what was sent, or a part of it, or the cut comes in between
      const frames = server.answer(machine.take());
      return machine.open === machine.session.attempt && frames.length > 0
        ? machine.receive(...frames.slice(0, Math.ceil(random() * frames.length)))
        : undefined;
    }
    case 11: case 12: { // something is said in the thread; the batch arrives or does not
      const said = server.append();
      return random() < 0.7 ? step({ type: "message", data: JSON.stringify(said) }) : undefined;
    }
    case 13: return step({ type: "message", data: JSON.stringify({ type: "goodbye", reason: "draining", reconnectWithin: 5_000 }) });
    case 14: return step({ type: "message", data: '{"type":"ping"}' });
    case 15: { // refused for now
      const [first] = machine.session.commands.outbox.entries.keys();
      return first === undefined ? undefined : step({ type: "message", data: JSON.stringify({ type: "reject", id: first, code: "unavailable", message: "no store" }) });
    }
    case 16: {
      const id = `k${commands.size}`;
      commands.add(id);
      return machine.submit(id);
    }
    case 17: return machine.step({ type: "awake" });
    case 18: return step({ type: "message", data: JSON.stringify({ type: "reset", thread: "t", why: "lagged" }) });
    case 19: machine.pass(random() * 40_000); return undefined;
    case 20: machine.sleep(random() * 200_000); return undefined;
    default: machine.pass(random() * 2_000); return undefined;
  }
}

const PHASES_SEEN = new Set();

test(`case 102: ${RUNS} random lives of a connection`, () => {
  for (let seed = 1; seed <= RUNS; seed++) {
    const random = generator(seed);
    const machine = new Machine();
    const server = new Server();
    const commands = new Set();
    const where = () => `seed ${seed}, phase ${machine.session.phase}`;
    machine.subscribe("t");
    for (let turn = 0; turn < STEPS; turn++) {
      machine.random = random();
      happen(machine, server, random, commands);
      PHASES_SEEN.add(machine.session.phase);
      assert.notEqual(machine.session.phase, "idle", where());
      assert.ok(Number.isFinite(machine.wakeAt), `nothing will happen by itself: ${where()}`);
      assert.ok(machine.wakeAt - machine.now <= 63_000, `asleep for ${machine.wakeAt - machine.now} ms: ${where()}`);
    }

    // Nobody helps: by patience alone the next attempt begins.
    const { attempt } = machine.session;
    machine.open = -1;
    for (let ticks = 0; machine.session.attempt === attempt && machine.session.phase !== "token"; ticks++) {
      assert.ok(ticks < 60, `no new attempt: ${where()}`);
      machine.pass(machine.wakeAt - machine.now);
    }

    // The world is healthy again.
    for (let turns = 0; !(machine.session.phase === "ready" && machine.views.get("t")?.live && machine.session.commands.outbox.size === 0); turns++) {
      assert.ok(turns < 80, `not well again: ${where()}`);
      switch (machine.session.phase) {
        case "token": machine.token(); break;
        case "opening": machine.opened(); break;
        case "greeting": case "ready": {
          const frames = server.answer(machine.take());
          if (frames.length > 0) machine.receive(...frames);
          else machine.pass(Math.min(machine.wakeAt - machine.now, 1_000));
          break;
        }
        default: machine.pass(machine.wakeAt - machine.now);
      }
    }
    assert.deepEqual(machine.texts("t"), server.batches.map((_, index) => `m${index + 1}`), where());
    assert.deepEqual([...machine.settled.keys()].sort(), [...commands].sort(), where());
  }
});

test("the random lives went through every phase", () => {
  assert.deepEqual([...PHASES_SEEN].sort(), ["greeting", "leaving", "opening", "ready", "token", "waiting"]);
});
