/**
 * The message box: a draft that survives a reload, Enter to send, and what has been sent but not yet stored.
 *
 * Knows one thread's `send`; nothing of how messages are drawn once they are stored.
 *
 * @module
 */

import { KeyedList, freshId, h, setText, show } from "./dom.js";
import { refusal } from "./words.js";

/** @import { Keep } from "./keep.js" */

/** How long an accepted message may take to show up in the thread before its stand-in is dropped anyway, in ms. */
const SHOW_UP = 5000;

/** @typedef {{ key: string, text: string, state: "sending" | "refused", message?: string, why?: string }} Outgoing */

/** The message box of one thread. */
export class Composer {
  /**
   * @param {{ text: HTMLTextAreaElement, form: HTMLFormElement, outgoing: HTMLElement }} parts
   * @param {any} thread
   * @param {{ keep: Keep, changed: () => void }} around
   */
  constructor({ text, form, outgoing }, thread, { keep, changed }) {
    this.text = text;
    this.thread = thread;
    this.keep = keep;
    this.changed = changed;
    /** @type {Outgoing[]} */
    this.outgoing = [];
    this.list = new KeyedList(outgoing, () => this.#outgoingView());
    this.leaving = new AbortController();
    const { signal } = this.leaving;
    text.value = keep.read("draft") ?? "";
    text.addEventListener("input", () => this.#typed(), { signal });
    text.addEventListener("keydown", (event) => this.#key(event), { signal });
    form.addEventListener("submit", (event) => this.#submit(event), { signal });
    this.#fit();
  }

  /** Stop listening: another thread takes the box over. */
  dispose() {
    this.leaving.abort();
    this.list.clear();
  }

  /** @param {string} text */
  send(text) {
    /** @type {Outgoing} */
    const item = { key: freshId(), text, state: "sending" };
    this.outgoing.push(item);
    void this.#deliver(item);
  }

  /**
   * Draw what is on its way, without what the thread shows by now.
   *
   * @param {any} state
   */
  update(state) {
    const stored = new Set([...state.messages, ...state.queued].map((message) => message.id));
    this.outgoing = this.outgoing.filter((item) => item.message === undefined || !stored.has(item.message));
    this.list.update([...state.queued.map(queuedItem), ...this.outgoing], (item) => item.key);
  }

  /** @param {Outgoing} item */
  async #deliver(item) {
    Object.assign(item, { state: "sending", why: undefined });
    this.changed();
    try {
      const ack = await this.thread.send(item.text);
      item.message = ack.message;
      setTimeout(() => this.#drop(item), ack.message === undefined ? 0 : SHOW_UP);
    } catch (error) {
      Object.assign(item, { state: "refused", why: refusal(error) });
    }
    this.changed();
  }

  /** @param {Outgoing} item */
  #drop(item) {
    if (!this.outgoing.includes(item)) return;
    this.outgoing = this.outgoing.filter((other) => other !== item);
    this.changed();
  }

  #typed() {
    if (this.text.value === "") this.keep.drop("draft");
    else this.keep.write("draft", this.text.value);
    this.#fit();
  }

  /** Grow with the text, where the style sheet cannot do that alone. */
  #fit() {
    if (CSS.supports("field-sizing", "content")) return;
    this.text.style.height = "auto";
    this.text.style.height = `${this.text.scrollHeight}px`;
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    // While an input method composes, Enter chooses a word.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    this.#submit(event);
  }

  /** @param {Event} event */
  #submit(event) {
    event.preventDefault();
    const text = this.text.value;
    if (text.trim() === "") return;
    this.#write("");
    this.send(text);
    this.text.focus();
  }

  /** @param {string} text */
  #write(text) {
    this.text.value = text;
    this.#typed();
  }

  /** @returns {import("./dom.js").View} */
  #outgoingView() {
    const text = h("p", {});
    const why = h("span", {});
    /** @type {any} */
    let shown;
    const act = (/** @type {string} */ label, /** @type {() => void} */ go) => h("button", { type: "button", class: "small", on: { click: go } }, label);
    const actions = h(
      "span",
      { class: "buttons" },
      act("Try again", () => void this.#deliver(shown)),
      act("Edit", () => {
        this.#write(this.text.value === "" ? shown.text : `${shown.text}\n${this.text.value}`);
        this.#drop(shown);
        this.text.focus();
      }),
      act("Discard", () => {
        this.#drop(shown);
        this.text.focus();
      }),
    );
    const node = h("article", { class: "message", data: { role: "user" } }, h("div", { class: "parts" }, h("div", { class: "text" }, text)), h("p", { class: "why" }, why, actions));
    return {
      node,
      update: (item) => {
        shown = item;
        node.dataset.state = item.state;
        setText(text, item.text);
        setText(why, item.state === "refused" ? `Not sent. ${item.why}` : item.state === "queued" ? "Waits for the open turn to end." : "Sending…");
        show(actions, item.state === "refused");
      },
    };
  }
}

/** @param {any} message */
function queuedItem(message) {
  const text = message.parts.map((/** @type {any} */ part) => part.text ?? part.name ?? part.url ?? "").join("\n");
  return { key: `queued ${message.id}`, text, state: "queued" };
}
