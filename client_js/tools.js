/**
 * Client tools: handlers of a page, run for the calls that wait for one. One tab claims a call, runs it once and answers.
 *
 * Knows pending actions and commands; nothing of sockets. A claim belongs to a connection, so a handler that still runs
 * after a reconnect claims again before it answers, and gives up if another tab was faster.
 *
 * @module
 */

/** @import { ActionShape } from "./wire.js" */
/** @import { Ask } from "./action.js" */
/** @import { View } from "./subscription.js" */

import { Action } from "./action.js";
import { WaitpointError } from "./errors.js";

/** The kind of an action that a page's handler ends. */
const KIND = "client-tool";

/** Refusals of an answer that say that the answer is at fault: the same one would be refused again. */
const OUR_FAULT = new Set(["invalid", "too-large", "bad-frame"]);

/**
 * @typedef {(input: any, context: { signal: AbortSignal, action: Action, thread: string }) => any} Handler
 *   Returns (a promise of) the output. What it throws is the call's error. `signal` aborts when nobody wants the output
 *   any more: the call was ended elsewhere, or another tab runs it.
 */

/**
 * @typedef {object} Job  One call that this tab runs, or is about to.
 * @property {string} thread
 * @property {ActionShape} shape  the action as it was shown last
 * @property {Action} action
 * @property {Handler} handler
 * @property {AbortController} abort
 * @property {string | null} claimedOn  the connection to which the call was granted
 * @property {boolean} claiming
 * @property {boolean} started  the handler runs or ran; it is not started twice
 * @property {(() => Promise<unknown>) | null} answer  what came of it, once it ended
 * @property {boolean} answering
 * @property {boolean} over  nothing more is done; kept until the action is gone, so that it is not taken up again
 */

/** Runs the registered handlers of one client. */
export class ClientTools {
  /** @type {Ask} */
  #ask;
  /** @type {() => string | null} */
  #connection;
  /** @type {Map<string, Handler>} */
  #handlers = new Map();
  /** @type {Map<string, Job>} By action. */
  #jobs = new Map();
  /** @type {Map<string, View>} The last live view of each thread. */
  #views = new Map();
  /** @type {WeakSet<ActionShape>} Free by what was shown, taken by what the server said: news of it is on its way. */
  #taken = new WeakSet();

  /**
   * @param {Ask} ask
   * @param {() => string | null} connection  the name the server gave to the connection; `null` while there is none
   */
  constructor(ask, connection) {
    this.#ask = ask;
    this.#connection = connection;
  }

