/**
 * A thread as a page holds it: its state, a way to hear of changes, and the commands. However many components use it,
 * there is one handle per thread and client, one subscription, and one socket.
 *
 * Knows views and commands; nothing of sockets.
 *
 * @module
 */

/** @import { Ack, ActionShape, ThreadState, UserPart } from "./wire.js" */
/** @import { View } from "./subscription.js" */
/** @import { Ask } from "./action.js" */

import { Action } from "./action.js";
import { WaitpointError } from "./errors.js";
import { Listeners } from "./listeners.js";
import { emptyState } from "./reduce.js";

/**
 * @typedef {Omit<ThreadState, "pending"> & {
 *   pending: Action[],
 *   live: boolean,
 *   loaded: boolean,
 *   error: WaitpointError | null,
 * }} ThreadView  The thread's state, with actions that can be ended. `live`: caught up with the server. `loaded`: the
 *   server told the state at least once. `error`: why the thread cannot be followed.
 */

/** One thread. Made by `client.thread(id)`. */
export class Thread {
  /** @type {Ask} */
  #ask;
  /** @type {View} */
  #view;
  /** @type {ThreadView | null} */
  #state = null;
  /** @type {WeakMap<ActionShape, Action>} */
  #actions = new WeakMap();
  /** @type {Promise<boolean> | null} */
  #loading = null;
  /** @type {Listeners<[ThreadView]>} */
  #listeners;

  /**
   * @param {string} id
   * @param {Ask} ask
   * @param {(thread: Thread, listened: boolean) => void} follow  called at the first listener and after the last
   */
  constructor(id, ask, follow) {
    /** Name of the thread. */
    this.id = id;
    this.#ask = ask;
    this.#view = { state: emptyState(id), live: false, loaded: false, error: null };
    this.#listeners = new Listeners((some) => follow(this, some));
  }

  /**
   * Hear of every change, and of the state as it is now. Returns how to stop. The thread is followed while anybody
   * listens. A bound function, so it can be handed to `useSyncExternalStore` as it is.
   *
   * @param {(state: ThreadView) => void} fn
   * @returns {() => void}
   */
  subscribe = (fn) => this.#listeners.add(fn, () => [this.getState()]);

  /**
   * The state as it is now: the same object until something changes, and unchanged parts keep their identity.
   *
   * @returns {ThreadView}
   */
  getState = () => {
    if (this.#state === null) {
      const { state, live, loaded, error } = this.#view;
      this.#state = { ...state, pending: state.pending.map((shape) => this.#action(shape)), live, loaded, error };
    }
    return this.#state;
  };

  /**
   * Say something. Resolves when the message is stored; `queued` in the answer means that it waits for the open turn.
   *
   * @param {string | UserPart[]} content
   * @returns {Promise<Ack>}
   */
  send(content) {
    const parts = typeof content === "string" ? [{ type: /** @type {const} */ ("text"), text: content }] : content;
    const empty = !Array.isArray(parts) || parts.length === 0;
    if (empty || parts.some((part) => part?.type === "text" && part.text === "")) {
      return Promise.reject(new WaitpointError("invalid", "a message needs some content", { local: true }));
    }
    return this.#ask({ type: "message", thread: this.id, parts });
  }

  /**
   * End the open turn: running tools are cancelled, pending actions too.
   *
   * @returns {Promise<Ack>}
   */
  stop() {
    return this.#ask({ type: "stop", thread: this.id });
  }

  /**
   * Show older messages. Resolves to whether there are more of them.
   *
   * @param {number} [limit]  1 to 200
   * @returns {Promise<boolean>}
   */
  loadOlder(limit = 50) {
    // Two requests for the same page would only fetch it twice.
    this.#loading ??= this.#loadOlder(limit).finally(() => (this.#loading = null));
    return this.#loading;
  }

  /** @param {number} limit */
  async #loadOlder(limit) {
    const { before } = this.#view.state;
    if (before === 0) return false;
    const wanted = Math.max(1, Math.min(200, Math.trunc(limit) || 1));
    const { page } = await this.#ask({ type: "history", thread: this.id, before, limit: wanted });
    return page !== undefined && page.before > 0;
  }

  /**
   * The action with this id, whether or not it is pending here: a link in a mail leads to one that was not loaded yet,
   * a late click to one that has ended. The server judges. One that is not pending has an id and nothing to show.
   *
   * @param {string} id
   */
  action(id) {
    const pending = this.getState().pending.find((action) => action.id === id);
    const origin = { toolName: "", suspendName: "", messageId: "", toolCallId: "" };
    return pending ?? new Action({ id, name: "", input: null, schema: {}, origin, at: "" }, this.id, this.#ask);
  }

  /**
   * Show another view. For the client only.
   *
   * @param {View} view
   */
  show(view) {
    if (view === this.#view) return;
    this.#view = view;
    this.#state = null;
    this.#listeners.tell(() => [this.getState()]);
  }

  /** @param {ActionShape} shape */
  #action(shape) {
    let action = this.#actions.get(shape);
    if (action === undefined) {
      action = new Action(shape, this.id, this.#ask);
      this.#actions.set(shape, action);
    }
    return action;
  }
}
