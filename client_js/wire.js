/**
 * The wire's shapes as types: state, events, frames. Twin of `waitpoint_protocol`'s `state.py`, `events.py` and
 * `frames.py`. Holds types only, so it is empty once the comments are gone.
 *
 * @module
 */

/** @typedef {{ id: string, kind: "person" | "system", name?: string }} Actor */
/** @typedef {{ toolName: string, suspendName: string, messageId: string, toolCallId: string }} Origin */
/** @typedef {{ by: Actor, connection: string }} Claim */

/**
 * @typedef {object} ActionShape  One pending visit to a wait point.
 * @property {string} id
 * @property {string} name  `toolName.waitPoint`
 * @property {string} [kind]
 * @property {any} input  What the tool asked.
 * @property {Record<string, any>} schema  JSON Schema of the answer.
 * @property {Origin} origin
 * @property {string} at
 * @property {string} [expiresAt]
 * @property {Claim} [claim]
 */

/**
 * @typedef {object} Resolution  How an action ended.
 * @property {"submitted" | "cancelled" | "failed" | "expired"} how
 * @property {Actor} by
 * @property {string} at
 * @property {any} [data]
 * @property {boolean} [redacted]
 * @property {string} [reason]
 * @property {string} [message]
 */

/** @typedef {{ id: string, suspendName: string, input: any, at: string, resolution?: Resolution }} ActionRecord */
/** @typedef {{ type: "text", id?: string, step?: number, text: string, state: "streaming" | "done" }} TextPart */
/** @typedef {Omit<TextPart, "type"> & { type: "reasoning" }} ReasoningPart */
/** @typedef {{ type: "data", id: string, name: string, data: any, step?: number }} DataPart */
/** @typedef {{ type: "file", url: string, mediaType: string, name?: string }} FilePart */
/** @typedef {{ fraction?: number, message?: string }} Progress */
/**
 * @typedef {"input-streaming" | "input-available" | "running" | "waiting"
 *   | "output-available" | "output-error"} ToolState
 *   They only move forward, except `running` and `waiting`, which alternate.
 */

/**
 * @typedef {object} ToolPart  One tool call.
 * @property {"tool"} type
 * @property {string} toolCallId
 * @property {string} toolName
 * @property {number} step
 * @property {ToolState} state
 * @property {string} [inputText]  Only while the input streams.
 * @property {any} [input]
 * @property {number} [attempt]
 * @property {Progress} [progress]
 * @property {ActionRecord[]} actions
 * @property {any} [output]
 * @property {string} [errorText]
 */

/** @typedef {TextPart | ReasoningPart | DataPart | FilePart | ToolPart} Part */

/**
 * @typedef {object} Message
 * @property {string} id
 * @property {"user" | "assistant" | "system"} role
 * @property {Part[]} parts
 * @property {"open" | "final"} status
 * @property {string} at
 * @property {Actor} [by]
 * @property {string} [reason]
 * @property {string} [errorText]
 */

/**
 * @typedef {object} ThreadState  A client's view of a thread.
 * @property {string} thread
 * @property {"idle" | "running" | "waiting"} status
 * @property {Message[]} messages  Ends with the open assistant message, if any.
 * @property {number} before  Finished messages older than the first one here.
 * @property {ActionShape[]} pending  In order of suspension.
 * @property {Message[]} queued
 * @property {string} [title]
 */

