/** The client as a page uses it, over real sockets to a small server of these tests. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { after, test } from "node:test";
import { WebSocket, WebSocketServer } from "ws";

import { WaitpointClient, WaitpointError } from "../index.js";
import { AT, LIMITS, batch, cursor, snapshot, welcome } from "./machine.js";

/** Wait until `condition` returns something; fails with `what` after five seconds. */
async function until(condition, what) {
  const deadline = Date.now() + 5_000;
  for (;;) {
    const found = condition();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`waited in vain for ${what}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** A server that greets, serves one thread, and does with commands as told. */
class Peer {
  sockets = [];
  frames = [];
  answer = (frame) => ({ type: "ack", id: frame.id });
  view = () => [snapshot("t", this.at, this.more), { type: "live", thread: "t", cursor: this.at }];
  at = cursor("L", 1, "a");
  more = {};

  static async start() {
    const peer = new Peer();
    peer.server = new WebSocketServer({ port: 0, host: "127.0.0.1", handleProtocols: (offered) => [...offered][0] });
    await once(peer.server, "listening");
    peer.url = `ws://127.0.0.1:${peer.server.address().port}/ws`;
    peer.server.on("connection", (socket) => {
      peer.sockets.push(socket);
      socket.on("message", (data) => {
        const frame = JSON.parse(String(data));
        peer.frames.push(frame);
        const asked = frame.type === "hello" ? (frame.subscribe ?? []) : frame.type === "subscribe" ? [frame] : [];
        const replies = [
          ...(frame.type === "hello" ? [welcome()] : []),
          ...asked.flatMap(({ from }) => (from === undefined ? peer.view() : [{ type: "live", thread: "t", cursor: from }])),
        ];
        const command = "id" in frame ? peer.answer(frame) : null;
        if (command) replies.push(command);
        if (replies.length > 0) socket.send(JSON.stringify(replies));
      });
    });
    return peer;
  }

  get socket() { return this.sockets.at(-1); }
  send(...frames) { this.socket.send(JSON.stringify(frames)); }
  of(type) { return this.frames.filter((frame) => frame.type === type); }
}

const open = [];
async function pair(options = {}) {
  const peer = await Peer.start();
  const client = new WaitpointClient(peer.url, { WebSocket, random: () => 0.01, ...options });
  open.push(() => {
    client.close();
    for (const socket of peer.sockets) socket.terminate();
    peer.server.close();
  });
  return { peer, client, thread: client.thread("t") };
}
after(() => open.forEach((close) => close()));

const shape = {
  id: "a1", name: "collect.details", input: { prompt: "Who?" }, schema: { type: "object" }, at: AT,
  origin: { toolName: "collect", suspendName: "details", messageId: "m1", toolCallId: "c1" },
};

test("case 43: twenty listeners on a thread share one socket and one subscription", async () => {
  const { peer, client, thread } = await pair();
  const heard = [];
  const stops = Array.from({ length: 20 }, (_, index) => client.thread("t").subscribe((state) => { heard[index] = state; }));
  await until(() => thread.getState().live, "the thread to be live");
  assert.equal(client.thread("t"), thread);
  assert.equal(peer.sockets.length, 1);
  assert.deepEqual(peer.frames, [{ type: "hello", subscribe: [{ thread: "t" }] }]);
  assert.ok(heard.length === 20 && heard.every((state) => state === thread.getState()));
  stops.slice(1).forEach((stop) => stop());
  peer.send(batch("t", "L", 2, "a", "b"));
  await until(() => heard[0].messages.length === 1, "the message");
  assert.equal(heard[1].messages.length, 0);
  stops[0]();
  stops[0]();
  await until(() => peer.of("unsubscribe").length === 1, "the unsubscribe");
});

test("getState is the same object until something changes, and works unbound", async () => {
  const { peer, thread } = await pair();
  const { getState, subscribe } = thread;
  const before = getState();
  assert.equal(getState(), before);
  assert.deepEqual([before.live, before.loaded, before.messages], [false, false, []]);
  subscribe(() => {});
  await until(() => getState().live, "live");
  const live = getState();
  assert.notEqual(live, before);
  assert.equal(getState(), live);
  peer.send({ type: "ping" });
  await until(() => peer.of("pong").length === 1, "the pong");
  assert.equal(getState(), live);
});

test("a listener hears the present once, soon but not before it has its stop function", async () => {
  const { client, thread } = await pair();
  const heard = [];
  const stop = thread.subscribe((state) => { heard.push(state); if (state.live) stop(); });
  assert.equal(heard.length, 0);
  await until(() => thread.getState().live, "live");
  const late = [];
  const stopLate = thread.subscribe((state) => late.push(state));
  await until(() => late.length === 1, "the present");
  assert.equal(late[0], thread.getState());
  stopLate();
  const statuses = [];
  client.onStatus((status) => statuses.push(status));
  await until(() => statuses.length === 1, "the status");
  assert.deepEqual(statuses, ["connected"]);
});

