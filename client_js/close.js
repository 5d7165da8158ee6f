/**
 * What a close code asks of the client. The range decides, so that codes added later are understood too; the table only
 * adds words for people. Twin of `Close` in `codes.py`.
 *
 * @module
 */

import { ceiling, delay } from "./backoff.js";

/** @type {Record<number, string>} */
const WORDS = {
  1000: "the server closed the connection",
  1001: "the server is going away",
  1006: "the connection was lost",
  1009: "a frame was over the size limit",
  1011: "the server failed",
  1012: "the server is restarting",
  1013: "the server is overloaded",
  4000: "the greeting took too long",
  4001: "this client read too slowly",
  4002: "the token expired",
  4003: "this client did not answer pings",
  4004: "too many frames in a short time",
  4005: "the server is draining",
  4500: "the server does not speak this protocol version",
  4501: "not authenticated",
  4502: "not allowed to connect",
  4503: "this page's origin is not allowed",
  4504: "too many connections",
  4505: "the server could not read a frame",
  4506: "the server expected a greeting first",
};

/** How long to spread reconnects over when the server never said (`drainWindow` of `welcome`), in ms. */
const SPREAD = 5_000;

/**
 * Whether a client may come back after this close code.
 *
 * @param {number} code
 */
export function mayReturn(code) {
  return !(code >= 4500 && code <= 4999);
}

/**
 * Why the socket closed, for people.
 *
 * @param {number} code
 * @param {string} [reason]  what the server said
 */
export function words(code, reason) {
  const known = WORDS[code] ?? `the connection closed with code ${code}`;
  return reason && !known.includes(reason) ? `${known}: ${reason}` : known;
}

/**
 * How long to wait before the next attempt after this close code, in ms.
 *
 * @param {number} code
 * @param {{ attempt: number, random: number, drainWindow: number | null }} situation
 */
export function wait(code, { attempt, random, drainWindow }) {
  switch (code) {
    case 1001:
    case 1012:
      // Everybody else was thrown out in the same instant; come back at any moment of the window.
      return Math.floor(random * Math.max(drainWindow ?? SPREAD, ceiling(attempt)));
    case 1011:
    case 1013:
      return delay(attempt, random, 2_000);
    default:
      return delay(attempt, random);
  }
}
