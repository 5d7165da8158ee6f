/** Client tools against a model of a server: claims, answers and news of them in any order, tabs that come and go. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { WaitpointError } from "../errors.js";
import { ClientTools } from "../tools.js";
import { AT } from "./machine.js";

const settle = () => new Promise((resolve) => setImmediate(resolve));
const refuse = (code) => new WaitpointError(code, code);

/** One thread with calls that wait for a page: what the rules of `thread/` say of claims, and nothing more. */
class House {
  calls = new Map();
  tabs = new Set();
  resolved = [];

  call(id, tool = "locate", input = { for: id }) {
    this.calls.set(id, {
      id, name: `${tool}.call`, kind: "client-tool", input, schema: {}, at: AT,
      origin: { toolName: tool, suspendName: "call", messageId: "m1", toolCallId: `c-${id}` },
    });
    this.publish();
  }

  change(id, claim) {
    const { claim: _, ...call } = this.calls.get(id);
    this.calls.set(id, claim === null ? call : { ...call, claim: { connection: claim } });
    this.publish();
  }

  end(id) {
    this.calls.delete(id);
    this.publish();
  }

  publish() {
    const view = { live: true, loaded: true, error: null, state: { pending: [...this.calls.values()] } };
    for (const tab of this.tabs) tab.hear(view);
  }

  decide(connection, { type, action: id, data, error }) {
    const call = this.calls.get(id);
    if (call === undefined) throw refuse(this.resolved.some((end) => end.id === id) ? "already-resolved" : "unknown-action");
    const holder = call.claim?.connection;
    if (type === "release" && holder !== connection) throw refuse("forbidden");
    if (type !== "release" && holder !== undefined && holder !== connection) throw refuse("busy");
    if (type === "submit" && data === "bad") throw refuse("invalid");
    switch (type) {
      case "claim": if (holder === undefined) this.change(id, connection); return;
      case "release": return this.change(id, null);
      default:
        this.resolved.push({ id, type, by: connection, data: type === "submit" ? data : error.message });
        this.end(id);
    }
  }

  /** Claims of a connection that is gone are given back. */
  gone(connection) {
    for (const call of [...this.calls.values()]) if (call.claim?.connection === connection) this.change(call.id, null);
  }
}

/** A page. `post` decides when what travels arrives; at once by default. */
class Tab {
  static count = 0;
  runs = [];
  asked = [];

  constructor(house, post = (deliver) => deliver()) {
    this.house = house;
    this.post = post;
    this.connection = `w${++Tab.count}`;
    this.tools = new ClientTools((command) => this.ask(command), () => this.connection);
    house.tabs.add(this);
    house.publish();
  }

  /** A handler that runs until it is told how it ends. */
  serve(name = "locate") {
    return this.tools.register({
      [name]: (input, { signal, action }) =>
        new Promise((resolve, reject) => { this.runs.push({ id: action.id, input, signal, resolve, reject }); }),
    });
  }

  hear(view) {
    const sender = this.connection;
    this.post(() => { if (sender !== null && sender === this.connection) this.tools.look("t", view); });
  }

  ask(command) {
    this.asked.push(command.type);
    return new Promise((resolve, reject) => {
      this.post(() => {
        if (this.connection === null) return; // stays in the outbox; these tests leave it there
        try {
          const ack = this.house.decide(this.connection, command);
          this.post(() => resolve(ack));
        } catch (error) {
          this.post(() => reject(error));
        }
      });
    });
  }

  reconnect() {
    const old = this.connection;
    this.connection = `w${++Tab.count}`;
    this.tools.look("t", { live: false, loaded: true, error: null, state: { pending: [] } });
    return old;
  }

  leave() {
    this.house.tabs.delete(this);
    const old = this.connection;
    this.connection = null;
    this.house.gone(old);
  }
}

