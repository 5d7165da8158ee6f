/**
 * What goes into a session and what comes out, as types. Holds types only, so it is empty once the comments are gone.
 *
 * @module
 */

/** @import { Ack, CommandFrame } from "./wire.js" */
/** @import { View } from "./subscription.js" */
/** @import { WaitpointError } from "./errors.js" */

/** @typedef {"idle" | "token" | "opening" | "greeting" | "ready" | "leaving" | "waiting" | "closed"} Phase */

/** @typedef {"idle" | "connecting" | "connected" | "reconnecting" | "closed"} Status */

/**
 * @typedef {object} Standing  How the connection is doing.
 * @property {Status} status
 * @property {string | null} reason  why it is not connected, in words
 * @property {number | null} code  the close code, if there was one
 * @property {number | null} retryAt  when the next attempt starts, by the session's clock
 */

/**
 * @typedef {{ type: "subscribe" | "unsubscribe", thread: string }
 *   | { type: "command", frame: CommandFrame }
 *   | { type: "token", attempt: number, token: string | null }
 *   | { type: "token-failed", attempt: number, message: string }
 *   | { type: "opened", attempt: number }
 *   | { type: "message", attempt: number, data: unknown }
 *   | { type: "closed", attempt: number, code: number, reason: string }
 *   | { type: "tick" | "awake" | "reopen" | "close" }} Input
 *   `awake`: the page became visible or the network came back. `close`: the user is done with the client.
 */

/**
 * @typedef {{ type: "settle", id: string, ack: Ack, error: null }
 *   | { type: "settle", id: string, ack: null, error: WaitpointError }} Settle
 */

/**
 * @typedef {{ type: "get-token", attempt: number }
 *   | { type: "open", attempt: number }
 *   | { type: "send", text: string }
 *   | { type: "close", code: number, reason: string }
 *   | Settle
 *   | { type: "publish", thread: string, view: View }
 *   | { type: "standing", standing: Standing }
 *   | { type: "wake", at: number }} Effect
 *   `send` and `close` are about the socket opened last. `wake`: send a `tick` at this time; replaces the one before
 *   (`Infinity`: none).
 */

export {};
