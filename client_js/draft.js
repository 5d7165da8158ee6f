/**
 * A thread's state under change: copies an object the first time it is written to, and remembers which are its own
 * copies. Knows the state's shape; what events do to it is `reduce.js`.
 *
 * @module
 */

/** @import { Message, Part, ThreadState } from "./wire.js" */

/**
 * The assistant message that is being written, or `null`.
 *
 * @param {ThreadState} state
 * @returns {Message | null}
 */
export function openMessage(state) {
  const last = state.messages[state.messages.length - 1];
  return last !== undefined && last.status === "open" ? last : null;
}

/** One batch's changes. */
export class Draft {
  /** @param {ThreadState} state */
  constructor(state) {
    this.state = state;
    /** @type {WeakSet<object>} */
    this.own = new WeakSet();
  }

  /** The state, to write to. */
  root() {
    return (this.state = this.copy(this.state));
  }

  /**
   * A list of the state, to write to.
   *
   * @template {"messages" | "pending" | "queued"} K
   * @param {K} name
   * @returns {ThreadState[K]}
   */
  list(name) {
    const root = this.root();
    return (root[name] = this.copy(root[name]));
  }

  /** The open message with its list of parts, to write to; only if there is one. */
  open() {
    const messages = this.list("messages");
    const last = messages.length - 1;
    const message = (messages[last] = this.copy(messages[last]));
    message.parts = this.copy(message.parts);
    return message;
  }

  /**
   * The part at `index` of the open message, to write to.
   *
   * @template {Part} P
   * @param {number} index
   * @returns {P}
   */
  part(index) {
    const { parts } = this.open();
    return /** @type {P} */ (parts[index] = this.copy(parts[index]));
  }

  /**
   * @template {object} T
   * @param {T} value
   * @returns {T}
   */
  copy(value) {
    if (this.own.has(value)) return value;
    const copied = /** @type {T} */ (Array.isArray(value) ? value.slice() : { ...value });
    this.own.add(copied);
    return copied;
  }
}
