/**
 * One visit to a wait point inside a tool card: what was asked, the form while it is pending, and how it ended.
 *
 * Knows action records, actions and the answer form. When somebody else ends the action, the form gives way to the winner,
 * and what was typed here stays readable.
 *
 * @module
 */

import { AnswerForm } from "./answer.js";
import { freshId, h, setText, show } from "./dom.js";
import { icon } from "./icons.js";
import { rowsValue, valueView } from "./value.js";
import { clockTime, howItEnded, humanise, questionOf } from "./words.js";

/** @typedef {import("./page.js").Page} Page */

/** A visit, from the question to its end. */
export class VisitView {
  /**
   * @param {any} record
   * @param {Page} page
   */
  constructor(record, page) {
    this.page = page;
    this.record = record;
    /** @type {AnswerForm | null} */
    this.form = null;
    this.ended = false;
    const titleId = freshId();
    this.titleId = titleId;
    this.meta = h("p", { class: "meta", hidden: true });
    this.body = h("div", { class: "visit-body" });
    this.outcome = h("div", { class: "outcome", tabindex: "-1", hidden: true });
    this.unsent = h("div", { class: "unsent", hidden: true });
    this.node = h("section", { class: "visit", data: { action: record.id }, "aria-labelledby": titleId }, this.#question(titleId), this.meta, this.body, this.outcome, this.unsent);
  }

  /**
   * @param {any} record
   * @param {Map<string, any>} pending
   */
  update(record, pending) {
    const action = pending.get(record.id);
    const changed = record !== this.record;
    this.record = record;
    if (record.resolution !== undefined) {
      if (changed || !this.ended) this.#end(record.resolution);
      return;
    }
    this.#wait(action);
  }

  dispose() {
    this.page.forms.delete(this.record.id);
  }

  /** @param {string} titleId */
  #question(titleId) {
    const { sentences, details } = questionOf(this.record.input);
    const [first, ...rest] = sentences.length > 0 ? sentences : [humanise(this.record.suspendName)];
    return h(
      "div",
      { class: "question" },
      h("h3", { id: titleId }, first),
      rest.map((sentence) => h("p", {}, sentence)),
      details.length > 0 && rowsValue(details),
    );
  }

  /** @param {any} action */
  #wait(action) {
    this.node.dataset.state = action === undefined ? "closed" : "pending";
    if (action === undefined) {
      // Neither pending nor resolved: the state has moved on without saying how, as after a snapshot of a stopped thread.
      setText(this.meta, "No longer waiting.");
      show(this.meta, true);
      show(this.body, false);
      return;
    }
    show(this.body, true);
    this.#describe(action);
    if (this.form === null) {
      this.form = new AnswerForm(action, { keep: this.page.keep, changed: () => this.#settled(), labelledBy: this.titleId });
      this.body.replaceChildren(this.form.node);
      this.page.forms.set(action.id, this.form);
    }
    this.form.action = action;
  }

  /** @param {any} action */
  #describe(action) {
    const words = [];
    if (action.claim) words.push(`${action.claim.by.name ?? action.claim.by.id} is working on this in a tab.`);
    if (action.expiresAt) words.push(`Answer by ${clockTime(action.expiresAt)}.`);
    setText(this.meta, words.join(" "));
    show(this.meta, words.length > 0);
  }

  /** @param {any} resolution */
  #end(resolution) {
    const focused = this.body.contains(document.activeElement);
    this.ended = true;
    this.page.forms.delete(this.record.id);
    this.node.dataset.state = resolution.how;
    show(this.meta, false);
    show(this.body, false);
    const good = resolution.how === "submitted";
    const line = h("p", { class: "ended" }, icon(good ? "done" : "remove"), h("strong", {}, howItEnded(resolution)), h("time", { datetime: resolution.at }, clockTime(resolution.at)));
    this.outcome.replaceChildren(line, ...this.#what(resolution));
    show(this.outcome, true);
    if (focused) this.outcome.focus({ preventScroll: true });
    this.#settled();
    if (this.form === null) this.page.keep.drop(`answer:${this.record.id}`);
    else this.page.ended(this.record, this.form.state !== "idle");
  }

  /** @param {any} resolution @returns {HTMLElement[]} */
  #what(resolution) {
    if (resolution.redacted) return [h("p", { class: "nothing" }, "The answer is hidden.")];
    if (resolution.how === "submitted") return "data" in resolution ? [valueView(resolution.data)] : [];
    const words = resolution.reason ?? resolution.message;
    return words ? [h("p", { class: "words" }, words)] : [];
  }

  /** The form's own command was answered, or the action ended: show what nobody received, if anything. */
  #settled() {
    const form = this.form;
    if (form === null || !this.ended) return;
    const lost = form.unsent;
    show(this.unsent, lost);
    if (!lost || this.unsent.childElementCount > 0) return;
    const typed = form.typed;
    const copy = h("button", { type: "button", class: "small" }, "Copy");
    copy.addEventListener("click", () => this.page.copy(typeof typed === "string" ? typed : JSON.stringify(typed, null, 2), copy));
    const dismiss = h("button", { type: "button", class: "small" }, "Dismiss");
    dismiss.addEventListener("click", () => {
      form.forget();
      show(this.unsent, false);
      this.outcome.focus();
    });
    this.unsent.replaceChildren(h("h4", {}, "Your unsent answer"), valueView(typed), h("div", { class: "buttons" }, copy, dismiss));
  }
}
