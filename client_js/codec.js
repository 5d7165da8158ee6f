/**
 * Frames to text and back, for `waitpoint.v1.json`, and the rules of values (I-JSON) that are checked before sending.
 *
 * Knows values and frames; nothing of sockets or time. What does not fit the data model is refused by name and place,
 * and never rounded or dropped, as `JSON.stringify` alone would do.
 *
 * @module
 */

/** @import { ClientFrame, CommandFrame, FieldError, ServerFrame } from "./wire.js" */

import { WaitpointError } from "./errors.js";

/** Name of the subprotocol this codec speaks. */
export const SUBPROTOCOL = "waitpoint.v1.json";

/** How deeply lists and objects may nest in a value; a bare scalar has depth 0. */
export const MAX_DEPTH = 64;

/** Values in one payload: a bound on the work, since a graph that shares nodes can be exponentially large as a tree. */
const MAX_VALUES = 1_000_000;

// With the u flag a well-formed pair is one code point, so only lone surrogates match.
const LONE_SURROGATE = /\p{Surrogate}/u;

/** A value that does not fit the data model. */
class ValueRefused extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {(string | number)[]} path
   */
  constructor(code, message, path) {
    super(message);
    this.code = code;
    this.path = path;
  }
}

/**
 * Say what is wrong with a value, if anything. Codes are those of the server: `not-finite`, `integer-range`,
 * `bad-unicode`, `bad-key`, `unsupported-type`, `too-deep`.
 *
 * @param {unknown} value
 * @returns {FieldError | null}
 */
export function refusal(value) {
  try {
    check(value, [], MAX_DEPTH, { left: MAX_VALUES });
    return null;
  } catch (error) {
    if (!(error instanceof ValueRefused)) throw error;
    return { path: error.path, message: error.message, code: error.code };
  }
}

/**
 * @param {unknown} value
 * @param {(string | number)[]} path
 * @param {number} room
 * @param {{ left: number }} budget
 */
function check(value, path, room, budget) {
  if (--budget.left < 0) throw new ValueRefused("too-large", `more than ${MAX_VALUES} values`, []);
  switch (typeof value) {
    case "boolean":
      return;
    case "string":
      return text(value, path);
    case "number":
      return number(value, path);
    case "object":
      if (value === null) return;
      if (room <= 0) throw new ValueRefused("too-deep", "nested too deeply", [...path]);
      return Array.isArray(value) ? list(value, path, room, budget) : record(value, path, room, budget);
    case "undefined":
      throw new ValueRefused("unsupported-type", "undefined has no JSON form; leave it out, or send null", [...path]);
    default:
      throw new ValueRefused("unsupported-type", `a ${typeof value} has no JSON form; convert it first`, [...path]);
  }
}

/**
 * @param {string} value
 * @param {(string | number)[]} path
 */
function text(value, path) {
  if (!LONE_SURROGATE.test(value)) return;
  throw new ValueRefused("bad-unicode", "text with a lone surrogate", path.map(printable));
}

/**
 * @param {number} value
 * @param {(string | number)[]} path
 */
function number(value, path) {
  if (!Number.isFinite(value)) throw new ValueRefused("not-finite", `${value} is not a JSON number`, [...path]);
  // From 1e21 on JSON.stringify writes an exponent, which every peer reads as a float again.
  if (Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < 1e21) {
    throw new ValueRefused("integer-range", "integer outside +-(2^53 - 1); send it as a string", [...path]);
  }
}

/**
 * @param {unknown[]} value
 * @param {(string | number)[]} path
 * @param {number} room
 * @param {{ left: number }} budget
 */
function list(value, path, room, budget) {
  for (let index = 0; index < value.length; index++) {
    path.push(index);
    check(value[index], path, room - 1, budget);
    path.pop();
  }
}

/**
 * @param {object} value
 * @param {(string | number)[]} path
 * @param {number} room
 * @param {{ left: number }} budget
 */
