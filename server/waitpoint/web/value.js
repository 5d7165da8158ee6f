/**
 * Any JSON value, spelt for people: names and values in rows, lists as lists, long text with its line breaks.
 *
 * Knows values and the DOM; nothing of what they mean.
 *
 * @module
 */

import { h } from "./dom.js";
import { humanise } from "./words.js";

const MAX_DEPTH = 4;
const LONG_TEXT = 1200;
const MAX_ROWS = 50;
/** Longest text that may stand beside others in a line. */
const BRIEF = 40;

/**
 * An element that shows a value.
 *
 * @param {any} value
 * @param {number} [depth]
 * @returns {HTMLElement}
 */
export function valueView(value, depth = 0) {
  if (value === undefined) return h("span", { class: "nothing" }, "nothing");
  if (value === null) return h("span", { class: "nothing" }, "none");
  if (typeof value === "boolean") return h("span", {}, value ? "Yes" : "No");
  if (typeof value === "number") return h("span", { class: "number" }, String(value));
  if (typeof value === "string") return textValue(value);
  if (depth >= MAX_DEPTH) return h("pre", { tabindex: "0" }, h("code", {}, JSON.stringify(value, null, 2)));
  return Array.isArray(value) ? listValue(value, depth) : rowsValue(Object.entries(value), depth);
}

/**
 * Names and values in rows.
 *
 * @param {[string, any][]} entries
 * @param {number} [depth]
 * @returns {HTMLElement}
 */
export function rowsValue(entries, depth = 0) {
  if (entries.length === 0) return h("span", { class: "nothing" }, "empty");
  const rows = entries.slice(0, MAX_ROWS).map(([name, value]) =>
    h("div", { class: "row" }, h("dt", { title: name }, humanise(name)), h("dd", {}, valueView(value, depth + 1))),
  );
  return more(h("dl", { class: "value" }, rows), entries.length);
}

/** @param {any[]} values @param {number} depth @returns {HTMLElement} */
function listValue(values, depth) {
  if (values.length === 0) return h("span", { class: "nothing" }, "empty list");
  const brief = values.every((value) => value === null || (typeof value !== "object" && String(value).length <= BRIEF));
  const items = values.slice(0, MAX_ROWS).map((value) => h("li", {}, valueView(value, depth + 1)));
  return more(h("ul", { class: brief ? "value brief" : "value" }, items), values.length);
}

/** @param {HTMLElement} shown @param {number} total @returns {HTMLElement} */
function more(shown, total) {
  return total <= MAX_ROWS ? shown : h("div", {}, shown, h("p", { class: "hint" }, `and ${total - MAX_ROWS} more`));
}

/** @param {string} text @returns {HTMLElement} */
function textValue(text) {
  if (text === "") return h("span", { class: "nothing" }, "empty text");
  if (text.length <= LONG_TEXT) return h("span", { class: "words" }, text);
  const words = h("span", { class: "words" }, `${text.slice(0, LONG_TEXT)}…`);
  const button = h("button", { type: "button", class: "small" }, "Show all");
  button.addEventListener("click", () => {
    words.textContent = text;
    button.remove();
  });
  return h("div", {}, words, button);
}
