/**
 * Messages: a person's as a bubble, the assistant's as a column of parts.
 *
 * Knows messages and parts. A message that did not change is not touched.
 *
 * @module
 */

import { KeyedList, attribute, h, setText, show } from "./dom.js";
import { icon } from "./icons.js";
import { reasoningView, textView } from "./text.js";
import { toolView } from "./tool.js";
import { valueView } from "./value.js";
import { clockTime, humanise, whoIs, whyItEnded } from "./words.js";

/** @typedef {import("./page.js").Page} Page */

/**
 * @param {Page} page
 * @returns {import("./dom.js").View}
 */
export function messageView(page) {
  const who = h("span", { class: "who" });
  const time = h("time", {});
  const parts = h("div", { class: "parts" });
  const ended = h("p", { class: "why", hidden: true });
  const list = new KeyedList(parts, (part) => partView(part, page));
  const node = h("article", { class: "message" }, h("header", {}, who, time), parts, ended);
  /** @type {any} */
  let shown = null;
  /** @type {any} */
  let seen = null;
  return {
    node,
    update(message, pending) {
      // Pending actions matter to the open message only: a finished one has none.
      const concerned = message.status === "open" || shown?.status === "open";
      if (message === shown && (!concerned || pending === seen)) return;
      shown = message;
      seen = pending;
      attribute(node, "data-role", message.role);
      attribute(node, "data-status", message.status);
      attribute(node, "data-id", message.id);
      setText(who, message.role === "assistant" ? "Assistant" : message.role === "system" ? "System" : personOf(message.by));
      attribute(time, "datetime", message.at);
      setText(time, clockTime(message.at));
      list.update(message.parts, partKey, pending);
      const words = whyItEnded(message);
      setText(ended, words);
      show(ended, words !== "");
      ended.classList.toggle("bad", Boolean(message.errorText) || message.reason === "error");
    },
    dispose: () => list.clear(),
  };
}

/** Whose bubble it is; where nobody signs in, a name would tell nothing. @param {any} by */
function personOf(by) {
  return by === undefined || (by.id === "anonymous" && by.name === undefined) ? "" : whoIs(by);
}

/** @param {any} part @param {number} index */
function partKey(part, index) {
  return part.type === "tool" ? `tool ${part.toolCallId}` : `${part.type} ${part.id ?? index}`;
}

/** @param {any} part @param {Page} page @returns {import("./dom.js").View} */
function partView(part, page) {
  switch (part.type) {
    case "text":
      return textView();
    case "reasoning":
      return reasoningView();
    case "tool":
      return toolView(page);
    case "file":
      return fileView();
    default:
      return dataView();
  }
}

/** @returns {import("./dom.js").View} */
function fileView() {
  const node = h("p", { class: "file" });
  return {
    node,
    update(part) {
      const name = part.name ?? part.url;
      // Only what a browser opens as a page or a download: a javascript: URL must stay text.
      const safe = /^https?:\/\//i.test(part.url);
      const link = safe ? h("a", { href: part.url, target: "_blank", rel: "noopener noreferrer" }, name) : h("span", {}, name);
      node.replaceChildren(icon("file"), link, h("span", { class: "media" }, part.mediaType));
    },
  };
}

/** @returns {import("./dom.js").View} */
function dataView() {
  const node = h("div", { class: "data" });
  /** @type {any} */
  let shown = null;
  return {
    node,
    update(part) {
      if (part === shown) return;
      shown = part;
      if (part.type !== "data") return node.replaceChildren(h("p", { class: "hint" }, `A part of type ${part.type}.`));
      node.replaceChildren(h("h3", {}, humanise(part.name)), valueView(part.data));
    },
  };
}
