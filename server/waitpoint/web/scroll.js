/**
 * Where the reader is in the log: follow the newest while at the end, stay put otherwise.
 *
 * Knows one scrolling element; nothing of what is in it.
 *
 * @module
 */

import { show } from "./dom.js";

const NEAR = 60;

/** Keeps the reader's place in a scrolling element. */
export class Place {
  /**
   * @param {HTMLElement} scroller
   * @param {HTMLElement} jump  The button that leads to the end.
   */
  constructor(scroller, jump) {
    this.scroller = scroller;
    this.jump = jump;
    this.following = true;
    scroller.addEventListener("scroll", () => this.#look(), { passive: true });
    jump.addEventListener("click", () => {
      this.toEnd(true);
      scroller.focus({ preventScroll: true });
    });
    // A growing message box or a keyboard that slides in must not hide the newest line.
    new ResizeObserver(() => this.settle()).observe(scroller);
  }

  /** After something was added: go along if the reader was at the end and is not filling in a form. */
  settle() {
    const typing = this.scroller.contains(document.activeElement) && document.activeElement?.closest("form") !== null;
    if (this.following && !typing) this.toEnd();
    this.#look();
  }

  /** @param {boolean} [smooth] */
  toEnd(smooth = false) {
    this.following = true;
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.scroller.scrollTo({ top: this.scroller.scrollHeight, behavior: smooth && !calm ? "smooth" : "instant" });
  }

  /**
   * Change what is above without moving what is read.
   *
   * @param {Element | null} anchor  An element that stays.
   * @param {() => void} change
   */
  hold(anchor, change) {
    if (anchor === null) return change();
    // The browser's own anchoring would correct the same shift a second time.
    this.scroller.style.overflowAnchor = "none";
    const before = anchor.getBoundingClientRect().top;
    change();
    this.scroller.scrollTop += anchor.getBoundingClientRect().top - before;
    requestAnimationFrame(() => this.scroller.style.removeProperty("overflow-anchor"));
  }

  #look() {
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    this.following = scrollHeight - scrollTop - clientHeight < NEAR;
    show(this.jump, !this.following);
  }
}
