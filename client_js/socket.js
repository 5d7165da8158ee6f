/**
 * The shell around the pure session: the only file with a WebSocket, timers, a clock and chance, all injectable. It
 * carries out effects and reports what happened; it decides nothing.
 *
 * @module
 */

/** @import { Effect, Input } from "./effects.js" */

import { SUBPROTOCOL } from "./codec.js";
import { Session } from "./session.js";

/**
 * @typedef {object} SocketLike  What is needed of a WebSocket.
 * @property {(data: string) => void} send
 * @property {(code?: number, reason?: string) => void} close
 * @property {((event: any) => void) | null} onopen
 * @property {((event: any) => void) | null} onmessage
 * @property {((event: any) => void) | null} onclose
 * @property {((event: any) => void) | null} onerror
 */

/**
 * @typedef {object} Surroundings  The world, as far as a client needs it. Everything has a default but
 *   `WebSocket` where the platform has none.
 * @property {new (url: string, protocols: string[]) => SocketLike} WebSocket
 * @property {() => number} now  in ms
 * @property {() => number} random  in [0, 1)
 * @property {(fn: () => void, ms: number) => any} setTimeout
 * @property {(timer: any) => void} clearTimeout
 * @property {(fn: () => void) => () => void} onAwake  calls `fn` when the page is looked at again or the network is
 *   back; returns how to stop
 */

/** @typedef {string | (() => string | null | undefined | Promise<string | null | undefined>)} TokenSource */

/** The longest a timer is set for; the session is asked again then. */
const LONGEST = 60_000;

/** Runs a session on a real socket. */
export class SocketShell {
  /**
   * @param {object} options
   * @param {string} options.url
   * @param {TokenSource} [options.token]
   * @param {Partial<Surroundings>} [options.surroundings]
   * @param {(effect: Extract<Effect, { type: "settle" | "publish" | "standing" }>) => void} options.onEffect
   */
  constructor({ url, token, surroundings, onEffect }) {
    this.url = url;
    this.token = token;
    this.world = complete(surroundings ?? {});
    this.onEffect = onEffect;
    this.session = new Session();
    /** @type {SocketLike | null} The socket of the running attempt, or the last one. */
    this.current = null;
    /** @type {Input[]} */
    this.inputs = [];
    this.busy = false;
    /** @type {any} */
    this.timer = null;
    this.clock = new Clock(this.world.now);
    this.stopWaking = this.world.onAwake(() => this.input({ type: "awake" }));
  }

  /**
   * Give the session an input and do what it says. An effect may lead to another input at once (a constructor that
   * throws); that one waits its turn.
   *
   * @param {Input} input
   */
  input(input) {
    this.inputs.push(input);
    if (this.busy) return;
    this.busy = true;
    try {
      for (let next = this.inputs.shift(); next !== undefined; next = this.inputs.shift()) {
        for (const effect of this.session.step(next, this.clock.read(), this.world.random())) this.#do(effect);
      }
    } finally {
      this.busy = false;
    }
    if (input.type === "close") this.stopWaking();
  }