function record(value, path, room, budget) {
  const prototype = Object.getPrototypeOf(value);
  // A prototype without a parent is Object.prototype, of this realm or of a frame's.
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    const kind = value.constructor?.name || "object";
    throw new ValueRefused("unsupported-type", `${kind} has no JSON form; convert it first`, [...path]);
  }
  if (Object.getOwnPropertySymbols(value).length > 0) {
    throw new ValueRefused("bad-key", "object key that is a symbol; keys are strings", [...path]);
  }
  for (const [key, item] of Object.entries(value)) {
    path.push(key);
    text(key, path);
    check(item, path, room - 1, budget);
    path.pop();
  }
}

/** @param {string | number} step */
function printable(step) {
  return typeof step === "string" ? step.replace(/\p{Surrogate}/gu, "\ufffd") : step;
}

/**
 * Spell a command, with `type` and `id` first so that the server can name a command that it refuses for its size.
 * Throws {@link WaitpointError} with code `invalid` if a value in it does not fit.
 *
 * @param {CommandFrame} frame
 * @returns {string}
 */
export function encodeCommand(frame) {
  const { type, id, ...rest } = frame;
  // What people fill in is checked apart, so that error paths start at their payload as the server's do.
  const payload = frame.type === "submit" ? frame.data : rest;
  const wrong = refusal(payload);
  if (wrong !== null) {
    const place = wrong.path.length === 0 ? "the payload" : `$${wrong.path.map(pathStep).join("")}`;
    const code = wrong.code === "too-large" ? "too-large" : "invalid";
    throw new WaitpointError(code, `${wrong.message} at ${place}`, { errors: [wrong], local: true });
  }
  return encode(/** @type {ClientFrame} */ ({ type, id, ...rest }));
}

/** @param {string | number} part */
function pathStep(part) {
  return typeof part === "number" ? `[${part}]` : `.${part}`;
}

/**
 * Spell a frame whose values are known to be good.
 *
 * @param {ClientFrame} frame
 * @returns {string}
 */
export function encode(frame) {
  return JSON.stringify(frame);
}

const encoder = new TextEncoder();

/**
 * Size of a text on the wire, in UTF-8 bytes: what limits count.
 *
 * @param {string} message
 */
export function byteLength(message) {
  return encoder.encode(message).length;
}

/** @type {Record<string, (frame: any) => boolean>} */
const SHAPES = {
  welcome: (f) => isObject(f.limits) && isCount(f.heartbeat) && isCount(f.drainWindow) && isCount(f.limits.frameBytes),
  snapshot: (f) =>
    isText(f.thread) && isCursor(f.cursor) && isObject(f.state) && Array.isArray(f.state.messages) &&
    Array.isArray(f.state.pending) && Array.isArray(f.state.queued) &&
    (f.part === undefined || (isCount(f.part?.index) && isCount(f.part?.of))),
  events: (f) =>
    isText(f.thread) && isText(f.log) && isCount(f.seq) && isText(f.prev) && isText(f.tag) && Array.isArray(f.events) &&
    f.events.every(isObject),
  live: (f) => isText(f.thread) && isCursor(f.cursor),
  reset: (f) => isText(f.thread) && isText(f.why),
  ack: (f) => isText(f.id),
  reject: (f) => isText(f.code) && isText(f.message),
  ping: () => true,
  goodbye: (f) => isCount(f.reconnectWithin),
};

/**
 * Read a message of the server. Frames of unknown types are left out: they belong to a newer protocol. Throws
 * `SyntaxError` or `TypeError` for what is not frames at all; then the connection is of no use.
 *
 * @param {unknown} message
 * @returns {ServerFrame[]}
 */
export function decode(message) {
  if (typeof message !== "string") throw new TypeError("binary message on a text subprotocol");
  const parsed = JSON.parse(message);
  const frames = Array.isArray(parsed) ? parsed : [parsed];
  return frames.filter((frame) => {
    if (!isObject(frame) || !isText(frame.type)) throw new TypeError("not a frame");
    if (!Object.hasOwn(SHAPES, frame.type)) return false;
    if (!SHAPES[frame.type](frame)) throw new TypeError(`malformed ${frame.type} frame`);
    return true;
  });
}

/** @param {unknown} value @returns {value is Record<string, any>} */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** @param {unknown} value */
function isText(value) {
  return typeof value === "string";
}

/** @param {unknown} value */
function isCount(value) {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

/** @param {any} value */
function isCursor(value) {
  return isObject(value) && isText(value.log) && isCount(value.seq) && isText(value.tag);
}