test("a call is claimed, run once with its input, and answered with what the handler returns", async () => {
  const house = new House();
  const tab = new Tab(house);
  tab.serve();
  house.call("a1");
  await settle();
  assert.deepEqual(tab.runs.map(({ id, input }) => [id, input]), [["a1", { for: "a1" }]]);
  house.publish();
  await settle();
  assert.equal(tab.runs.length, 1);
  tab.runs[0].resolve({ here: true });
  await settle();
  assert.deepEqual(house.resolved.map(({ id, type, data }) => [id, type, data]), [["a1", "submit", { here: true }]]);
  assert.deepEqual(tab.asked, ["claim", "submit"]);
});

test("what a handler throws, at once or later, is the call's error; nothing returned is null", async () => {
  const house = new House();
  const tab = new Tab(house);
  tab.tools.register({
    now: () => { throw new Error("no camera"); },
    later: async () => { await settle(); throw new TypeError("no permission"); },
    nothing: () => {},
  });
  for (const tool of ["now", "later", "nothing", "unknown"]) house.call(tool, tool);
  await settle();
  await settle();
  assert.deepEqual(
    house.resolved.map(({ id, type, data }) => [id, type, data]).sort(),
    [["later", "fail", "no permission"], ["nothing", "submit", null], ["now", "fail", "no camera"]],
  );
  assert.equal(house.calls.get("unknown").claim, undefined, "what nobody can run is claimed by nobody");
});

test("an output that the schema refuses fails the call instead of leaving it claimed", async () => {
  const house = new House();
  const tab = new Tab(house);
  tab.tools.register({ locate: () => "bad" });
  house.call("a1");
  await settle();
  assert.deepEqual(house.resolved.map(({ type, data }) => [type, data]), [["fail", "the output was refused: invalid"]]);
});

test("case 55: of two tabs one runs the call, and when it goes the other one does", async () => {
  const house = new House();
  const [one, two] = [new Tab(house), new Tab(house)];
  one.serve();
  two.serve();
  house.call("a1");
  await settle();
  assert.equal(one.runs.length + two.runs.length, 1);
  const [runner, other] = one.runs.length === 1 ? [one, two] : [two, one];
  runner.leave();
  await settle();
  assert.equal(other.runs.length, 1);
  other.runs[0].resolve("from the other");
  await settle();
  assert.deepEqual(house.resolved.map(({ by, data }) => [by, data]), [[other.connection, "from the other"]]);
});

test("a call that was there before the handler, or before the page, is run", async () => {
  const house = new House();
  house.call("a1");
  const tab = new Tab(house);
  await settle();
  assert.equal(tab.runs.length, 0);
  tab.serve();
  await settle();
  assert.equal(tab.runs.length, 1);
});

test("a handler is aborted when its call is ended elsewhere, and its output goes nowhere", async () => {
  const house = new House();
  const tab = new Tab(house);
  tab.serve();
  house.call("a1");
  await settle();
  house.end("a1");
  await settle();
  assert.equal(tab.runs[0].signal.aborted, true);
  tab.runs[0].resolve("too late");
  await settle();
  assert.deepEqual(tab.asked, ["claim"]);
});

test("a handler that runs on over a reconnect claims again and then answers, once", async () => {
  const house = new House();
  const tab = new Tab(house);
  tab.serve();
  house.call("a1");
  await settle();
  const old = tab.reconnect();
  house.publish(); // the server has not noticed yet: the claim is that of the connection before
  await settle();
  assert.deepEqual(tab.asked, ["claim"]);
  house.gone(old);
  await settle();
  assert.equal(house.calls.get("a1").claim.connection, tab.connection);
  assert.equal(tab.runs.length, 1, "the handler went on");
  tab.runs[0].resolve(1);
  await settle();
  assert.deepEqual(tab.asked, ["claim", "claim", "submit"]);
  assert.equal(house.resolved.length, 1);
});

