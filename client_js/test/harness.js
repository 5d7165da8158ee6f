/**
 * The client as a process: drives the real client over a real WebSocket, so that tests in other languages can hold it to
 * a real server. One JSON object per line, in and out; every request's `n` comes back in its reply.
 *
 *   {"op":"open","url":…,"token"?:…}            {"op":"close"}                      {"op":"status"}
 *   {"op":"subscribe","thread":…}               {"op":"unsubscribe","thread":…}     {"op":"state","thread":…}
 *   {"op":"send","thread":…,"text"|"parts":…}   {"op":"stop","thread":…}            {"op":"older","thread":…,"limit"?:…}
 *   {"op":"submit","thread":…,"action":…,"data":…}
 *   {"op":"cancel","thread":…,"action":…,"reason"?:…}
 *   {"op":"fail","thread":…,"action":…,"message":…}
 *   {"op":"until","thread":…,"where":{…},"timeout"?:ms}   waits until the state has these members (lists: their length)
 *   {"op":"drop"}                               cuts the socket without a close handshake
 *
 * Replies: {"n":…,"ok":…} or {"n":…,"error":{"code":…,"message":…,"errors":…,"winner":…}}. Commands reply when they
 * are settled, so several may be under way; `submit` and its like also take ids of actions that are not pending, as a
 * late click would.
 */

import { createInterface } from "node:readline";
import { WebSocket } from "ws";

import { WaitpointClient } from "../index.js";

/** @type {WaitpointClient | null} */
let client = null;
/** @type {WebSocket[]} */
const sockets = [];
/** @type {Map<string, () => void>} */
const stops = new Map();

class Watched extends WebSocket {
  constructor(...args) {
    super(...args);
    sockets.push(this);
  }
}

/** The handle of a thread. */
function thread({ thread: name }) {
  if (client === null) throw new Error("open first");
  return client.thread(name);
}

/** The action of a request, pending or not. */
const action = (request) => thread(request).action(request.action);

/** Whether a state has these members; lists compare by length where a number is asked for. */
function matches(state, where) {
  return Object.entries(where).every(([name, wanted]) => {
    const value = state[name];
    return Array.isArray(value) && typeof wanted === "number" ? value.length === wanted : JSON.stringify(value) === JSON.stringify(wanted);
  });
}

const ops = {
  open({ url, token }) {
    client = new WaitpointClient(url, { token, WebSocket: Watched });
  },
  close() {
    client?.close();
    client = null;
  },
  status() {
    return { status: client?.status ?? "closed", reason: client?.reason ?? null, sockets: sockets.length };
  },
  subscribe(request) {
    if (stops.has(request.thread)) return;
    stops.set(request.thread, thread(request).subscribe(() => {}));
  },
  unsubscribe({ thread: name }) {
    stops.get(name)?.();
    stops.delete(name);
  },
  state: (request) => thread(request).getState(),
  send: (request) => thread(request).send(request.parts ?? request.text),
  stop: (request) => thread(request).stop(),
  older: (request) => thread(request).loadOlder(request.limit),
  submit: (request) => action(request).submit(request.data),
  cancel: (request) => action(request).cancel({ reason: request.reason }),
  fail: (request) => action(request).fail(request.message),
  until(request) {
    const { where, timeout = 10_000 } = request;
    const handle = thread(request);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        stop();
        reject(new Error(`waited in vain for ${JSON.stringify(where)}; the state is ${JSON.stringify(handle.getState())}`));
      }, timeout);
      const stop = handle.subscribe((state) => {
        if (!matches(state, where)) return;
        clearTimeout(timer);
        stop();
        resolve(state);
      });
    });
  },
  drop() {
    sockets.at(-1)?.terminate();
  },
};

async function serve(line) {
  let n;
  try {
    const request = JSON.parse(line);
    n = request.n;
    if (!Object.hasOwn(ops, request.op)) throw new Error(`no such op: ${request.op}; there are ${Object.keys(ops).join(", ")}`);
    reply({ n, ok: (await ops[request.op](request)) ?? null });
  } catch (error) {
    const { code = "harness", message, errors, winner } = error;
    reply({ n, error: { code, message, errors, winner } });
  }
}

function reply(answer) {
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => void serve(line));
lines.on("close", () => {
  client?.close();
  sockets.forEach((socket) => socket.terminate());
});
