/**
 * The one error type that promises of this client reject with. Knows codes and words; nothing of sockets.
 *
 * Codes of the server are those of PROTOCOL.md. Made here: `invalid` and `too-large` (refused before sending), `busy`
 * (outbox full) and `closed` (the client was closed, or the server said not to come back).
 *
 * @module
 */

/** @import { FieldError, Reject, Resolution } from "./wire.js" */

/** A command was refused: `code` says why, `errors` where in the payload, `winner` how the action had already ended. */
export class WaitpointError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {{ errors?: FieldError[], winner?: Resolution, local?: boolean }} [more]
   */
  constructor(code, message, more = {}) {
    super(message);
    this.name = "WaitpointError";
    /** The refusal code. */
    this.code = code;
    /** Field errors; empty unless the code is `invalid` (or the frame itself was bad). */
    this.errors = more.errors ?? [];
    /** How the action ended, if somebody else was first. */
    this.winner = more.winner;
    /** True when this client refused by itself and nothing was sent. */
    this.local = more.local ?? false;
  }

  /**
   * The error that a `reject` frame stands for.
   *
   * @param {Reject} reject
   */
  static of(reject) {
    return new WaitpointError(reject.code, reject.message, { errors: reject.errors, winner: reject.winner });
  }
}
