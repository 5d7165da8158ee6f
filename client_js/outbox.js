/**
 * Commands that were not answered yet, and when each is to be sent (again). Each keeps its id and its text for as
 * long as it is here, so that sending it once more is the same command to the server. It leaves once, by `take`.
 *
 * Pure: time is an argument. Knows nothing of sockets, only the number of the connection that a command was sent on.
 *
 * @module
 */

/** @import { CommandFrame } from "./wire.js" */

import { delay } from "./backoff.js";

/** Commands sent and unanswered on one connection; less than a server's own limit, so that it is not met. */
const WINDOW = 32;

/** Commands and bytes kept; more is refused with `busy`. */
const MAX_COMMANDS = 1_000;
const MAX_BYTES = 16 * 1024 * 1024;

/** A command unanswered for this long on a living connection is sent again; doubles each time, up to a minute. */
const ANSWER = 10_000;

/** How often a command that the server cannot take just now is tried. */
const MAX_TRIES = 10;

/**
 * @typedef {object} Entry
 * @property {string} id
 * @property {CommandFrame["type"]} type
 * @property {string} thread
 * @property {number} epoch  which of the thread's histories the command was made for
 * @property {string} text  the encoded frame
 * @property {number} bytes
 * @property {number} sentOn  number of the connection it was last sent on; 0 before
 * @property {number} sends  times it was sent on that connection
 * @property {number} answerBy
 * @property {number} tries  times it was refused for now
 * @property {number} retryAt
 */

/** The unanswered commands, in order of asking. */
export class Outbox {
  constructor() {
    /** @type {Map<string, Entry>} */
    this.entries = new Map();
    this.bytes = 0;
    /** Nothing is sent before; set when the server says that this connection sends too fast. */
    this.pausedUntil = 0;
  }

  get size() {
    return this.entries.size;
  }

  /**
   * Keep a command. False: there is no room for it.
   *
   * @param {Pick<Entry, "id" | "type" | "thread" | "epoch" | "text" | "bytes">} command
   */
  add(command) {
    if (this.entries.size >= MAX_COMMANDS || this.bytes + command.bytes > MAX_BYTES) return false;
    this.entries.set(command.id, { ...command, sentOn: 0, sends: 0, answerBy: 0, tries: 0, retryAt: 0 });
    this.bytes += command.bytes;
    return true;
  }

  /**
   * Take a command out because it is settled; `null` if it was already.
   *
   * @param {string} id
   */
  take(id) {
    const entry = this.entries.get(id);
    if (entry === undefined) return null;
    this.entries.delete(id);
    this.bytes -= entry.bytes;
    return entry;
  }

  /** @param {number} limit  in bytes */
  over(limit) {
    return [...this.entries.values()].filter((entry) => entry.bytes > limit);
  }

  /**
   * The largest unanswered command of a connection: the one a complaint about size must be about.
   *
   * @param {number} connection
   */
  largest(connection) {
    const sent = [...this.entries.values()].filter((entry) => entry.sentOn === connection);
    return sent.reduce((/** @type {Entry | null} */ most, one) => (one.bytes > (most?.bytes ?? 0) ? one : most), null);
  }

  /**
   * What to send now on a connection; marks it as sent.
   *
   * @param {number} connection
   * @param {number} now
   */
  send(connection, now) {
    const chosen = [];
    for (const entry of this.#next(connection)) {
      if (this.#dueAt(entry, connection) > now) continue;
      const again = entry.sentOn === connection;
      entry.sends = again ? entry.sends + 1 : 1;
      entry.sentOn = connection;
      entry.retryAt = 0;
      entry.answerBy = now + Math.min(60_000, ANSWER * 2 ** (entry.sends - 1));
      chosen.push(entry);
    }
    return chosen;
  }

  /**
   * When {@link send} will next have something for this connection.
   *
   * @param {number} connection
   */
  nextAt(connection) {
    return Math.min(...this.#next(connection).map((entry) => this.#dueAt(entry, connection)));
  }

  /**
   * Send nothing for a while: trying each kept command in turn would turn a limit into a flood.
   *
   * @param {number} until
   */
  pause(until) {
    this.pausedUntil = Math.max(this.pausedUntil, until);
  }

  /**
   * The server cannot take a command now. Puts it off; false if that happened too often.
   *
   * @param {string} id
   * @param {number} now
   * @param {number} random
   * @param {number} retryMs  what the server asked for
   */
  putOff(id, now, random, retryMs) {
    const entry = this.entries.get(id);
    if (entry === undefined) return true;
    entry.tries += 1;
    if (entry.tries >= MAX_TRIES) return false;
    entry.sentOn = 0;
    entry.retryAt = now + retryMs + delay(entry.tries - 1, random);
    return true;
  }

  /**
   * The commands that may be in flight on a connection. Messages of a thread go one after the other, or a delayed one
   * would arrive behind what was typed after it; answers to different actions need not wait for each other.
   *
   * @param {number} connection
   */
  #next(connection) {
    const chosen = [];
    const talking = new Set();
    let inFlight = 0;
    for (const entry of this.entries.values()) {
      if (entry.type === "message") {
        if (talking.has(entry.thread)) continue;
        talking.add(entry.thread);
      }
      if (entry.sentOn !== connection && entry.retryAt === 0 && inFlight >= WINDOW) continue;
      inFlight += 1;
      chosen.push(entry);
    }
    return chosen;
  }

  /**
   * @param {Entry} entry
   * @param {number} connection
   */
  #dueAt(entry, connection) {
    return Math.max(this.pausedUntil, entry.sentOn === connection ? entry.answerBy : entry.retryAt);
  }
}
