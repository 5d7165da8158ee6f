/**
 * Building and updating the page's elements.
 *
 * Knows the DOM and keys; nothing of threads. Data reaches the page as text nodes and attributes only: nothing here, or
 * anywhere else in the page, parses text as HTML. Lists keep an element for as long as its key stays, so an input that
 * somebody types in is never built anew while tokens stream past it.
 *
 * @module
 */

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {{ node: HTMLElement, update: (...args: any[]) => void, dispose?: () => void }} View  A piece of the page. */

/**
 * Make an element. `on` holds listeners, `data` holds data attributes; `true` and `false` switch an attribute on and off.
 *
 * @param {string} tag
 * @param {Record<string, any>} [props]
 * @param {...(Child | Child[])} children
 * @returns {any}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === "on") {
      for (const [type, listener] of Object.entries(value)) element.addEventListener(type, listener);
    } else if (name === "data") {
      Object.assign(element.dataset, value);
    } else {
      attribute(element, name, value);
    }
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false).map(own));
  return element;
}

/** @param {any} child */
function own(child) {
  return typeof child === "number" ? String(child) : child;
}

/**
 * Set, change or remove an attribute. Writes nothing when nothing changes.
 *
 * @param {Element} element
 * @param {string} name
 * @param {string | number | boolean | null | undefined} value
 */
export function attribute(element, name, value) {
  if (value === false || value === null || value === undefined) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
    return;
  }
  const text = value === true ? "" : String(value);
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

/**
 * Set an element's text. An unchanged text keeps its node, and with it the reader's selection.
 *
 * @param {Element} element
 * @param {string} text
 */
export function setText(element, text) {
  const only = element.childNodes.length === 1 ? element.firstChild : null;
  if (only instanceof Text) {
    if (text.length > only.data.length && text.startsWith(only.data)) only.appendData(text.slice(only.data.length));
    else if (only.data !== text) only.data = text;
  } else if (element.textContent !== text) {
    element.textContent = text;
  }
}

/**
 * Show or hide an element.
 *
 * @param {HTMLElement} element
 * @param {boolean} shown
 */
export function show(element, shown) {
  if (element.hidden === shown) element.hidden = !shown;
}

/** The children of one parent that follow a list, one view per key. */
export class KeyedList {
  /**
   * @param {HTMLElement} parent  Owned by this list: it holds nothing else.
   * @param {(item: any) => View} create
   */
  constructor(parent, create) {
    this.parent = parent;
    this.create = create;
    /** @type {Map<string, View>} */
    this.views = new Map();
  }

  /**
   * Make the children follow `items`. Views whose key is gone are removed, and elements already in place do not move.
   *
   * @param {readonly any[]} items
   * @param {(item: any, index: number) => string} keyOf
   * @param {...any} context  Handed on to every view's `update`.
   */
  update(items, keyOf, ...context) {
    const keys = items.map(keyOf);
    const wanted = new Set(keys);
    for (const [key, view] of this.views) {
      if (wanted.has(key)) continue;
      view.dispose?.();
      view.node.remove();
      this.views.delete(key);
    }
    /** @type {ChildNode | null} */
    let place = this.parent.firstChild;
    items.forEach((item, index) => {
      const key = keys[index];
      let view = this.views.get(key);
      if (view === undefined) {
        view = this.create(item);
        this.views.set(key, view);
      }
      if (view.node === place) place = place.nextSibling;
      else this.parent.insertBefore(view.node, place);
      view.update(item, ...context);
    });
  }

  /** Remove every view. */
  clear() {
    this.update([], String);
  }
}

let made = 0;

/** An id that is free on this page, for labels and descriptions. */
export function freshId() {
  made += 1;
  return `w${made}`;
}