  /** @param {Effect} effect */
  #do(effect) {
    switch (effect.type) {
      case "get-token":
        void this.#getToken(effect.attempt);
        return;
      case "open":
        return this.#open(effect.attempt);
      case "send":
        return quietly(() => this.current?.send(effect.text));
      case "close":
        return quietly(() => this.current?.close(effect.code, effect.reason));
      case "wake":
        return this.#wake(effect.at);
      default:
        // A listener that throws must not stop the machine.
        try {
          this.onEffect(effect);
        } catch (error) {
          complain(error);
        }
    }
  }

  /**
   * Every path to a socket comes through here, so no socket is ever opened with a token of yesterday.
   *
   * @param {number} attempt
   */
  async #getToken(attempt) {
    try {
      const token = (typeof this.token === "function" ? await this.token() : this.token) ?? null;
      if (token !== null && typeof token !== "string") {
        throw new TypeError(`a token of type ${typeof token}, not a string`);
      }
      this.input({ type: "token", attempt, token });
    } catch (error) {
      this.input({ type: "token-failed", attempt, message: describe(error) });
    }
  }

  /** @param {number} attempt */
  #open(attempt) {
    this.#forget();
    /** @type {SocketLike} */
    let socket;
    try {
      socket = new this.world.WebSocket(this.url, [SUBPROTOCOL]);
    } catch (error) {
      this.input({ type: "closed", attempt, code: 1006, reason: describe(error) });
      return;
    }
    this.current = socket;
    socket.onopen = () => this.input({ type: "opened", attempt });
    socket.onmessage = (event) => this.input({ type: "message", attempt, data: event.data });
    socket.onclose = ({ code = 1006, reason = "" }) => this.input({ type: "closed", attempt, code, reason });
    // A close event always follows; without a listener Node's implementations would throw.
    socket.onerror = () => {};
  }

  /** Let go of a socket that was given up: a dead one would hold on to this client until its TCP times out. */
  #forget() {
    if (this.current === null) return;
    this.current.onopen = this.current.onmessage = this.current.onclose = null;
    this.current = null;
  }

  /** @param {number} at */
  #wake(at) {
    if (this.timer !== null) this.world.clearTimeout(this.timer);
    this.timer = null;
    if (at === Infinity) return;
    const ms = Math.min(LONGEST, Math.max(0, Math.ceil(at - this.clock.read())));
    this.timer = this.world.setTimeout(() => {
      this.timer = null;
      this.input({ type: "tick" });
    }, ms);
  }
}

/**
 * A clock that counts sleep and never goes back. The system's clock may be set, and a monotonic one stands still while
 * some systems sleep; steps back are taken out.
 */
class Clock {
  /** @param {() => number} now */
  constructor(now) {
    this.now = now;
    this.last = now();
    this.time = 0;
  }

  read() {
    const now = this.now();
    this.time += Math.max(0, now - this.last);
    this.last = now;
    return this.time;
  }
}

/**
 * @param {Partial<Surroundings>} given
 * @returns {Surroundings}
 */
function complete(given) {
  const platform = /** @type {any} */ (globalThis).WebSocket;
  const WebSocket = given.WebSocket ?? platform;
  if (WebSocket === undefined) {
    throw new TypeError("this platform has no WebSocket; pass one: new WaitpointClient(url, { WebSocket })");
  }
  return {
    WebSocket,
    now: given.now ?? (() => Date.now()),
    random: given.random ?? (() => Math.random()),
    setTimeout: given.setTimeout ?? ((fn, ms) => setTimeout(fn, ms)),
    clearTimeout: given.clearTimeout ?? ((timer) => clearTimeout(timer)),
    onAwake: given.onAwake ?? onAwake,
  };
}

/** @param {() => void} fn */
function onAwake(fn) {
  const page = /** @type {any} */ (globalThis).document;
  if (page === undefined || typeof globalThis.addEventListener !== "function") return () => {};
  const seen = () => {
    if (page.visibilityState === "visible") fn();
  };
  page.addEventListener("visibilitychange", seen);
  globalThis.addEventListener("online", fn);
  globalThis.addEventListener("pageshow", fn);
  return () => {
    page.removeEventListener("visibilitychange", seen);
    globalThis.removeEventListener("online", fn);
    globalThis.removeEventListener("pageshow", fn);
  };
}

/**
 * A socket that is closing or broken may throw; its close event, or the session's patience, tells the rest.
 *
 * @param {() => void} fn
 */
function quietly(fn) {
  try {
    fn();
  } catch {
    // nothing to add
  }
}

/** @param {unknown} error */
function describe(error) {
  return error instanceof Error ? error.message : String(error);
}

/** @param {unknown} error */
export function complain(error) {
  const report = /** @type {any} */ (globalThis).reportError;
  if (typeof report === "function") report(error);
  else console.error(error);
}
