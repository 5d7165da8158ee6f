/**
 * What outlives a reload of the tab: the unsent message and half-filled forms.
 *
 * Knows sessionStorage; nothing of what is kept. Storage can be full or forbidden: then nothing is kept, and nothing breaks.
 *
 * @module
 */

const PREFIX = "waitpoint:";

/** Things kept for one thread. */
export class Keep {
  /** @param {string} thread */
  constructor(thread) {
    this.prefix = `${PREFIX}${thread}:`;
  }

  /** @param {string} name @returns {any} */
  read(name) {
    try {
      const text = sessionStorage.getItem(this.prefix + name);
      return text === null ? null : JSON.parse(text);
    } catch {
      return null;
    }
  }

  /** @param {string} name @param {any} value */
  write(name, value) {
    try {
      sessionStorage.setItem(this.prefix + name, JSON.stringify(value));
    } catch {
      // Better to lose it with the tab than to break the typing.
    }
  }

  /** @param {string} name */
  drop(name) {
    try {
      sessionStorage.removeItem(this.prefix + name);
    } catch {
      // Nothing was kept, then.
    }
  }
}
