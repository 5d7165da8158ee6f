/**
 * The connection as a pure machine: what happened goes in, what to do comes out. It decides when to fetch a token,
 * open, greet, resume, send, send again, leave and give up. Sockets, timers, clock and chance are on the other side:
 * time and randomness are arguments, and every input about a socket carries the number of the attempt it belongs to, so
 * that what an old socket still has to say is ignored (by its number once the next attempt began, by the phase before).
 *
 * | phase    | waits for                       | ends by itself after            |
 * |----------|---------------------------------|---------------------------------|
 * | idle     | something to do                 | (nothing is wanted)             |
 * | token    | the token function              | 30 s                            |
 * | opening  | the socket's open event         | 10 s                            |
 * | greeting | `welcome`                       | 10 s                            |
 * | ready    | frames                          | 2.5 heartbeats of silence       |
 * | leaving  | the close event                 | 3 s                             |
 * | waiting  | the next attempt                | the backoff                     |
 * | closed   | nothing; only `reopen` leads on |                                 |
 *
 * @module
 */

/** @import { Ack, CommandFrame, Reject, ServerFrame, Welcome } from "./wire.js" */
/** @import { Effect, Input, Phase, Standing, Status } from "./effects.js" */
/** @import { Follow } from "./roster.js" */

import { STABLE, delay } from "./backoff.js";
import { mayReturn, wait, words } from "./close.js";
import { decode, encode } from "./codec.js";
import { Commands, FOR_NOW, local } from "./commands.js";
import { WaitpointError } from "./errors.js";
import { Roster } from "./roster.js";

/** Longest stay in a phase, in ms. */
export const PATIENCE = { token: 30_000, opening: 10_000, greeting: 10_000, leaving: 3_000 };

/** A socket is given up after this many heartbeats without any frame. */
const SILENCE = 2.5;

/** A timer that fires this late means that the page was asleep; what arrived meanwhile is read before judging. */
const ASLEEP = 1_500;
const WAKING = 3_000;

/** @type {ReadonlySet<Phase>} Phases that have a socket. */
const CARRYING = new Set(/** @type {Phase[]} */ (["opening", "greeting", "ready", "leaving"]));

/** @type {{ reason: string | null, code: number | null }} */
const NO_TROUBLE = { reason: null, code: null };

/** The state of one client's connection. */
export class Session {
  constructor() {
    /** @type {Phase} */
    this.phase = "idle";
    /** Number of the running attempt; inputs that carry another one are of a socket given up. */
    this.attempt = 0;
    /** Failed attempts in a row, for the backoff. */
    this.failures = 0;
    /** When the phase ends by itself. */
    this.deadline = Infinity;
    /** When to leave after a goodbye. */
    this.leaveAt = Infinity;
    /** @type {Welcome | null} What the server said last about itself; outlives the connection. */
    this.welcome = null;
    /** When the running connection was welcomed. */
    this.welcomedAt = 0;
    /** @type {string | null} */
    this.token = null;
    /** True once the user closed the client. */
    this.finished = false;
    this.commands = new Commands((settle) => this.effects.push(settle));
    this.roster = new Roster();
    /** What went wrong last; nothing while connected. */
    this.trouble = NO_TROUBLE;
    /** @type {Standing} What was last told about the connection. */
    this.standing = { status: "idle", reason: null, code: null, retryAt: null };
    /** Whether the phase's end was put off because the page slept. */
    this.graced = false;
    this.wakeAt = Infinity;
    this.now = 0;
    this.random = 0;
    /** @type {Effect[]} */
    this.effects = [];
    /** @type {Set<Follow>} Threads whose view this step may have changed. */
    this.touched = new Set();
  }

  /** The name the server gave to the running connection; `null` while there is none. */
  get connection() {
    return this.phase === "ready" ? (this.welcome?.connection ?? null) : null;
  }

  /**
   * What a thread shows.
   *
   * @param {string} thread
   */
  view(thread) {
    return this.roster.get(thread)?.subscription.view ?? null;
  }

  /**
   * Take one input and say what to do.
   *
   * @param {Input} input
   * @param {number} now  ms; never goes back
   * @param {number} random  in [0, 1)
   * @returns {Effect[]}
   */
  step(input, now, random) {
    this.now = now;
    this.random = random;
    this.effects = [];
    this.touched.clear();
    if (!("attempt" in input) || input.attempt === this.attempt) this.#take(input);
    this.#goOn();
    for (const follow of this.touched) {
      if (follow.shown === follow.subscription.view) continue;
      follow.shown = follow.subscription.view;
      this.effects.push({ type: "publish", thread: follow.thread, view: follow.shown });
    }
    this.#announce();
    const at = this.#nextAt();
    if (at !== this.wakeAt || input.type === "tick") this.effects.push({ type: "wake", at });
    this.wakeAt = at;
    return this.effects;
  }

