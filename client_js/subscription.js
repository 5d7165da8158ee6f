/**
 * One thread as this client follows it: the view, the cursor it belongs to, and what a frame of the server means for
 * both. Pure; knows frames and the fold, nothing of sockets, timers or other threads.
 *
 * View and cursor change together or not at all. A batch is taken only if it continues the chain: same log, its `prev`
 * is my tag, its `seq` follows mine. One that was delivered before is dropped. Anything else means that something is
 * missing or that the log forked, and the answer is always the same: ask again from the cursor.
 *
 * @module
 */

/** @import { Cursor, Events, Live, Message, Page, Reset, Snapshot, Subscribing, ThreadState } from "./wire.js" */
/** @import { WaitpointError } from "./errors.js" */

import { emptyState, fold } from "./reduce.js";

/** Tags remembered, to tell a repeat from a fork. A repeat older than that costs a rejoin, and nothing else. */
const REMEMBERED = 256;

/** Joins in a row that did not end in `live`, after which the cursor is given up, and after which the socket is. */
const DOUBT_CURSOR = 2;
const DOUBT_SOCKET = 5;

/**
 * @typedef {object} View  What is shown of a thread.
 * @property {ThreadState} state
 * @property {boolean} live  caught up with the server
 * @property {boolean} loaded  the server has told the thread's state at least once
 * @property {WaitpointError | null} error  why the thread cannot be followed
 */

/** @typedef {"ok" | "rejoin"} Verdict */

/** @type {Readonly<Cursor>} */
const START = Object.freeze({ log: "", seq: 0, tag: "" });

/** What this client knows of one thread. */
export class Subscription {
  /** @param {string} thread */
  constructor(thread) {
    this.thread = thread;
    /** @type {View} Replaced whenever it changes. */
    this.view = { state: emptyState(thread), live: false, loaded: false, error: null };
    /** @type {Readonly<Cursor> | null} Where the view stands; `null` while it is void. */
    this.cursor = START;
    /** The log that the view is (or, while void, was) of. */
    this.log = "";
    /** Whether the messages shown are of the history that the next snapshot shows. */
    this.keepsOlder = true;
    /** Rises when the history that older messages belong to was replaced. */
    this.epoch = 0;
    /** Joins in a row without `live`. */
    this.failures = 0;
    /** @type {Map<string, true>} Tags of recent batches, oldest first. */
    this.tags = new Map();
    /** @type {{ cursor: Cursor, of: number, states: ThreadState[] } | null} The pieces of a snapshot so far. */
    this.pieces = null;
  }

  /** What to ask the server for. A view without a log has nothing to resume from. @returns {Subscribing} */
  request() {
    if (this.failures >= DOUBT_CURSOR) this.cursor = null;
    if (this.cursor === null || this.cursor.log === "") return { thread: this.thread };
    return { thread: this.thread, from: this.cursor };
  }

  /** True when asking again on this socket has become pointless. */
  get hopeless() {
    return this.failures >= DOUBT_SOCKET;
  }

  /** Nothing arrives any more, so this is not caught up. A half-received snapshot is worth nothing. */
  disconnected() {
    this.pieces = null;
    this.#show({ live: false });
  }

  /** @param {WaitpointError | null} error */
  refused(error) {
    this.#show({ error, live: error === null && this.view.live });
  }

  /** @param {Events} frame @returns {Verdict} */
  events(frame) {
    const at = this.cursor;
    if (at === null || frame.events.length === 0) return "ok";
    const first = at.log === "" && frame.prev === "" && frame.seq === 1;
    const next = frame.log === at.log && frame.prev === at.tag && frame.seq === at.seq + 1;
    if (!first && !next) {
      const repeated = frame.log === at.log && frame.seq <= at.seq && this.tags.has(frame.tag);
      return repeated ? "ok" : "rejoin";
    }
    const state = fold(this.view.state, frame.events);
    this.#stand({ log: frame.log, seq: at.seq + frame.events.length, tag: frame.tag }, { state });
    return "ok";
  }

  /** @param {Live} frame @returns {Verdict} */
  caughtUp({ cursor }) {
    const at = this.cursor;
    if (at === null || at.log !== cursor.log || at.seq !== cursor.seq || at.tag !== cursor.tag) return "rejoin";
    this.failures = 0;
    this.#show({ live: true, loaded: true, error: null });
    return "ok";
  }

  /**
   * The view is void. What is shown stays until the snapshot arrives, but nothing is added to it.
   *
   * @param {Reset} frame
   */
  reset({ why }) {
    this.cursor = null;
    this.pieces = null;
    if (why !== "gone" && why !== "lagged") this.#replaced();
    this.#show({ live: false });
  }

  /** @param {Snapshot} frame @returns {Verdict} */
  snapshot({ cursor, state, part }) {
    if (part === undefined) return this.#take(cursor, [state]);
    if (part.index === 1) this.pieces = { cursor, of: part.of, states: [] };
    const pieces = this.pieces;
    if (pieces === null || pieces.cursor.tag !== cursor.tag || pieces.states.length !== part.index - 1) {
      this.pieces = null;
      return "rejoin";
    }
    pieces.states.push(state);
    return part.index < pieces.of ? "ok" : this.#take(cursor, pieces.states);
  }

  /**
   * Older messages arrived. They are shown if they reach to the first one shown; what overlaps is cut off.
   *
   * @param {Page} page
   * @param {number} epoch  the epoch when they were asked for
   */
  older(page, epoch) {
    const { state } = this.view;
    const reach = state.before - page.before;
    if (epoch !== this.epoch || reach <= 0 || reach > page.messages.length) return;
    const messages = [...page.messages.slice(0, reach), ...state.messages];
    this.#show({ state: { ...state, messages, before: page.before } });
  }

  /**
   * @param {Cursor} cursor
   * @param {ThreadState[]} pieces
   * @returns {Verdict}
   */
  #take(cursor, pieces) {
    const messages = pieces.flatMap((piece) => piece.messages);
    const whole = { ...pieces[pieces.length - 1], before: pieces[0].before, messages };
    if (this.log !== "" && this.log !== cursor.log) this.#replaced();
    this.pieces = null;
    this.#stand(cursor, { state: this.#withOlder(whole), loaded: true, error: null, live: false });
    return "ok";
  }

  /**
   * Keep older messages that were shown before, if the snapshot goes on where they end: positions of finished messages
   * do not change within one log.
   *
   * @param {ThreadState} snapshot
   */
  #withOlder(snapshot) {
    const { state } = this.view;
    const reach = snapshot.before - state.before;
    const finished = state.messages.filter((message) => message.status === "final");
    if (!this.keepsOlder || reach <= 0 || reach > finished.length) {
      this.keepsOlder = true;
      return snapshot;
    }
    /** @type {Message[]} */
    const messages = [...finished.slice(0, reach), ...snapshot.messages];
    return { ...snapshot, messages, before: state.before };
  }

  #replaced() {
    this.epoch += 1;
    this.keepsOlder = false;
    this.tags.clear();
  }

  /**
   * @param {Cursor} cursor
   * @param {Partial<View>} change
   */
  #stand(cursor, change) {
    this.cursor = cursor;
    this.log = cursor.log;
    this.tags.set(cursor.tag, true);
    if (this.tags.size > REMEMBERED) this.tags.delete(this.tags.keys().next().value ?? "");
    this.#show(change);
  }

  /** @param {Partial<View>} change */
  #show(change) {
    const keys = /** @type {(keyof View)[]} */ (Object.keys(change));
    if (keys.some((key) => this.view[key] !== change[key])) this.view = { ...this.view, ...change };
  }
}
