/**
 * A question that no tool asked, as a card of its own below the messages: what is asked, and the form. It goes when the
 * question is ended; what then happens is told by messages.
 *
 * Knows pending actions without a message; the form in it belongs to `visit.js`.
 *
 * @module
 */

import { attribute, h, setText } from "./dom.js";
import { icon } from "./icons.js";
import { VisitView } from "./visit.js";
import { humanise } from "./words.js";

/** @typedef {import("./page.js").Page} Page */

/**
 * The pending actions that belong to no message.
 *
 * @param {readonly any[]} pending
 * @returns {any[]}
 */
export function requestsOf(pending) {
  return pending.filter((action) => action.origin.messageId === "");
}

/**
 * @param {any} action
 * @param {Page} page
 * @returns {import("./dom.js").View}
 */
export function requestView(action, page) {
  const name = h("code", { class: "tool-name" });
  const title = h("span", { class: "tool-title" });
  const visit = new VisitView({ id: action.id, suspendName: action.origin.suspendName, input: action.input, at: action.at }, page);
  const mark = h("span", { class: "mark" }, icon("waiting"));
  const state = h("span", { class: "tool-state" }, "Waiting for an answer");
  const node = h("article", { class: "tool" }, h("header", {}, mark, h("h2", {}, title, name), state), h("div", { class: "visits" }, visit.node));
  attribute(node, "data-state", "waiting");
  attribute(node, "data-tool", action.origin.toolName);
  setText(title, humanise(action.origin.toolName));
  setText(name, action.origin.toolName);
  return {
    node,
    update: (/** @type {any} */ _, /** @type {Map<string, any>} */ pending) => visit.update(visit.record, pending),
    dispose: () => visit.dispose(),
  };
}
