/**
 * Commands from asking to settling: checked and encoded once, kept until answered, settled exactly once. Pure; it
 * settles through the function it was given.
 *
 * Knows commands, limits and refusals; nothing of phases or sockets. What is sent when is `outbox.js`.
 *
 * @module
 */

/** @import { Ack, CommandFrame, Reject } from "./wire.js" */
/** @import { Settle } from "./effects.js" */

import { byteLength, encodeCommand } from "./codec.js";
import { WaitpointError } from "./errors.js";
import { Outbox } from "./outbox.js";

/** Refusals that ask for patience: the same command may be sent again. */
export const FOR_NOW = new Set(["unavailable", "busy", "rate-limited"]);

/** How long to send nothing after sending too fast, in ms; what the server allows again by then is used at once. */
const PAUSE = 1_000;

/** All commands of one client that were not answered yet. */
export class Commands {
  /** @param {(settle: Settle) => void} settle */
  constructor(settle) {
    this.settle = settle;
    this.outbox = new Outbox();
    /** Largest frame the server takes, in bytes; unknown before the first welcome. */
    this.limit = Infinity;
  }

  get size() {
    return this.outbox.size;
  }

  /**
   * Take a command. It is spelled here, so that what the page does with its objects later changes nothing.
   *
   * @param {CommandFrame} frame
   * @param {number} epoch
   */
  ask(frame, epoch) {
    const { id, type, thread } = frame;
    let text;
    try {
      text = encodeCommand(frame);
    } catch (error) {
      // Whatever else a getter or a proxy in the payload may throw is also an answer to its sender, and to nobody else.
      const refused = error instanceof WaitpointError ? error : local("invalid", `unreadable payload: ${error}`);
      return this.refuse(id, refused);
    }
    const bytes = byteLength(text);
    if (bytes > this.limit) return this.refuse(id, this.#tooLarge(bytes));
    if (this.outbox.add({ id, type, thread, epoch, text, bytes })) return;
    this.refuse(id, local("busy", "too many unanswered commands; wait for some first"));
  }

  /**
   * The server said how large a frame may be. What is larger must never be sent.
   *
   * @param {number} limit
   */
  limited(limit) {
    this.limit = limit;
    for (const { id, bytes } of this.outbox.over(limit)) this.refuse(id, this.#tooLarge(bytes));
  }

  /**
   * The server accepted a command. Returns what was asked, `null` if it was settled before.
   *
   * @param {Ack} ack
   */
  accepted(ack) {
    const entry = this.outbox.take(ack.id);
    if (entry !== null) this.settle({ type: "settle", id: ack.id, ack, error: null });
    return entry;
  }

  /**
   * The server refused a command.
   *
   * @param {Reject & { id: string }} reject
   * @param {number} now
   * @param {number} random
   */
  rejected(reject, now, random) {
    const { id, code, retryMs = 0 } = reject;
    if (code === "rate-limited") this.outbox.pause(now + retryMs + PAUSE);
    // Whoever claims does not wait in line: the claim is shown to everybody, and so is its end.
    const claim = code === "busy" && this.outbox.entries.get(id)?.type === "claim";
    if (FOR_NOW.has(code) && !claim && this.outbox.putOff(id, now, random, retryMs)) return;
    this.refuse(id, WaitpointError.of(reject));
  }

  /**
   * The server complained about the size of a frame without saying which: it can only be the largest of those sent.
   *
   * @param {number} connection
   */
  oversized(connection) {
    const largest = this.outbox.largest(connection);
    if (largest === null) return;
    const message = `the server does not take a frame of ${largest.bytes} bytes`;
    this.refuse(largest.id, new WaitpointError("too-large", message));
  }

  /**
   * Settle a command with an error, once. A reject for one that is not kept (any more) settles nothing.
   *
   * @param {string} id
   * @param {WaitpointError} error
   */
  refuse(id, error) {
    const kept = this.outbox.take(id);
    if (kept !== null || error.local) this.settle({ type: "settle", id, ack: null, error });
  }

  /** @param {string} message */
  refuseAll(message) {
    for (const id of [...this.outbox.entries.keys()]) this.refuse(id, local("closed", message));
  }

  /** @param {number} bytes */
  #tooLarge(bytes) {
    return local("too-large", `frame of ${bytes} bytes; the limit is ${this.limit}`);
  }
}

/**
 * A refusal made here; nothing was sent.
 *
 * @param {string} code
 * @param {string} message
 */
export function local(code, message) {
  return new WaitpointError(code, message, { local: true });
}
