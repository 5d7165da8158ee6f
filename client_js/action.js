/**
 * A pending action as a page holds it: what the tool asked, and the three ways to end it.
 *
 * Knows how to phrase commands; not how they travel.
 *
 * @module
 */

/** @import { Ack, ActionShape, Claim, CommandFrame, Origin } from "./wire.js" */

import { WaitpointError } from "./errors.js";

/**
 * @template T
 * @typedef {T extends any ? Omit<T, "id"> : never} Unnamed  A command before it got its id.
 */

/** @typedef {(command: Unnamed<CommandFrame>) => Promise<Ack>} Ask  Sends a command; settles once. */

/** Longest text of a failure that the protocol takes, in characters (code points). */
const LONGEST = 2_000;

/** One pending visit to a wait point. Each way to end it resolves when the server accepted it. */
export class Action {
  /** @type {Ask} */
  #ask;
  /** @type {string} */
  #thread;

  /**
   * @param {ActionShape} shape
   * @param {string} thread
   * @param {Ask} ask
   */
  constructor(shape, thread, ask) {
    this.#ask = ask;
    this.#thread = thread;
    /** @type {string} */
    this.id = shape.id;
    /** @type {string} `toolName.waitPoint` */
    this.name = shape.name;
    /** @type {string | undefined} */
    this.kind = shape.kind;
    /** What the tool asked. */
    this.input = shape.input;
    /** JSON Schema of the answer. */
    this.schema = shape.schema;
    /** @type {Origin} */
    this.origin = shape.origin;
    /** @type {string} */
    this.at = shape.at;
    /** @type {string | undefined} */
    this.expiresAt = shape.expiresAt;
    /** @type {Claim | undefined} */
    this.claim = shape.claim;
  }

  /**
   * Answer. Rejects with code `invalid` and `errors` if the answer does not match the schema (the action stays
   * pending), with `already-resolved` and `winner` if somebody was first. `null` is an answer; nothing at all is not.
   *
   * @param {any} data
   * @returns {Promise<Ack>}
   */
  submit(data) {
    return this.#ask({ type: "submit", thread: this.#thread, action: this.id, data });
  }

  /**
   * Abandon the action without an answer. The model is told.
   *
   * @param {{ reason?: string }} [options]
   * @returns {Promise<Ack>}
   */
  cancel({ reason } = {}) {
    const base = { type: /** @type {const} */ ("cancel"), thread: this.#thread, action: this.id };
    if (reason === undefined) return this.#ask(base);
    if (typeof reason !== "string" || [...reason].length > LONGEST) {
      return Promise.reject(invalid("reason", `the reason is a text of at most ${LONGEST} characters`));
    }
    return this.#ask({ ...base, reason });
  }

  /**
   * Say that the action could not be done. The model is told. Long messages are cut.
   *
   * @param {unknown} error  an `Error`, a text, or anything with a `message`
   * @returns {Promise<Ack>}
   */
  fail(error) {
    return this.#ask({ type: "fail", thread: this.#thread, action: this.id, error: { message: messageOf(error) } });
  }
}

/** @param {unknown} error */
function messageOf(error) {
  const said = typeof error === "object" && error !== null && "message" in error ? error.message : error;
  const text = said === undefined || said === null ? "" : String(said);
  // Whatever a library put into its message, saying that it failed must not fail.
  const sound = text.replace(/\p{Surrogate}/gu, "\ufffd") || "failed without a message";
  const characters = [...sound];
  return characters.length > LONGEST ? `${characters.slice(0, LONGEST - 1).join("")}…` : sound;
}

/**
 * @param {string} field
 * @param {string} message
 */
function invalid(field, message) {
  return new WaitpointError("invalid", message, { errors: [{ path: [field], message, code: "invalid" }], local: true });
}
