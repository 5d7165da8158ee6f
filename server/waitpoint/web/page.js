/**
 * One thread on the page: draws its state, and gives the pieces what they share.
 *
 * Knows a thread handle of the client and the page's regions; how single parts look is for the views. Drawing is done
 * at most once per frame, however fast events arrive.
 *
 * @module
 */

import { Composer } from "./composer.js";
import { KeyedList, attribute, h, setText, show } from "./dom.js";
import { Keep } from "./keep.js";
import { messageView } from "./message.js";
import { requestView, requestsOf } from "./request.js";
import { howItEnded, questionOf, refusal } from "./words.js";

/** @import { AnswerForm } from "./answer.js" */
/** @import { Place } from "./scroll.js" */

/** @typedef {Record<string, any>} Regions  The elements of index.html by id. */

const OLDER = 50;

/** The page while it shows one thread. */
export class Page {
  /**
   * @param {any} thread
   * @param {Regions} regions
   * @param {{ place: Place, title: string, suggestions: { label: string, text: string }[] }} options
   */
  constructor(thread, regions, { place, title, suggestions }) {
    this.thread = thread;
    this.regions = regions;
    this.place = place;
    this.title = title;
    this.keep = new Keep(thread.id);
    /** @type {Map<string, AnswerForm>} Open forms by action. */
    this.forms = new Map();
    this.state = thread.getState();
    /** @type {Map<string, any>} */
    this.pending = new Map();
    /** @type {Set<string>} Messages seen while they were being written. */
    this.open = new Set();
    /** @type {{ text: string, go?: [string, () => void] } | null} What the connection has to say. */
    this.connection = null;
    this.trouble = "";
    this.frame = 0;
    this.messages = new KeyedList(regions.messages, () => messageView(this));
    this.requests = new KeyedList(regions.requests, (action) => requestView(action, this));
    this.composer = new Composer(
      { text: regions["composer-text"], form: regions.composer, outgoing: regions.outgoing },
      thread,
      { keep: this.keep, changed: () => this.schedule() },
    );
    this.leaving = new AbortController();
    this.#wire(suggestions);
    /** @type {() => void} */
    this.unsubscribe = thread.subscribe((/** @type {any} */ state) => {
      this.state = state;
      this.schedule();
    });
    this.place.toEnd();
    this.schedule();
  }

  /** Leave this thread. */
  dispose() {
    this.unsubscribe();
    this.leaving.abort();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
    this.composer.dispose();
    this.messages.clear();
    this.requests.clear();
    this.disposed = true;
  }

  /** Draw soon. */
  schedule() {
    if (this.scheduled || this.disposed) return;
    this.scheduled = true;
    const draw = () => {
      if (!this.scheduled || this.disposed) return;
      this.scheduled = false;
      cancelAnimationFrame(this.frame);
      clearTimeout(this.timer);
      this.#draw();
    };
    this.frame = requestAnimationFrame(draw);
    // A hidden tab gets no frames, but its title should still say that somebody is waited for.
    this.timer = setTimeout(draw, 250);
  }

  /** @param {{ text: string, go?: [string, () => void] } | null} words */
  say(words) {
    this.connection = words;
    this.schedule();
  }

  /**
   * Tell people who do not see the page.
   *
   * @param {string} text
   */
  announce(text) {
    const { announcer } = this.regions;
    announcer.append(h("p", {}, text));
    while (announcer.childElementCount > 5) announcer.firstElementChild.remove();
  }

  /**
   * An action ended that had a form here.
   *
   * @param {any} record
   * @param {boolean} own  It was this tab that ended it.
   */
  ended(record, own) {
    if (!own) this.announce(`${howItEnded(record.resolution)}: ${questionOf(record.input).sentences[0] ?? record.suspendName}`);
  }

  /** @param {string} text @param {HTMLElement} button */
  async copy(text, button) {
    const label = button.querySelector(".label") ?? button;
    const words = label.textContent;
    const copied = await navigator.clipboard?.writeText(text).then(() => true, () => false);
    label.textContent = copied ? "Copied" : "Could not copy";
    this.announce(label.textContent);
    setTimeout(() => (label.textContent = words), 1600);
  }

