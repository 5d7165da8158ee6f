/**
 * The form that answers one action: fields from its resume schema, a way to send them, and a way to cancel.
 *
 * Knows an action's `submit` and `cancel`, and forms; nothing of messages. The server judges the answer: what it refuses
 * is shown beside the field it is about, the focus goes to the first, and everything typed stays as it is.
 *
 * @module
 */

import { blank, isTouched, keepable, restore } from "./draft.js";
import { freshId, h, setText, show } from "./dom.js";
import { fieldView } from "./fields.js";
import { collect, locate } from "./form.js";
import { modelOf } from "./schema.js";
import { fieldError, refusal } from "./words.js";

/** @import { FieldView } from "./frame.js" */
/** @import { FieldError } from "./form.js" */
/** @import { Keep } from "./keep.js" */

/** @typedef {{ keep: Keep, changed: () => void, labelledBy: string }} Around */

/** The form of one action. `state` is `idle`, `sending` (not answered yet) or `sent` (accepted). */
export class AnswerForm {
  /**
   * @param {any} action
   * @param {Around} around
   */
  constructor(action, { keep, changed, labelledBy }) {
    this.action = action;
    this.keep = keep;
    this.changed = changed;
    this.name = `answer:${action.id}`;
    this.field = modelOf(action.schema);
    this.draft = restore(this.field, keep.read(this.name)) ?? blank(this.field);
    /** @type {"idle" | "sending" | "sent"} */
    this.state = "idle";
    /** Why the last attempt was refused, if it was. */
    this.refused = "";
    const bare = this.field.kind === "group";
    this.view = fieldView(this.field, this.draft, { changed: () => this.#typed() }, { bare });
    /** @type {FieldView[]} */
    this.marked = [];
    this.general = h("p", { class: "form-error", role: "alert", hidden: true });
    this.note = h("p", { class: "hint", role: "status" });
    this.send = h("button", { type: "submit", class: "primary" }, "Send answer");
    this.more = h("button", { type: "button", class: "plain", on: { click: () => this.#askWhy(true) } }, "Cancel…");
    this.why = this.#cancelPanel();
    this.node = h(
      "form",
      { class: "answer", novalidate: true, autocomplete: "off", "aria-labelledby": labelledBy },
      this.view.node,
      this.general,
      h("div", { class: "buttons" }, this.send, this.more, this.note),
      this.why,
    );
    this.node.addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      void this.#submit();
    });
    this.node.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.node.requestSubmit();
    });
  }

  /** Whether something was typed that nobody has received. */
  get unsent() {
    return this.state === "idle" && isTouched(this.field, this.draft);
  }

  /** What was typed, to be shown. */
  get typed() {
    return collect(this.field, keepable(this.field, this.draft)).value;
  }

  /** Forget what was typed. */
  forget() {
    this.keep.drop(this.name);
    this.draft = blank(this.field);
  }

  focus() {
    this.view.focus();
  }

  #typed() {
    this.keep.write(this.name, keepable(this.field, this.draft));
    // A refusal speaks of what was sent; once that is changed it speaks of nothing.
    if (this.refused !== "") this.#refuse("");
    const about = this.marked.filter((view) => view.node.contains(document.activeElement));
    for (const view of about) view.setErrors([]);
    this.marked = this.marked.filter((view) => !about.includes(view));
  }

  async #submit() {
    if (this.state !== "idle") return;
    const { value, errors } = collect(this.field, this.draft);
    this.#mark(errors);
    if (errors.length > 0) return;
    await this.#attempt("Sending…", () => this.action.submit(value));
  }

  /** @param {string} words @param {() => Promise<any>} command */
  async #attempt(words, command) {
    this.#stand("sending", words);
    this.#refuse("");
    try {
      await command();
      this.keep.drop(this.name);
      this.#stand("sent", "Sent.");
    } catch (error) {
      this.#stand("idle", "");
      this.#refused(error);
    }
    this.changed();
  }

  /** @param {any} error */
  #refused(error) {
    if (error?.code === "invalid" && error.errors?.length > 0) {
      this.refused = "invalid";
      this.#mark(error.errors.map((/** @type {FieldError} */ one) => ({ ...one, message: fieldError(one) })));
    } else {
      this.#refuse(refusal(error));
    }
  }

  /** @param {FieldError[]} errors */
  #mark(errors) {
    /** @type {Map<FieldView, FieldError[]>} */
    const byView = new Map();
    /** @type {FieldError[]} */
    const general = [];
    for (const error of errors) {
      const { at, rest } = locate(this.field, this.draft, error.path);
      const view = at.reduce((/** @type {FieldView | undefined} */ inner, step) => inner?.below(step), this.view);
      const message = rest.length > 0 ? `${rest.join(" › ")}: ${error.message}` : error.message;
      if (view === undefined || (view === this.view && this.field.kind === "group")) general.push({ ...error, message });
      else byView.set(view, [...(byView.get(view) ?? []), { ...error, message }]);
    }
    for (const view of this.marked) if (!byView.has(view)) view.setErrors([]);
    for (const [view, list] of byView) view.setErrors(list);
    this.marked = [...byView.keys()];
    this.#say(general.map((error) => error.message).join(" "));
    this.#first()?.focus();
  }

  /** The marked field that comes first on the page. */
  #first() {
    return this.marked.reduce((/** @type {FieldView | undefined} */ first, view) => {
      if (first === undefined) return view;
      return first.node.compareDocumentPosition(view.node) & Node.DOCUMENT_POSITION_PRECEDING ? view : first;
    }, undefined);
  }

  /** @param {string} words */
  #refuse(words) {
    this.refused = words;
    if (words === "") return this.#say("");
    this.#say(words);
  }

  /** @param {string} words */
  #say(words) {
    setText(this.general, words);
    show(this.general, words !== "");
  }

  /** @param {"idle" | "sending" | "sent"} state @param {string} words */
  #stand(state, words) {
    this.state = state;
    this.node.dataset.state = state;
    setText(this.note, words);
    // Not `disabled`: that would throw the focus away in the middle of the page.
    for (const button of this.node.querySelectorAll(".buttons button")) {
      if (state === "idle") button.removeAttribute("aria-disabled");
      else button.setAttribute("aria-disabled", "true");
    }
  }

  // --- cancelling

  #cancelPanel() {
    const id = freshId();
    const reason = h("input", { type: "text", id, maxlength: "2000", autocomplete: "off" });
    const go = h("button", { type: "button", class: "danger" }, "Cancel without an answer");
    const back = h("button", { type: "button", class: "plain" }, "Keep waiting");
    const cancel = () => {
      if (this.state !== "idle") return;
      const text = reason.value.trim();
      void this.#attempt("Cancelling…", () => this.action.cancel(text === "" ? {} : { reason: text }));
    };
    go.addEventListener("click", cancel);
    back.addEventListener("click", () => this.#askWhy(false));
    const panel = h(
      "div",
      { class: "cancel", role: "group", "aria-label": "Cancel", hidden: true },
      h("label", { for: id }, "Reason", h("span", { class: "optional" }, " optional")),
      reason,
      h("div", { class: "buttons" }, go, back),
    );
    panel.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Escape") this.#askWhy(false);
      // Enter here belongs to the reason; it must never send the answer above.
      if (event.key === "Enter" && event.target === reason) {
        event.preventDefault();
        event.stopPropagation();
        cancel();
      }
    });
    return panel;
  }

  /** @param {boolean} open */
  #askWhy(open) {
    if (this.state !== "idle") return;
    show(this.why, open);
    show(this.more, !open);
    if (open) this.why.querySelector("input").focus();
    else this.more.focus();
  }
}
