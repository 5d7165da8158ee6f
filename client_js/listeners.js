/**
 * A set of listeners: each hears the present once, soon after it came, and then every change. One that throws does not
 * keep the others from hearing.
 *
 * @module
 */

import { complain } from "./socket.js";

/** @template {unknown[]} A */
export class Listeners {
  /** @param {(some: boolean) => void} [onSome]  called when the first listener comes and when the last one leaves */
  constructor(onSome = () => {}) {
    this.onSome = onSome;
    /** @type {Set<{ fn: (...args: A) => void, told: boolean }>} One entry per call of `add`. */
    this.entries = new Set();
  }

  /**
   * @param {(...args: A) => void} fn
   * @param {() => A} present
   * @returns {() => void}
   */
  add(fn, present) {
    const entry = { fn, told: false };
    this.entries.add(entry);
    if (this.entries.size === 1) this.onSome(true);
    // Not at once: the caller does not have the function yet that stops it.
    queueMicrotask(() => {
      if (this.entries.has(entry) && !entry.told) this.#tell(entry, present());
    });
    return () => {
      if (this.entries.delete(entry) && this.entries.size === 0) this.onSome(false);
    };
  }

  /** @param {() => A} present */
  tell(present) {
    for (const entry of [...this.entries]) if (this.entries.has(entry)) this.#tell(entry, present());
  }

  /**
   * @param {{ fn: (...args: A) => void, told: boolean }} entry
   * @param {A} args
   */
  #tell(entry, args) {
    entry.told = true;
    try {
      entry.fn(...args);
    } catch (error) {
      complain(error);
    }
  }
}