  /** @param {{ label: string, text: string }[]} suggestions */
  #wire(suggestions) {
    const { regions } = this;
    const on = (/** @type {string} */ id, /** @type {() => void} */ act) => regions[id].addEventListener("click", act, { signal: this.leaving.signal });
    on("stop", () => void this.#stop());
    on("older", () => void this.#older());
    on("notice-button", () => this.#notice()?.go?.[1]());
    document.addEventListener("visibilitychange", () => this.schedule(), { signal: this.leaving.signal });
    regions.suggestions.replaceChildren(
      ...suggestions.map(({ label, text }) =>
        h("li", {}, h("button", { type: "button", class: "chip", on: { click: () => this.#suggest(text) } }, label)),
      ),
    );
  }

  /** @param {string} text */
  #suggest(text) {
    this.composer.send(text);
    this.regions["composer-text"].focus();
  }

  async #stop() {
    const { stop } = this.regions;
    if (stop.getAttribute("aria-disabled") === "true") return;
    stop.setAttribute("aria-disabled", "true");
    try {
      await this.thread.stop();
      this.trouble = "";
    } catch (error) {
      this.trouble = refusal(error);
    }
    stop.removeAttribute("aria-disabled");
    this.schedule();
  }

  async #older() {
    const { older, log } = this.regions;
    older.setAttribute("aria-disabled", "true");
    try {
      await this.thread.loadOlder(OLDER);
      this.trouble = "";
    } catch (error) {
      this.trouble = refusal(error);
    }
    older.removeAttribute("aria-disabled");
    this.schedule();
    if (this.state.before === 0 && document.activeElement === older) log.focus({ preventScroll: true });
  }

  // --- drawing

  #draw() {
    const { state, regions } = this;
    this.#follow(state);
    const first = regions.messages.firstElementChild;
    const grew = first !== null && state.messages.length > 0 && state.messages[0].id !== first.dataset.id;
    const update = () => {
      this.messages.update(state.messages, (message) => message.id, this.pending);
      this.requests.update(requestsOf(state.pending), (action) => action.id, this.pending);
      show(regions.older, state.before > 0);
    };
    if (grew) this.place.hold(first, update);
    else update();
    this.composer.update(state);
    const empty = state.messages.length + state.queued.length + this.composer.outgoing.length === 0;
    show(regions.opening, !state.loaded && empty && state.error === null && this.connection === null);
    show(regions.welcome, state.loaded && empty);
    show(regions.working, state.status === "running" && !isBusy(state.messages.at(-1)));
    show(regions.stop, state.status !== "idle");
    this.#showNotice();
    const name = state.title ?? this.title;
    setText(regions.title, name);
    document.title = this.pending.size > 0 ? `(${this.pending.size}) ${name}` : name;
    attribute(regions.log, "data-status", state.status);
    attribute(regions.log, "data-live", state.live ? "yes" : "no");
    this.place.settle();
  }

  /** Notice what is new since the last time, for those who listen to the page. @param {any} state */
  #follow(state) {
    for (const message of state.messages) {
      if (message.status === "open") this.open.add(message.id);
      else if (this.open.delete(message.id)) this.announce(textOf(message) || "The turn has ended.");
    }
    const same = state.pending.length === this.pending.size && state.pending.every((/** @type {any} */ action) => this.pending.get(action.id) === action);
    if (same) return;
    for (const action of state.pending) {
      if (this.pending.has(action.id)) continue;
      this.announce(`Waiting for an answer: ${questionOf(action.input).sentences[0] ?? action.name}`);
    }
    this.pending = new Map(state.pending.map((/** @type {any} */ action) => [action.id, action]));
  }

  /** @returns {{ text: string, go?: [string, () => void], tone?: string } | null} */
  #notice() {
    const { state, connection, pending, trouble } = this;
    if (connection !== null) return { ...connection, tone: "bad" };
    if (state.error !== null) return { text: refusal(state.error), tone: "bad" };
    if (trouble !== "") return { text: trouble, tone: "bad" };
    if (pending.size === 0) return null;
    const text = pending.size === 1 ? "An answer is needed above." : `${pending.size} answers are needed above.`;
    return { text, go: [pending.size === 1 ? "Go to it" : "Go to the first", () => [...this.forms.values()][0]?.focus()] };
  }

  #showNotice() {
    const { regions } = this;
    const notice = this.#notice();
    show(regions.notice, notice !== null);
    setText(regions["notice-text"], notice?.text ?? "");
    attribute(regions.notice, "data-tone", notice?.tone);
    show(regions["notice-button"], notice?.go !== undefined);
    setText(regions["notice-button"], notice?.go?.[0] ?? "");
  }
}

/** Whether the open message shows by itself that something goes on. @param {any} message */
function isBusy(message) {
  const last = message?.parts.at(-1);
  if (message?.status !== "open" || last === undefined) return false;
  if (last.type === "text" || last.type === "reasoning") return last.state === "streaming" && last.text !== "";
  return last.type === "tool" && (last.state === "running" || last.state === "input-streaming");
}

/** @param {any} message */
function textOf(message) {
  return message.parts
    .filter((/** @type {any} */ part) => part.type === "text")
    .map((/** @type {any} */ part) => part.text)
    .join("\n");
}