/**
 * @typedef {{ type: "message-added", message: Message }
 *   | { type: "message-queued", message: Message }
 *   | { type: "message-start", messageId: string, at: string }
 *   | { type: "text-start", id: string, step: number }
 *   | { type: "text-delta", id: string, delta: string }
 *   | { type: "text-end", id: string }
 *   | { type: "reasoning-start", id: string, step: number }
 *   | { type: "reasoning-delta", id: string, delta: string }
 *   | { type: "reasoning-end", id: string }
 *   | { type: "tool-input-start", toolCallId: string, toolName: string, step: number }
 *   | { type: "tool-input-delta", toolCallId: string, inputTextDelta: string }
 *   | { type: "tool-input-available", toolCallId: string, toolName: string, step: number, input: any }
 *   | { type: "tool-running", toolCallId: string, attempt: number }
 *   | { type: "tool-progress", toolCallId: string, progress: Progress }
 *   | { type: "action-pending", action: ActionShape }
 *   | { type: "action-claimed", action: string, claim?: Claim }
 *   | { type: "action-resolved", action: string, toolCallId: string, resolution: Resolution }
 *   | { type: "tool-output-available", toolCallId: string, output: any }
 *   | { type: "tool-output-error", toolCallId: string, errorText: string }
 *   | { type: "data", id: string, name: string, data: any, step?: number }
 *   | { type: "step-finish", step: number, reason: string, usage?: Record<string, number> }
 *   | { type: "step-reset", step: number }
 *   | { type: "message-finish", messageId: string, reason: string, errorText?: string }
 *   | { type: "run-start", run: string, at: string }
 *   | { type: "run-finish", run: string, status: "idle" | "waiting", at: string }
 *   | { type: "thread-updated", title?: string }} Event
 */

/** @typedef {{ log: string, seq: number, tag: string }} Cursor  One indivisible value. */
/** @typedef {{ path: (string | number)[], message: string, code: string }} FieldError */
/** @typedef {{ thread: string, from?: Cursor }} Subscribing */

/**
 * @typedef {{ type: "text", text: string }
 *   | { type: "file", url: string, mediaType: string, name?: string }
 *   | { type: "data", id: string, name: string, data: any }} UserPart
 */

/**
 * @typedef {{ type: "message", id: string, thread: string, parts: UserPart[] }
 *   | { type: "submit", id: string, thread: string, action: string, data: any }
 *   | { type: "cancel", id: string, thread: string, action: string, reason?: string }
 *   | { type: "fail", id: string, thread: string, action: string, error: { message: string } }
 *   | { type: "claim" | "release", id: string, thread: string, action: string }
 *   | { type: "stop", id: string, thread: string }
 *   | { type: "history", id: string, thread: string, before: number, limit: number }} CommandFrame
 *   Frames with an id that are kept until they are answered.
 */

/**
 * @typedef {{ type: "hello", token?: string, subscribe?: Subscribing[] }
 *   | { type: "auth", token: string }
 *   | { type: "pong" }
 *   | ({ type: "subscribe" } & Subscribing)
 *   | { type: "unsubscribe", thread: string }
 *   | CommandFrame} ClientFrame
 */

/** @typedef {{ frameBytes: number, subscriptions: number, depth: number }} Limits */
/** @typedef {{ messages: Message[], before: number }} Page */

/**
 * @typedef {object} Ack
 * @property {"ack"} type
 * @property {string} id
 * @property {string} [thread]
 * @property {boolean} [dup]
 * @property {number} [seq]
 * @property {string} [message]
 * @property {boolean} [queued]
 * @property {string} [action]
 * @property {Page} [page]
 */

/**
 * @typedef {object} Reject
 * @property {"reject"} type
 * @property {string} [id]
 * @property {string} [thread]
 * @property {string} code
 * @property {string} message
 * @property {FieldError[]} [errors]
 * @property {Resolution} [winner]
 * @property {number} [retryMs]
 */

/**
 * @typedef {object} Welcome
 * @property {"welcome"} type
 * @property {string} connection
 * @property {{ id: string, name?: string }} identity
 * @property {Limits} limits
 * @property {number} heartbeat
 * @property {number} drainWindow
 */

/**
 * @typedef {object} Snapshot
 * @property {"snapshot"} type
 * @property {string} thread
 * @property {Cursor} cursor
 * @property {ThreadState} state
 * @property {{ index: number, of: number }} [part]
 */

/**
 * @typedef {object} Events
 * @property {"events"} type
 * @property {string} thread
 * @property {string} log
 * @property {number} seq
 * @property {string} prev
 * @property {string} tag
 * @property {Event[]} events
 */

/** @typedef {{ type: "live", thread: string, cursor: Cursor }} Live */
/** @typedef {{ type: "reset", thread: string, why: "gone" | "forked" | "log-lost" | "lagged" }} Reset */
/** @typedef {{ type: "goodbye", reason: string, reconnectWithin: number }} Goodbye */
/** @typedef {Welcome | Snapshot | Events | Live | Reset | Ack | Reject | { type: "ping" } | Goodbye} ServerFrame */

export {};
