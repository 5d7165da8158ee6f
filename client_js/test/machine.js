/**
 * A session under test: feeds it inputs at chosen times and keeps what it asked for. Not a double of anything: the
 * session is pure, so this is only the clock and the wire it would have had.
 */

import { Session } from "../session.js";

export const LIMITS = { frameBytes: 262_144, subscriptions: 100, depth: 64 };
export const AT = "2026-12-01T08:00:00.000Z";

export const welcome = (more = {}) => ({
  type: "welcome", connection: "w1", identity: { id: "ann" }, limits: LIMITS, heartbeat: 25_000, drainWindow: 8_000, ...more,
});
export const state = (thread, more = {}) => ({ thread, status: "idle", messages: [], before: 0, pending: [], queued: [], ...more });
export const said = (id, text = id) => ({
  id, role: "user", parts: [{ type: "text", text, state: "done" }], status: "final", at: AT,
});
export const cursor = (log, seq, tag) => ({ log, seq, tag });

/** A batch of one message that continues from `prev`. */
export const batch = (thread, log, seq, prev, tag, ...ids) => ({
  type: "events", thread, log, seq, prev, tag, events: (ids.length > 0 ? ids : [`m${seq}`]).map((id) => ({ type: "message-added", message: said(id) })),
});
export const snapshot = (thread, at, more = {}, part = undefined) => ({
  type: "snapshot", thread, cursor: at, state: state(thread, more), ...(part === undefined ? {} : { part }),
});

export class Machine {
  constructor({ random = 0.5 } = {}) {
    this.session = new Session();
    this.now = 0;
    this.random = random;
    this.wakeAt = Infinity;
    this.open = 0; // number of the attempt whose socket we play
    this.sent = []; // frames, in order, not yet looked at
    this.closes = [];
    this.settled = new Map();
    this.views = new Map();
    this.standing = null;
    this.opens = 0;
    this.tokens = 0;
  }

  step(input) {
    const effects = this.session.step(input, this.now, this.random);
    for (const effect of effects) {
      switch (effect.type) {
        case "wake": this.wakeAt = effect.at; break;
        case "get-token": this.tokens += 1; break;
        case "open": this.opens += 1; this.open = effect.attempt; break;
        case "send": this.sent.push(JSON.parse(effect.text)); break;
        case "close": this.closes.push(effect); break;
        case "publish": this.views.set(effect.thread, effect.view); break;
        case "standing": this.standing = effect.standing; break;
        case "settle":
          if (this.settled.has(effect.id)) throw new Error(`command ${effect.id} settled twice`);
          this.settled.set(effect.id, effect.error ?? effect.ack);
          break;
      }
    }
    return effects;
  }

  subscribe(thread) { return this.step({ type: "subscribe", thread }); }
  unsubscribe(thread) { return this.step({ type: "unsubscribe", thread }); }
  command(frame) { return this.step({ type: "command", frame }); }
  submit(id, data = true, thread = "t") { return this.command({ type: "submit", id, thread, action: "a1", data }); }
  say(id, thread = "t") { return this.command({ type: "message", id, thread, parts: [{ type: "text", text: id }] }); }

  token(token = null) { return this.step({ type: "token", attempt: this.session.attempt, token }); }
  opened() { return this.step({ type: "opened", attempt: this.open }); }
  receive(...frames) {
    return this.step({ type: "message", attempt: this.open, data: JSON.stringify(frames.length === 1 ? frames[0] : frames) });
  }
  closed(code = 1006, reason = "") { return this.step({ type: "closed", attempt: this.open, code, reason }); }

  /** Let time pass, with a tick at every moment that was asked for. */
  pass(ms) {
    const end = this.now + ms;
    for (let ticks = 0; this.wakeAt <= end; ticks++) {
      if (ticks > 10_000) throw new Error("the session asks to be woken over and over");
      this.now = Math.max(this.now, this.wakeAt);
      this.step({ type: "tick" });
    }
    this.now = end;
  }

  /** Let time pass as in a page that sleeps: no tick until the end. */
  sleep(ms) {
    this.now += ms;
    return this.step({ type: "tick" });
  }

  /** From wherever it stands up to a welcome, playing a healthy server. */
  connect(more = {}) {
    for (let turns = 0; this.session.phase !== "ready"; turns++) {
      if (turns > 20) throw new Error(`no connection from phase ${this.session.phase}`);
      switch (this.session.phase) {
        case "token": this.token(); break;
        case "opening": this.opened(); break;
        case "greeting": this.receive(welcome(more)); break;
        case "waiting": this.pass(this.wakeAt - this.now); break;
        default: throw new Error(`nothing leads on from phase ${this.session.phase}`);
      }
    }
    return this;
  }

  /** Connected, and live on `thread` at (L, 2, x) with these messages. */
  follow(thread, ...ids) {
    const at = cursor("L", 2, "x");
    this.subscribe(thread);
    this.connect();
    this.receive(snapshot(thread, at, { messages: ids.map((id) => said(id)) }), { type: "live", thread, cursor: at });
    this.take();
    return this;
  }

  /** The frames sent since the last look, of one type if given. */
  take(type) {
    const frames = this.sent;
    this.sent = [];
    return type === undefined ? frames : frames.filter((frame) => frame.type === type);
  }

  texts(thread) {
    return this.views.get(thread).state.messages.map(({ id }) => id);
  }
}
