/**
 * Which threads are followed, and where each join stands: asked, live, to be asked again. Pure; time and randomness are
 * arguments. What frames do to a view is `subscription.js`; which socket carries them is `session.js`.
 *
 * @module
 */

/** @import { Events, Live, Reset, Snapshot, Subscribing } from "./wire.js" */
/** @import { WaitpointError } from "./errors.js" */

import { delay } from "./backoff.js";
import { Subscription } from "./subscription.js";

/** A join that shows no progress for this long is asked for again, in ms. */
const JOIN = 15_000;

/** A thread is followed for this long after its last listener left: pages re-render, people go back and forth. */
const GRACE = 500;

/** Threads that go into `hello` at most; the rest is asked for once welcomed. */
const GREETED = 64;

/** Views kept of threads that nobody listens to, so that coming back costs only what was missed. */
const KEPT = 32;

/** One followed thread: its subscription, and where the join stands. */
export class Follow {
  /** @param {string} thread */
  constructor(thread) {
    this.thread = thread;
    this.subscription = new Subscription(thread);
    /** What was last shown of it. */
    this.shown = this.subscription.view;
    this.wanted = true;
    this.leaveAt = Infinity;
    /** @type {"no" | "asked" | "live" | "refused"} */
    this.joined = "no";
    this.joinBy = Infinity;
    this.askAt = 0;
    /** Refusals for now, in a row. */
    this.tries = 0;
  }

  /** True while frames about this thread are expected. */
  get following() {
    return this.joined === "asked" || this.joined === "live";
  }

  /**
   * Ask the server for what is missing.
   *
   * @param {number} now
   * @returns {{ type: "subscribe" } & Subscribing}
   */
  ask(now) {
    this.joined = "asked";
    this.joinBy = now + JOIN;
    return { type: "subscribe", ...this.subscription.request() };
  }

  /**
   * Take a frame about this thread. False: this socket is of no use for it.
   *
   * @param {Snapshot | Events | Live | Reset} frame
   * @param {number} now
   * @param {number} random
   */
  receive(frame, now, random) {
    switch (frame.type) {
      case "events":
        if (this.joined === "asked") this.joinBy = now + JOIN;
        // While a join is under way, batches of before are still arriving; the join's own end tells whether it worked.
        return this.subscription.events(frame) === "ok" || this.joined === "asked" || this.rejoin(now, random);
      case "snapshot":
        this.joined = "asked"; // `live` follows
        this.joinBy = now + JOIN;
        return this.subscription.snapshot(frame) === "ok" || this.rejoin(now, random);
      case "reset":
        this.joined = "asked"; // a snapshot and `live` follow
        this.joinBy = now + JOIN;
        this.subscription.reset(frame);
        return true;
      case "live":
        if (this.subscription.caughtUp(frame) === "rejoin") return this.rejoin(now, random);
        this.joined = "live";
        this.tries = 0;
        return true;
    }
  }

  /**
   * Something is missing: ask again, at once the first time. False: asking has become pointless.
   *
   * @param {number} now
   * @param {number} random
   */
  rejoin(now, random) {
    const failures = ++this.subscription.failures;
    this.subscription.disconnected();
    this.joined = "no";
    this.askAt = failures === 1 ? now : now + delay(failures - 2, random);
    return !this.subscription.hopeless;
  }

  /**
   * The server refused to let this thread be followed, or did not even take that it is to be left.
   *
   * @param {WaitpointError} error
   * @param {boolean} forNow
   * @param {number} now
   * @param {number} random
   * @param {number} retryMs
   */
  rejected(error, forNow, now, random, retryMs) {
    if (!this.wanted) {
      this.joined = forNow ? "asked" : "no";
      this.joinBy = Infinity;
      this.leaveAt = now + retryMs + delay(this.tries++, random);
      return;
    }
    if (!this.following) return;
    this.subscription.refused(error);
    this.joined = forNow ? "no" : "refused";
    if (forNow) this.askAt = now + retryMs + delay(this.tries++, random);
  }

  /** The connection is gone. */
  disconnected() {
    this.subscription.disconnected();
    this.subscription.failures = 0;
    this.joined = "no";
    this.askAt = 0;
    this.tries = 0;
  }

  /** When something has to be done about this thread on a working connection. */
  get dueAt() {
    if (this.joined === "asked") return Math.min(this.joinBy, this.leaveAt);
    if (this.joined === "live") return this.leaveAt;
    return this.joined === "no" && this.wanted ? this.askAt : Infinity;
  }
}

/** All threads that are, or lately were, followed. */
export class Roster {
  constructor() {
    /** @type {Map<string, Follow>} */
    this.follows = new Map();
  }

  /** True while anybody listens to any thread. */
  get wanted() {
    return this.#some((follow) => follow.wanted).length > 0;
  }

  /** @param {string} thread */
  get(thread) {
    return this.follows.get(thread) ?? null;
  }

  /**
   * Follow a thread from now on.
   *
   * @param {string} thread
   */
  want(thread) {
    const follow = this.follows.get(thread) ?? new Follow(thread);
    this.follows.delete(thread); // the map's order is the order of last use
    this.follows.set(thread, follow);
    if (!follow.wanted && follow.joined === "refused") follow.joined = "no";
    follow.wanted = true;
    follow.leaveAt = Infinity;
    return follow;
  }

  /**
   * Nobody listens to a thread any more.
   *
   * @param {string} thread
   * @param {number} now
   */
  drop(thread, now) {
    const follow = this.follows.get(thread);
    if (follow === undefined || !follow.wanted) return;
    follow.wanted = false;
    follow.leaveAt = now + GRACE;
    const idle = this.#some((other) => !other.wanted && !other.following);
    for (const { thread: forgotten } of idle.slice(0, Math.max(0, idle.length - KEPT))) this.follows.delete(forgotten);
  }

  /**
   * The subscriptions that go into `hello`.
   *
   * @param {number} now
   * @returns {Subscribing[]}
   */
  greet(now) {
    return this.#some((follow) => follow.wanted)
      .slice(-GREETED)
      .map((follow) => {
        const { type: _, ...subscribing } = follow.ask(now);
        return subscribing;
      });
  }

  /**
   * Threads whose join made no progress in time.
   *
   * @param {number} now
   */
  stalled(now) {
    return this.#some((follow) => follow.joined === "asked" && follow.joinBy <= now);
  }

  /**
   * Threads to ask for now.
   *
   * @param {number} now
   */
  due(now) {
    return this.#some((follow) => follow.wanted && follow.joined === "no" && follow.askAt <= now);
  }

  /**
   * Threads to leave now.
   *
   * @param {number} now
   */
  leave(now) {
    const left = this.#some((follow) => !follow.wanted && follow.following && follow.leaveAt <= now);
    for (const follow of left) {
      follow.disconnected();
      follow.leaveAt = Infinity;
    }
    return left;
  }

  /** The connection is gone; returns whom that concerns. */
  disconnected() {
    const all = [...this.follows.values()];
    for (const follow of all) follow.disconnected();
    return all;
  }

  /** When {@link stalled}, {@link due} or {@link leave} will next have something. */
  nextAt() {
    let soonest = Infinity;
    for (const follow of this.follows.values()) soonest = Math.min(soonest, follow.dueAt);
    return soonest;
  }

  /** @param {(follow: Follow) => boolean} matches */
  #some(matches) {
    return [...this.follows.values()].filter(matches);
  }
}
