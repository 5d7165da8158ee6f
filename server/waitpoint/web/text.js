/**
 * A text part on the page: paragraphs and fenced code, nothing more.
 *
 * Knows text and the DOM. Text is never read as HTML, and links in it are not made clickable: it comes from a model.
 * While text streams only its last block changes, so that reading, selecting and copying go on above it.
 *
 * @module
 */

import { KeyedList, h, setText, show } from "./dom.js";

/** @typedef {{ kind: "text" | "code", text: string, lang?: string }} Block */

/**
 * Cut a text into paragraphs and fenced code.
 *
 * @param {string} text
 * @returns {Block[]}
 */
export function blocksOf(text) {
  /** @type {Block[]} */
  const blocks = [];
  /** @type {string[]} */
  let lines = [];
  /** @type {{ mark: string, lang: string } | null} */
  let fence = null;
  const close = (/** @type {"text" | "code"} */ kind) => {
    const joined = lines.join("\n");
    if (kind === "code") blocks.push({ kind, text: joined, lang: fence?.lang ?? "" });
    else if (joined.trim() !== "") blocks.push({ kind, text: joined });
    lines = [];
  };
  for (const line of text.split("\n")) {
    const mark = /^ {0,3}(`{3,}|~{3,})([^`]*)$/.exec(line);
    if (fence !== null && mark !== null && mark[1].startsWith(fence.mark) && mark[2].trim() === "") {
      close("code");
      fence = null;
    } else if (fence === null && mark !== null) {
      close("text");
      fence = { mark: mark[1], lang: mark[2].trim() };
    } else if (fence === null && line.trim() === "") {
      close("text");
    } else {
      lines.push(line);
    }
  }
  // A fence that is still open while its code streams is code already.
  close(fence === null ? "text" : "code");
  return blocks;
}

/** @returns {import("./dom.js").View} */
export function textView() {
  const node = h("div", { class: "text" });
  const list = new KeyedList(node, (block) => (block.kind === "code" ? codeBlock() : paragraph()));
  return {
    node,
    update(part) {
      node.classList.toggle("streaming", part.state === "streaming");
      list.update(blocksOf(part.text), (block, index) => `${index}${block.kind}`);
    },
  };
}

function paragraph() {
  const node = h("p", {});
  return { node, update: (/** @type {Block} */ block) => setText(node, block.text) };
}

function codeBlock() {
  const code = h("code", {});
  const lang = h("span", { class: "lang", hidden: true });
  // Focusable, so that the keyboard can scroll it sideways.
  const node = h("pre", { tabindex: "0" }, lang, code);
  return {
    node,
    update(/** @type {Block} */ block) {
      setText(lang, block.lang ?? "");
      show(lang, Boolean(block.lang));
      setText(code, block.text);
    },
  };
}

/** @returns {import("./dom.js").View} */
export function reasoningView() {
  const words = h("span", {}, "Reasoning");
  const body = h("div", { class: "reasoning-text" });
  const node = h("details", { class: "reasoning" }, h("summary", {}, words), body);
  return {
    node,
    update(part) {
      const streaming = part.state === "streaming";
      node.classList.toggle("streaming", streaming);
      setText(words, streaming ? "Reasoning…" : "Reasoning");
      setText(body, part.text);
    },
  };
}