  /** @param {Input} input */
  #take(input) {
    switch (input.type) {
      case "subscribe":
        this.touched.add(this.roster.want(input.thread));
        return;
      case "unsubscribe":
        return this.roster.drop(input.thread, this.now);
      case "command":
        return this.#command(input.frame);
      case "token":
        if (this.phase !== "token") return;
        this.token = input.token;
        this.#enter("opening");
        this.effects.push({ type: "open", attempt: this.attempt });
        return;
      case "token-failed":
        if (this.phase === "token") this.#lost(null, `no token: ${input.message}`, delay(this.failures, this.random));
        return;
      case "opened":
        if (this.phase === "opening") this.#greet();
        return;
      case "message":
        if (this.phase === "greeting" || this.phase === "ready" || this.phase === "leaving") this.#message(input.data);
        return;
      case "closed":
        return this.#closed(input.code, input.reason);
      case "tick":
        return this.#tick();
      case "awake":
        // A person is looking now; a running wait is cut short, but its failures stay counted.
        if (this.phase === "waiting") this.deadline = Math.min(this.deadline, this.now + this.random * 500);
        return this.#tick();
      case "reopen":
        if (this.finished || (this.phase !== "closed" && this.phase !== "waiting")) return;
        this.failures = 0;
        this.trouble = NO_TROUBLE;
        this.#enter("idle");
        return;
      case "close":
        this.finished = true;
        if (this.phase !== "closed") this.#end(null, "closed by the user");
        return;
    }
  }

  // --- the way up

  /** Whatever the input was: begin what is due now. */
  #goOn() {
    if (this.phase === "idle" && this.#wanted()) this.#begin();
    if (this.phase !== "ready") return;
    for (const follow of this.roster.stalled(this.now)) {
      this.touched.add(follow);
      if (!follow.rejoin(this.now, this.random)) return this.#giveUp(`thread ${follow.thread} cannot be joined`);
    }
    for (const follow of this.roster.due(this.now)) {
      this.touched.add(follow);
      this.#send(encode(follow.ask(this.now)));
    }
    for (const follow of this.roster.leave(this.now)) {
      this.touched.add(follow);
      this.#send(encode({ type: "unsubscribe", thread: follow.thread }));
    }
    for (const { text } of this.commands.outbox.send(this.attempt, this.now)) this.#send(text);
  }

  #wanted() {
    return this.commands.size > 0 || this.roster.wanted;
  }

  #begin() {
    this.attempt += 1;
    this.token = null;
    this.leaveAt = Infinity;
    this.#enter("token");
    this.effects.push({ type: "get-token", attempt: this.attempt });
  }

  #greet() {
    this.#enter("greeting");
    const subscribe = this.roster.greet(this.now);
    this.#send(
      encode({
        type: "hello",
        ...(this.token === null ? {} : { token: this.token }),
        ...(subscribe.length === 0 ? {} : { subscribe }),
      }),
    );
    this.token = null;
  }

  /** @param {Phase} phase */
  #enter(phase) {
    this.phase = phase;
    this.graced = false;
    this.deadline = phase in PATIENCE ? this.now + PATIENCE[/** @type {keyof PATIENCE} */ (phase)] : Infinity;
  }

  /** @param {string} text */
  #send(text) {
    this.effects.push({ type: "send", text });
  }

  // --- frames

  /** @param {unknown} data */
  #message(data) {
    /** @type {ServerFrame[]} */
    let frames;
    try {
      frames = decode(data);
    } catch (error) {
      return this.#giveUp(`unreadable message: ${error instanceof Error ? error.message : error}`);
    }
    this.#heard();
    for (const frame of frames) this.#frame(frame);
  }

  /** Anything at all that arrives is a sign of life. */
  #heard() {
    if (this.phase !== "ready" || this.welcome === null) return;
    this.deadline = this.now + SILENCE * this.welcome.heartbeat;
    this.graced = false;
  }

  /** @param {ServerFrame} frame */
  #frame(frame) {
    switch (frame.type) {
      case "welcome":
        if (this.phase !== "greeting") return;
        this.welcome = frame;
        this.welcomedAt = this.now;
        this.trouble = NO_TROUBLE;
        this.#enter("ready");
        this.#heard();
        return this.commands.limited(frame.limits.frameBytes);
      case "ping":
        return this.#send(encode({ type: "pong" }));
      case "goodbye":
        // The first goodbye counts: drawing again would favour late moments.
        if (this.leaveAt === Infinity) this.leaveAt = this.now + this.random * frame.reconnectWithin;
        return;
      case "ack":
        return this.#ack(frame);
      case "reject":
        return this.#reject(frame);
      default: {
        const follow = this.roster.get(frame.thread);
        if (follow === null || !follow.following) return; // about something we believe finished
        this.touched.add(follow);
        if (!follow.receive(frame, this.now, this.random)) this.#giveUp(`thread ${frame.thread} cannot be joined`);
      }
    }
  }

  /** @param {CommandFrame} frame */
  #command(frame) {
    if (this.phase === "closed") return this.commands.refuse(frame.id, local("closed", this.#farewell()));
    this.commands.ask(frame, this.roster.get(frame.thread)?.subscription.epoch ?? 0);
  }

  /** @param {Ack} ack */
  #ack(ack) {
    const asked = this.commands.accepted(ack);
    const follow = asked === null ? null : this.roster.get(asked.thread);
    if (asked === null || ack.page === undefined || follow === null) return;
    this.touched.add(follow);
    follow.subscription.older(ack.page, asked.epoch);
  }

  /** @param {Reject} reject */
  #reject(reject) {
    const { id, thread, code, retryMs = 0 } = reject;
    if (id !== undefined) return this.commands.rejected({ ...reject, id }, this.now, this.random);
    if (code === "too-large") return this.commands.oversized(this.attempt);
    const follow = thread === undefined ? null : this.roster.get(thread);
    if (follow === null) return;
    this.touched.add(follow);
    follow.rejected(WaitpointError.of(reject), FOR_NOW.has(code), this.now, this.random, retryMs);
  }

  // --- the way down

  #tick() {
    const late = this.now - this.wakeAt > ASLEEP;
    if (this.phase === "ready" && this.now >= this.leaveAt) {
      this.effects.push({ type: "close", code: 1000, reason: "goodbye" });
      this.#enter("leaving");
      return;
    }
    if (this.now < this.deadline) return;
    switch (this.phase) {
      case "waiting":
        return this.#enter("idle");
      case "token":
        return this.#lost(null, "the token function did not answer", delay(this.failures, this.random));
      case "leaving":
        return this.#left();
      case "opening":
      case "greeting":
      case "ready":
        if (late && !this.graced) {
          this.graced = true;
          this.deadline = this.now + WAKING;
          return;
        }
        return this.#giveUp(
          this.phase === "opening" ? "the connection did not open" :
          this.phase === "greeting" ? "the server did not answer the greeting" : "the server fell silent",
        );
    }
  }

  /**
   * @param {number} code
   * @param {string} said
   */
  #closed(code, said) {
    switch (this.phase) {
      case "leaving":
        return mayReturn(code) ? this.#left() : this.#end(code, words(code, said));
      case "opening":
      case "greeting":
      case "ready":
        break;
      default:
        return;
    }
    if (!mayReturn(code)) return this.#end(code, words(code, said));
    if (code === 1009) this.commands.oversized(this.attempt);
    this.#forgive();
    const drainWindow = this.welcome?.drainWindow ?? null;
    this.#lost(code, words(code, said), wait(code, { attempt: this.failures, random: this.random, drainWindow }));
  }

  /** This socket is of no use. Its close event may never come, so nothing waits for it. @param {string} reason */
  #giveUp(reason) {
    if (!CARRYING.has(this.phase)) return; // an earlier frame of the same message had this socket given up
    this.effects.push({ type: "close", code: 1000, reason: "gave up" });
    this.#forgive();
    this.#lost(null, reason, delay(this.failures, this.random));
  }

  /** We left after a goodbye, at a moment already drawn from the window. */
  #left() {
    this.#forgive();
    this.#lost(null, "the server is draining", this.failures === 0 ? 0 : delay(this.failures, this.random));
  }

  /** A connection that lasted wipes out the failures before it. */
  #forgive() {
    const welcomed = this.phase === "ready" || this.phase === "leaving";
    if (welcomed && this.now - this.welcomedAt >= STABLE) this.failures = 0;
  }

  /**
   * The attempt is over; the next one starts after `pause`.
   *
   * @param {number | null} code
   * @param {string} reason
   * @param {number} pause
   */
  #lost(code, reason, pause) {
    this.failures += 1;
    for (const follow of this.roster.disconnected()) this.touched.add(follow);
    this.#enter("waiting");
    this.deadline = this.now + pause;
    this.trouble = { reason, code };
  }

  /**
   * There will be no other attempt.
   *
   * @param {number | null} code
   * @param {string} reason
   */
  #end(code, reason) {
    this.effects.push({ type: "close", code: 1000, reason: "" });
    this.#enter("closed");
    this.trouble = { reason, code };
    for (const follow of this.roster.disconnected()) this.touched.add(follow);
    this.commands.refuseAll(this.#farewell());
  }

  #farewell() {
    return `the client is closed: ${this.trouble.reason}`;
  }

  // --- what others see

  #announce() {
    const { reason, code } = this.trouble;
    /** @type {Standing} */
    const next = { status: this.#status(), reason, code, retryAt: this.phase === "waiting" ? this.deadline : null };
    const { standing } = this;
    const keys = /** @type {(keyof Standing)[]} */ (Object.keys(next));
    if (keys.every((key) => next[key] === standing[key])) return;
    this.standing = next;
    this.effects.push({ type: "standing", standing: next });
  }

  /** @returns {Status} */
  #status() {
    switch (this.phase) {
      case "idle":
      case "closed":
        return this.phase;
      case "ready":
        return "connected";
      default:
        return this.welcome === null && this.failures === 0 ? "connecting" : "reconnecting";
    }
  }

  /** The next moment at which something happens by itself. */
  #nextAt() {
    if (this.phase !== "ready") return this.deadline;
    return Math.min(this.deadline, this.leaveAt, this.roster.nextAt(), this.commands.outbox.nextAt(this.attempt));
  }
}
