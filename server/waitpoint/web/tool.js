/**
 * A tool part as a card: its name and state, what went in, every visit to a wait point, what came out.
 *
 * Knows tool parts; the forms in it belong to `visit.js`.
 *
 * @module
 */

import { KeyedList, attribute, h, setText, show } from "./dom.js";
import { icon } from "./icons.js";
import { valueView } from "./value.js";
import { VisitView } from "./visit.js";
import { humanise, toolState, whyItFailed } from "./words.js";

/** @typedef {import("./page.js").Page} Page */

const ICONS = {
  "input-streaming": "writing",
  "input-available": "tool",
  running: "spinner",
  waiting: "waiting",
  "output-available": "done",
  "output-error": "error",
};

/**
 * @param {Page} page
 * @returns {import("./dom.js").View}
 */
export function toolView(page) {
  const mark = h("span", { class: "mark" });
  const title = h("span", { class: "tool-title" });
  const name = h("code", { class: "tool-name" });
  const state = h("span", { class: "tool-state" });
  const said = h("p", { class: "progress-text", hidden: true });
  const bar = h("progress", { max: "1", hidden: true });
  const input = section("Input");
  const output = section("Output");
  const error = h("p", { class: "tool-error", hidden: true });
  const visits = h("div", { class: "visits" });
  const list = new KeyedList(visits, (record) => new VisitView(record, page));
  const node = h(
    "article",
    { class: "tool" },
    h("header", {}, mark, h("h2", {}, title, name), state),
    said,
    bar,
    input.node,
    visits,
    error,
    output.node,
  );
  /** @type {any} */
  let shown = null;
  /** @type {any[]} */
  let open = [];
  return {
    node,
    update(part, pending) {
      const now = part.actions.map((/** @type {any} */ record) => pending.get(record.id));
      if (part === shown && now.length === open.length && now.every((/** @type {any} */ action, /** @type {number} */ index) => action === open[index])) return;
      if (part.state !== shown?.state) mark.replaceChildren(icon(ICONS[/** @type {keyof typeof ICONS} */ (part.state)] ?? "tool"));
      shown = part;
      open = now;
      attribute(node, "data-state", part.state);
      attribute(node, "data-tool", part.toolName);
      setText(title, humanise(part.toolName));
      setText(name, part.toolName);
      setText(state, toolState(part));
      showProgress(said, bar, part);
      if (part.state === "input-streaming") input.text(part.inputText ?? "");
      else input.value(part.input, "input" in part);
      list.update(part.actions, (record) => record.id, pending);
      const why = whyItFailed(part);
      setText(error, why);
      show(error, why !== "");
      output.value(part.output, part.state === "output-available");
      if (part.state === "output-available" && !repeatsAnswer(part)) output.openOnce();
    },
    dispose: () => list.clear(),
  };
}

/** Whether the output only says again what somebody answered, just above it. @param {any} part */
function repeatsAnswer(part) {
  const answer = part.actions.at(-1)?.resolution?.data;
  const spelt = (/** @type {any} */ value) => JSON.stringify(value, (_, inner) => inner ?? undefined);
  return answer !== undefined && spelt(answer) === spelt(part.output);
}

/** @param {HTMLElement} said @param {any} bar @param {any} part */
function showProgress(said, bar, part) {
  const { progress } = part;
  setText(said, progress?.message ?? "");
  show(said, Boolean(progress?.message));
  const fraction = progress?.fraction;
  if (typeof fraction === "number") bar.value = fraction;
  attribute(bar, "aria-label", progress?.message ?? "Progress");
  show(bar, typeof fraction === "number");
}

/** A part of the card that folds away. @param {string} name */
function section(name) {
  const body = h("div", { class: "fold-body" });
  const node = h("details", { class: "fold", hidden: true }, h("summary", {}, icon("chevron", "chevron"), name), body);
  /** @type {any} */
  let last = section;
  let opened = false;
  return {
    node,
    /** @param {any} value @param {boolean} present */
    value(value, present) {
      const hollow = value !== null && typeof value === "object" && Object.keys(value).length === 0;
      show(node, present && !(name === "Input" && hollow));
      if (!present || value === last) return;
      last = value;
      body.replaceChildren(valueView(value));
    },
    /** Text that is still arriving, as it is. @param {string} text */
    text(text) {
      show(node, text !== "");
      if (!(body.firstElementChild instanceof HTMLPreElement)) body.replaceChildren(h("pre", { tabindex: "0" }, h("code", {})));
      setText(/** @type {Element} */ (body.querySelector("code")), text);
    },
    /** A result is there to be read; later the reader decides. */
    openOnce() {
      if (!opened) /** @type {HTMLDetailsElement} */ (node).open = true;
      opened = true;
    },
  };
}