test("pending actions carry the question and end by submit, cancel and fail", async () => {
  const { peer, thread } = await pair();
  peer.more = { pending: [shape] };
  thread.subscribe(() => {});
  await until(() => thread.getState().live, "live");
  const [action] = thread.getState().pending;
  assert.deepEqual([action.name, action.input, action.schema, action.origin], [shape.name, shape.input, shape.schema, shape.origin]);
  assert.equal((await action.submit({ audience: "team" })).type, "ack");
  await action.cancel();
  await action.cancel({ reason: "not needed" });
  await action.fail(new Error("no camera"));
  await action.fail("x".repeat(3_000));
  const sent = peer.frames.slice(1).map(({ id, ...rest }) => rest);
  const to = { thread: "t", action: "a1" };
  assert.deepEqual(sent.slice(0, 4), [
    { type: "submit", ...to, data: { audience: "team" } },
    { type: "cancel", ...to },
    { type: "cancel", ...to, reason: "not needed" },
    { type: "fail", ...to, error: { message: "no camera" } },
  ]);
  assert.equal(sent[4].error.message.length, 2_000);
  await assert.rejects(action.cancel({ reason: "x".repeat(2_001) }), { code: "invalid" });
  peer.send(batch("t", "L", 2, "a", "b"));
  await until(() => thread.getState().messages.length === 1, "the message");
  assert.equal(thread.getState().pending[0], action, "an untouched action keeps its identity");
});

test("a refusal rejects with code, field errors and winner, and leaves the action", async () => {
  const { peer, thread } = await pair();
  peer.more = { pending: [shape] };
  const winner = { how: "submitted", by: { id: "bob", kind: "person" }, at: AT, data: 1 };
  const errors = [{ path: ["audience"], message: "Field required", code: "missing" }];
  peer.answer = ({ id, data }) => data === 1
    ? { type: "reject", id, code: "already-resolved", message: "too late", winner }
    : { type: "reject", id, code: "invalid", message: "does not match", errors };
  thread.subscribe(() => {});
  await until(() => thread.getState().live, "live");
  const [action] = thread.getState().pending;
  await assert.rejects(action.submit({}), (error) => error instanceof WaitpointError && error.code === "invalid" && error.errors[0].path[0] === "audience");
  await assert.rejects(action.submit(1), (error) => error.code === "already-resolved" && error.winner.by.id === "bob");
  assert.equal(thread.getState().pending.length, 1);
});

test("an action that is not pending here can still be answered: the server judges", async () => {
  const { peer, thread } = await pair();
  peer.answer = ({ id }) => ({ type: "reject", id, code: "unknown-action", message: "no such action" });
  await assert.rejects(thread.action("ghost").submit(null), { code: "unknown-action" });
  assert.deepEqual(peer.of("submit").map(({ thread: name, action, data }) => [name, action, data]), [["t", "ghost", null]]);
});

test("send takes text or parts, stop stops, and empty messages are refused here", async () => {
  const { peer, thread } = await pair();
  peer.answer = (frame) => ({ type: "ack", id: frame.id, queued: true, message: "m9" });
  assert.deepEqual((({ queued, message }) => ({ queued, message }))(await thread.send("hello")), { queued: true, message: "m9" });
  await thread.send([{ type: "data", id: "d", name: "n", data: { a: 1 } }]);
  await thread.stop();
  assert.deepEqual(peer.of("message").map(({ parts }) => parts), [[{ type: "text", text: "hello" }], [{ type: "data", id: "d", name: "n", data: { a: 1 } }]]);
  assert.equal(peer.of("stop").length, 1);
  for (const nothing of ["", [], undefined, null, 7]) await assert.rejects(thread.send(nothing), { code: "invalid" });
});

test("a click during an outage happens once", async () => {
  const { peer, thread } = await pair();
  peer.more = { pending: [shape] };
  peer.answer = () => null; // the ack is lost with the socket
  thread.subscribe(() => {});
  await until(() => thread.getState().live, "live");
  let settled = 0;
  const answer = thread.getState().pending[0].submit(true).finally(() => { settled += 1; });
  await until(() => peer.of("submit").length === 1, "the submit");
  peer.socket.terminate();
  peer.answer = ({ id }) => ({ type: "ack", id, dup: true });
  assert.equal((await answer).dup, true);
  assert.equal(settled, 1);
  const [first, second] = peer.of("submit");
  assert.deepEqual(second, first);
  assert.deepEqual(peer.of("hello").at(-1).subscribe, [{ thread: "t", from: cursor("L", 1, "a") }]);
});

