/**
 * Waitpoint's client for browsers and Node: threads, their pending actions, and one socket that looks after itself.
 *
 * This room puts the others together and holds the promises of commands. It decides nothing about connections (that is
 * `session.js`) and touches no socket (that is `socket.js`).
 *
 * @module
 */

/** @import { Ack, CommandFrame } from "./wire.js" */
/** @import { Effect, Standing, Status } from "./effects.js" */
/** @import { Surroundings, TokenSource } from "./socket.js" */
/** @import { Unnamed } from "./action.js" */
/** @import { Handler } from "./tools.js" */

import { WaitpointError } from "./errors.js";
import { Listeners } from "./listeners.js";
import { SocketShell } from "./socket.js";
import { Thread } from "./thread.js";
import { ClientTools } from "./tools.js";

export { Action } from "./action.js";
export { WaitpointError } from "./errors.js";
export { waitingFor } from "./reduce.js";
export { Thread };

/** @typedef {import("./thread.js").ThreadView} ThreadView */
/** @typedef {import("./tools.js").Handler} ToolHandler */
/** @typedef {import("./wire.js").Message} Message */
/** @typedef {import("./wire.js").Part} Part */
/** @typedef {import("./wire.js").ToolPart} ToolPart */
/** @typedef {import("./wire.js").UserPart} UserPart */
/** @typedef {import("./wire.js").FieldError} FieldError */
/** @typedef {import("./wire.js").Resolution} Resolution */

/**
 * @typedef {object} Options
 * @property {TokenSource} [token]  a text, or a function that gets a fresh one; asked every time a socket is opened
 */

const THREAD = /^[A-Za-z0-9._~:@-]{1,128}$/;

/** Handles of threads nobody uses are forgotten by the garbage collector; their names are swept at this many. */
const SWEEP = 256;

/** A connection to one Waitpoint server. It connects when the first thread is followed or the first command given. */
export class WaitpointClient {
  /** @type {SocketShell} */
  #shell;
  /** @type {Map<string, { resolve: (ack: Ack) => void, reject: (error: WaitpointError) => void }>} */
  #promises = new Map();
  /** @type {Map<string, WeakRef<Thread>>} */
  #threads = new Map();
  /** @type {Set<Thread>} Held as long as somebody listens. */
  #listened = new Set();
  /** @type {Standing} */
  #standing = { status: "idle", reason: null, code: null, retryAt: null };
  /** @type {Listeners<[Status, Standing]>} */
  #listeners = new Listeners();
  /** @type {ClientTools} */
  #tools;

  /**
   * @param {string | URL} url  of the endpoint: `wss://…/ws`, or relative to the page
   * @param {Options & Partial<Surroundings>} [options]
   */
  constructor(url, options = {}) {
    const { token, ...surroundings } = options;
    this.#shell = new SocketShell({ url: endpoint(url), token, surroundings, onEffect: (effect) => this.#on(effect) });
    this.#tools = new ClientTools((command) => this.#ask(command), () => this.#shell.session.connection);
  }

  /**
   * The thread with this name; always the same handle.
   *
   * @param {string} id  1 to 128 of the characters A-Z a-z 0-9 . _ ~ : @ -
   * @returns {Thread}
   */
  thread(id) {
    if (typeof id !== "string" || !THREAD.test(id)) {
      throw new TypeError(`not a thread name: ${JSON.stringify(id)}; use 1 to 128 of A-Z a-z 0-9 . _ ~ : @ -`);
    }
    const known = this.#threads.get(id)?.deref();
    if (known !== undefined) return known;
    const thread = new Thread(
      id,
      (command) => this.#ask(command),
      (handle, listened) => this.#follow(handle, listened),
    );
    const view = this.#shell.session.view(id);
    if (view !== null) thread.show(view);
    if (this.#threads.size >= SWEEP) {
      for (const [name, ref] of this.#threads) if (ref.deref() === undefined) this.#threads.delete(name);
    }
    this.#threads.set(id, new WeakRef(thread));
    return thread;
  }

  /**
   * Run client tools in this page: `client.tools({ getLocation: async (input, { signal }) => … })`. A handler runs for
   * every call of its tool in a thread that is followed here, in one tab of all that could run it; what it returns is the
   * output, what it throws the error. A page that goes away before it answered leaves the call to the next one, which may
   * be itself after a reload: a handler can run again for the same call (`action.id`). Returns how to take them away.
   *
   * @param {Record<string, Handler>} handlers
   * @returns {() => void}
   */
  tools(handlers) {
    return this.#tools.register(handlers);
  }

  /** `idle`, `connecting`, `connected`, `reconnecting` or `closed`. */
  get status() {
    return this.#standing.status;
  }

  /** Why it is not connected, in words; `null` when there is nothing to say. */
  get reason() {
    return this.#standing.reason;
  }

  /**
   * Hear of every change of the status, and of the status as it is now. Returns how to stop.
   *
   * @param {(status: Status, standing: Standing) => void} fn
   * @returns {() => void}
   */
  onStatus(fn) {
    return this.#listeners.add(fn, () => [this.#standing.status, this.#standing]);
  }

  /** Try again now: after the server said not to come back (a new login, say), or to cut a wait short. */
  reconnect() {
    this.#shell.input({ type: "reopen" });
  }

  /** Leave for good. Commands that were not answered reject with code `closed`. */
  close() {
    this.#tools.close();
    this.#shell.input({ type: "close" });
  }

  /**
   * @param {Unnamed<CommandFrame>} command
   * @returns {Promise<Ack>}
   */
  #ask(command) {
    const id = newId();
    return new Promise((resolve, reject) => {
      this.#promises.set(id, { resolve, reject });
      this.#shell.input({ type: "command", frame: /** @type {CommandFrame} */ ({ ...command, id }) });
    });
  }

  /**
   * @param {Thread} thread
   * @param {boolean} listened
   */
  #follow(thread, listened) {
    if (listened) this.#listened.add(thread);
    else this.#listened.delete(thread);
    this.#shell.input({ type: listened ? "subscribe" : "unsubscribe", thread: thread.id });
  }

  /** @param {Extract<Effect, { type: "settle" | "publish" | "standing" }>} effect */
  #on(effect) {
    switch (effect.type) {
      case "publish":
        this.#threads.get(effect.thread)?.deref()?.show(effect.view);
        this.#tools.look(effect.thread, effect.view);
        return;
      case "standing":
        this.#standing = effect.standing;
        this.#listeners.tell(() => [effect.standing.status, effect.standing]);
        return;
      case "settle": {
        const promise = this.#promises.get(effect.id);
        this.#promises.delete(effect.id);
        if (effect.error === null) promise?.resolve(effect.ack);
        else promise?.reject(effect.error);
        return;
      }
    }
  }
}

/** @param {string | URL} url */
function endpoint(url) {
  const absolute = new URL(url, /** @type {any} */ (globalThis).location?.href);
  if (absolute.protocol === "http:") absolute.protocol = "ws:";
  if (absolute.protocol === "https:") absolute.protocol = "wss:";
  if (absolute.protocol !== "ws:" && absolute.protocol !== "wss:") {
    throw new TypeError(`not a WebSocket URL: ${absolute.protocol}//…; use wss: or ws:`);
  }
  absolute.hash = "";
  return absolute.href;
}

/** A command's id: its idempotency key, so it never occurs twice. `randomUUID` is missing outside secure contexts. */
function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