  /**
   * Register handlers by tool name. Returns how to take them away; what runs then is aborted and given back.
   *
   * @param {Record<string, Handler>} handlers
   * @returns {() => void}
   */
  register(handlers) {
    const entries = Object.entries(handlers);
    for (const [name, handler] of entries) {
      if (typeof handler !== "function") throw new TypeError(`the handler of ${name} is no function`);
      if (this.#handlers.has(name)) throw new TypeError(`${name} has a handler already; take that one away first`);
    }
    for (const [name, handler] of entries) this.#handlers.set(name, handler);
    for (const [thread, view] of [...this.#views]) this.look(thread, view);
    return () => {
      for (const [name, handler] of entries) {
        if (this.#handlers.get(name) === handler) this.#handlers.delete(name);
        for (const job of [...this.#jobs.values()]) if (job.handler === handler) this.#giveBack(job);
      }
    };
  }

  /**
   * A thread shows something else.
   *
   * @param {string} thread
   * @param {View} view
   */
  look(thread, view) {
    // A view that is behind may show calls that were ended long ago.
    if (!view.live) return void this.#views.delete(thread);
    this.#views.set(thread, view);
    const pending = new Map(view.state.pending.map((shape) => [shape.id, shape]));
    for (const job of [...this.#jobs.values()]) {
      if (job.thread === thread && !pending.has(job.shape.id)) this.#drop(job, "this call was ended elsewhere");
    }
    for (const shape of pending.values()) if (shape.kind === KIND) this.#consider(thread, shape);
  }

  /** The client is closed: nothing of what runs can be answered any more. */
  close() {
    for (const job of [...this.#jobs.values()]) this.#drop(job, "the client is closed");
    this.#handlers.clear();
    this.#views.clear();
  }

  /**
   * @param {string} thread
   * @param {ActionShape} shape
   */
  #consider(thread, shape) {
    let job = this.#jobs.get(shape.id);
    if (job === undefined) {
      const handler = this.#handlers.get(shape.origin.toolName);
      if (handler === undefined || shape.claim !== undefined || this.#taken.has(shape)) return;
      job = this.#take(thread, shape, handler);
    }
    job.shape = shape;
    this.#goOn(job);
  }

  /**
   * @param {string} thread
   * @param {ActionShape} shape
   * @param {Handler} handler
   */
  #take(thread, shape, handler) {
    /** @type {Job} */
    const job = {
      thread, shape, handler,
      action: new Action(shape, thread, this.#ask),
      abort: new AbortController(),
      claimedOn: null, claiming: false, started: false, answer: null, answering: false, over: false,
    };
    this.#jobs.set(shape.id, job);
    return job;
  }

  /**
   * Do what is to be done next: claim, run, answer.
   *
   * @param {Job} job
   */
  #goOn(job) {
    if (job.over || job.claiming || job.answering) return;
    const connection = this.#connection();
    if (connection === null) return;
    // What the server granted counts, whatever is shown: news of older claims may still be on its way.
    if (job.claimedOn !== connection) {
      const holder = job.shape.claim?.connection;
      if (holder === undefined) void this.#claim(job);
      else if (holder !== job.claimedOn) this.#drop(job, "another tab runs this call");
      return; // held by the connection this tab had before: it is given back, or lapses
    }
    if (!job.started) void this.#run(job);
    else if (job.answer !== null) void this.#answer(job, job.answer);
  }

  /** @param {Job} job */
  async #claim(job) {
    const { shape } = job;
    job.claiming = true;
    try {
      await this.#ask({ type: "claim", thread: job.thread, action: shape.id });
      job.claimedOn = this.#connection();
      job.claiming = false;
      if (!job.over) this.#goOn(job);
      else if (!this.#jobs.has(shape.id)) this.#release(job); // unless new handlers have taken it up meanwhile
    } catch (error) {
      job.claiming = false;
      if (job.over) return;
      if (!(error instanceof WaitpointError) || error.code !== "busy") {
        job.over = true;
        job.abort.abort(error);
        return;
      }
      this.#drop(job, "another tab runs this call");
      this.#taken.add(shape);
      const now = this.#views.get(job.thread)?.state.pending.find(({ id }) => id === shape.id);
      if (now !== undefined) this.#consider(job.thread, now);
    }
  }

  /** @param {Job} job */
  async #run(job) {
    const { action, abort: { signal }, thread } = job;
    job.started = true;
    try {
      const output = await job.handler(action.input, { signal, action, thread });
      // A handler that returns nothing answers null; a missing answer would be none at all.
      job.answer = () => action.submit(output === undefined ? null : output);
    } catch (error) {
      job.answer = () => action.fail(error);
    }
    this.#goOn(job);
  }

  /**
   * @param {Job} job
   * @param {() => Promise<unknown>} answer
   */
  async #answer(job, answer) {
    job.answering = true;
    try {
      await answer();
    } catch (refused) {
      const failed =
        refused instanceof WaitpointError &&
        OUR_FAULT.has(refused.code) &&
        // Nobody else would do better with this handler, and the call must not wait for ever.
        (await job.action.fail(new Error(`the output was refused: ${refused.message}`)).then(() => true, () => false));
      // Whatever it was, this tab cannot end the call: another one may, and must not find it claimed for ever.
      if (!failed) this.#release(job);
    }
    job.over = true;
  }

  /**
   * Somebody else has it, or nobody wants it: let go, and take it up again if it is ever offered again.
   *
   * @param {Job} job
   * @param {string} why
   */
  #drop(job, why) {
    job.over = true;
    this.#jobs.delete(job.shape.id);
    job.abort.abort(new Error(why));
  }

  /** @param {Job} job */
  #giveBack(job) {
    if (job.over) return;
    this.#drop(job, "the handler was taken away");
    if (job.claimedOn !== null && !job.answering) this.#release(job);
  }

  /** @param {Job} job */
  #release(job) {
    this.#ask({ type: "release", thread: job.thread, action: job.shape.id }).catch(() => {});
  }
}