test("each socket gets a fresh token, and what the token function throws is a reason", async () => {
  let calls = 0;
  const { peer, client, thread } = await pair({ token: async () => { calls += 1; if (calls === 2) throw new Error("login first"); return `token-${calls}`; } });
  const reasons = [];
  client.onStatus((status, { reason }) => reasons.push(`${status} ${reason}`));
  thread.subscribe(() => {});
  await until(() => thread.getState().live, "live");
  peer.socket.close(4002, "token expired");
  await until(() => peer.sockets.length === 2 && client.status === "connected", "the second socket");
  assert.deepEqual(peer.of("hello").map(({ token }) => token), ["token-1", "token-3"]);
  assert.ok(reasons.some((reason) => /login first/.test(reason)), reasons.join());
});

test("a close that forbids to come back ends the client readably, and reconnect starts anew", async () => {
  const { peer, client, thread } = await pair();
  thread.subscribe(() => {});
  await until(() => thread.getState().live, "live");
  peer.answer = () => null;
  const lost = thread.send("hi");
  await until(() => peer.of("message").length === 1, "the message");
  peer.socket.close(4501, "please log in");
  await assert.rejects(lost, { code: "closed" });
  assert.equal(client.status, "closed");
  assert.match(client.reason, /please log in/);
  client.reconnect();
  await until(() => thread.getState().live, "live again");
  assert.equal(peer.sockets.length, 2);
});

test("older messages are loaded once however often asked, and say whether there are more", async () => {
  const { peer, thread } = await pair();
  const message = (id) => ({ id, role: "user", parts: [], status: "final", at: AT });
  peer.more = { messages: [message("m3")], before: 2 };
  peer.answer = ({ id, before }) => ({ type: "ack", id, page: { messages: [message(`m${before}`)], before: before - 1 } });
  assert.equal(await thread.loadOlder(), false);
  thread.subscribe(() => {});
  await until(() => thread.getState().live, "live");
  assert.deepEqual(await Promise.all([thread.loadOlder(1), thread.loadOlder(1)]), [true, true]);
  assert.equal(await thread.loadOlder(1), false);
  assert.deepEqual(thread.getState().messages.map(({ id }) => id), ["m1", "m2", "m3"]);
  assert.deepEqual(peer.of("history").map(({ before, limit }) => [before, limit]), [[2, 1], [1, 1]]);
});

test("a constructor that throws is a failed attempt, and the next one may work", async () => {
  let broken = 2;
  class Moody extends WebSocket {
    constructor(...args) {
      if (broken-- > 0) throw new Error("not now");
      super(...args);
    }
  }
  const { client, thread } = await pair({ WebSocket: Moody });
  thread.subscribe(() => {});
  await until(() => thread.getState().live, "live");
  assert.equal(client.status, "connected");
});

test("a listener that throws neither stops the others nor the client", async () => {
  const { peer, thread } = await pair();
  const complaints = [];
  const { error } = console;
  console.error = (complaint) => complaints.push(complaint.message);
  try {
    const heard = [];
    const stop = thread.subscribe(() => { throw new Error("a bug in the page"); });
    thread.subscribe((state) => heard.push(state));
    await until(() => heard.at(-1)?.live, "live");
    peer.send(batch("t", "L", 2, "a", "b"));
    await until(() => heard.at(-1).messages.length === 1, "the message");
    assert.ok(complaints.includes("a bug in the page"));
    stop();
  } finally {
    console.error = error;
  }
});

test("a mistaken URL, thread name or platform is told at once", () => {
  assert.throws(() => new WaitpointClient("ftp://host/ws", { WebSocket }), /use wss: or ws:/);
  assert.throws(() => new WaitpointClient("/ws", { WebSocket }), TypeError);
  const platform = globalThis.WebSocket;
  globalThis.WebSocket = undefined;
  try {
    assert.throws(() => new WaitpointClient("ws://127.0.0.1:1/ws"), /no WebSocket; pass one/);
  } finally {
    globalThis.WebSocket = platform;
  }
  const client = new WaitpointClient("http://127.0.0.1:1/ws", { WebSocket });
  for (const name of ["", "a b", "a/b", "é", "x".repeat(129), undefined]) assert.throws(() => client.thread(name), /thread name/);
  client.close();
});

test("limits of the welcome hold for the next command", async () => {
  const { client, thread } = await pair();
  thread.subscribe(() => {});
  await until(() => thread.getState().live, "live");
  await assert.rejects(thread.send("x".repeat(LIMITS.frameBytes)), (error) => error.code === "too-large" && error.local);
  assert.equal(client.status, "connected");
});