test("a handler that ended while the connection was away answers as soon as it may", async () => {
  const house = new House();
  const tab = new Tab(house);
  tab.serve();
  house.call("a1");
  await settle();
  const old = tab.connection;
  tab.connection = null;
  tab.runs[0].resolve("kept");
  await settle();
  assert.deepEqual(tab.asked, ["claim"]);
  tab.connection = "back";
  house.gone(old);
  await settle();
  assert.deepEqual(house.resolved.map(({ data }) => data), ["kept"]);
});

test("a tab that comes back too late gives way to the one that took over", async () => {
  const house = new House();
  const [one, two] = [new Tab(house), new Tab(house)];
  one.serve();
  house.call("a1");
  await settle();
  const old = one.reconnect();
  two.serve();
  house.tabs.delete(one);
  house.gone(old);
  await settle();
  house.tabs.add(one);
  house.publish();
  await settle();
  assert.equal(two.runs.length, 1);
  assert.equal(one.runs[0].signal.aborted, true);
  one.runs[0].resolve("of the first");
  two.runs[0].resolve("of the second");
  await settle();
  assert.deepEqual(house.resolved.map(({ data }) => data), ["of the second"]);
});

test("handlers that are taken away give back what they run, and can be registered anew", async () => {
  const house = new House();
  const tab = new Tab(house);
  const stop = tab.serve();
  assert.throws(() => tab.serve(), /has a handler already/);
  assert.throws(() => tab.tools.register({ other: 7 }), /no function/);
  house.call("a1");
  await settle();
  stop();
  await settle();
  assert.equal(tab.runs[0].signal.aborted, true);
  assert.equal(house.calls.get("a1").claim, undefined);
  tab.serve();
  await settle();
  assert.equal(tab.runs.length, 2);
});

/** A tab whose replies wait until they are let through, one by one; news arrives at once. */
function slow(house) {
  const replies = [];
  const tab = new Tab(house);
  const { ask } = tab;
  tab.ask = (command) => {
    const outcome = ask.call(tab, command);
    outcome.catch(() => {});
    return new Promise((resolve) => replies.push(resolve)).then(() => outcome);
  };
  tab.reply = async () => { replies.shift()(); await settle(); };
  return tab;
}

test("who was refused because of a claim tries again if that ended before the refusal arrived", async () => {
  const house = new House();
  const [one, two] = [new Tab(house), slow(house)];
  one.serve();
  house.tabs.delete(two); // news of the first claim is late
  house.call("a1");
  await settle();
  const { claim: _, ...free } = house.calls.get("a1");
  two.serve();
  two.tools.look("t", { live: true, state: { pending: [free] } });
  house.tabs.add(two);
  one.leave();
  await settle();
  assert.deepEqual(two.asked, ["claim"]);
  await two.reply();
  assert.deepEqual(two.asked, ["claim", "claim"]);
  await two.reply();
  assert.equal(two.runs.length, 1);
});

test("who was refused because of a claim asks no more before news of it came", async () => {
  const house = new House();
  const [one, two] = [new Tab(house), new Tab(house)];
  one.serve();
  house.tabs.delete(two);
  house.call("a1");
  await settle();
  const { claim: _, ...free } = house.calls.get("a1");
  two.serve();
  for (let again = 0; again < 3; again += 1) {
    two.tools.look("t", { live: true, state: { pending: [free] } });
    await settle();
  }
  assert.deepEqual(two.asked, ["claim"]);
});

test("news of an older claim does not take away what the server granted", async () => {
  const house = new House();
  house.call("a1");
  const free = house.calls.get("a1");
  const tab = new Tab(house);
  tab.serve();
  await settle();
  tab.tools.look("t", { live: true, state: { pending: [{ ...free, claim: { connection: "before" } }] } });
  await settle();
  assert.equal(tab.runs[0].signal.aborted, false);
  house.publish();
  tab.runs[0].resolve(1);
  await settle();
  assert.deepEqual([tab.runs.length, house.resolved.length], [1, 1]);
});

test("handlers that are registered anew while a claim is under way keep that claim", async () => {
  const house = new House();
  const tab = slow(house);
  const stop = tab.serve();
  house.tabs.delete(tab); // news is late, too
  house.call("a1");
  tab.tools.look("t", { live: true, state: { pending: [house.calls.get("a1")] } });
  await settle();
  stop();
  tab.serve();
  await tab.reply();
  await tab.reply();
  house.tabs.add(tab);
  house.publish();
  await settle();
  assert.equal(house.calls.get("a1").claim?.connection, tab.connection);
  assert.equal(tab.runs.length, 1);
  tab.runs[0].resolve(1);
  await settle();
  await tab.reply();
  assert.deepEqual(tab.asked, ["claim", "claim", "submit"]);
});

test("a closed client aborts what runs", async () => {
  const house = new House();
  const tab = new Tab(house);
  tab.serve();
  house.call("a1");
  await settle();
  tab.tools.close();
  assert.equal(tab.runs[0].signal.aborted, true);
});

test("whatever the order of replies and news, every call is run under one claim at a time and ended once", async () => {
  for (let seed = 1; seed <= 400; seed += 1) {
    let dice = seed;
    const random = (below) => ((dice = (dice * 1_103_515_245 + 12_345) % 2_147_483_648) >> 8) % below;
    const house = new House();
    const tabs = [];
    /** Each tab's news and each tab's other traffic arrive in order; between the two nothing is promised. */
    const open = () => {
      const lanes = { news: [], other: [] };
      const tab = new Tab(house, (deliver) => lanes.other.push(deliver));
      tab.hear = (view) => { const c = tab.connection; lanes.news.push(() => { if (c !== null && c === tab.connection) tab.tools.look("t", view); }); };
      tab.lanes = lanes;
      tab.tools.register({
        locate: (input, { action }) => {
          const holder = house.calls.get(action.id)?.claim?.connection;
          // The claim may have been lost since, but never to nobody's knowledge: this tab was granted it.
          assert.ok(tab.granted.has(action.id), `seed ${seed}: run without a claim`);
          const run = { id: action.id, tab, holder };
          return new Promise((resolve) => { run.resolve = resolve; tab.runs.push(run); });
        },
      });
      tab.granted = new Set();
      const { ask } = tab;
      tab.ask = (command) => ask.call(tab, command).then((ack) => { if (command.type === "claim") tab.granted.add(command.action); return ack; });
      tabs.push(tab);
      house.publish();
      return tab;
    };
    open();
    open();
    const calls = ["a1", "a2"];
    calls.forEach((id) => house.call(id));
    for (let turn = 0; turn < 400 && house.calls.size > 0; turn += 1) {
      const tab = tabs[random(tabs.length)];
      const late = turn > 120; // from here on nobody leaves and every handler ends, so everything must come to an end
      if (late) tab.runs.forEach((run) => run.resolve(turn));
      switch (random(late ? 3 : 9)) {
        case 0: tab.lanes.news.shift()?.(); break;
        case 1: case 2: tab.lanes.other.shift()?.(); break;
        case 3: tab.runs[random(tab.runs.length || 1)]?.resolve(turn); break;
        case 4: if (tabs.length > 1 && random(3) === 0) { tabs.splice(tabs.indexOf(tab), 1); tab.leave(); } break;
        case 5: if (tabs.length < 3) open(); break;
        case 6: if (random(4) === 0) { const old = tab.reconnect(); tab.lanes.news.length = 0; house.gone(old); house.publish(); } break;
        default: break;
      }
      await Promise.resolve();
      await settle();
    }
    const left = [...house.calls.values()].map(({ id, claim }) => [id, claim?.connection, tabs.map((tab) => [tab.connection, tab.asked.join(), tab.runs.length])]);
    assert.deepEqual(left, [], `seed ${seed}: calls that nobody ends: ${JSON.stringify(left)}`);
    assert.deepEqual(house.resolved.map(({ id }) => id).sort(), calls, `seed ${seed}`);
  }
});
