/**
 * The page's icons, drawn here so that nothing is fetched from elsewhere.
 *
 * Knows shapes on a 24 x 24 grid; nothing of what they stand for. All are decoration: the words beside them say the same.
 *
 * @module
 */

const SVG = "http://www.w3.org/2000/svg";

/** @type {Record<string, string[]>} */
const STROKES = {
  tool: ["M14.7 6.3a4 4 0 0 0-5.2 5.2l-5.6 5.6a2 2 0 1 0 2.9 2.9l5.6-5.6a4 4 0 0 0 5.2-5.2l-2.5 2.5-2.6-.4-.4-2.6z"],
  spinner: ["M12 3a9 9 0 1 0 9 9"],
  waiting: ["M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18z", "M9.6 9.4a2.5 2.5 0 1 1 3.6 2.3c-.8.4-1.2.9-1.2 1.8", "M12 16.6v.1"],
  done: ["M5 12.5l4.5 4.5L19 7.5"],
  error: ["M12 4.5L3.5 19.5h17z", "M12 10.5v4", "M12 17v.1"],
  writing: ["M4 20l1-4L15.5 5.5a2 2 0 0 1 3 3L8 19z", "M13.5 7.5l3 3"],
  send: ["M12 19V5.5", "M6 11.5l6-6 6 6"],
  stop: ["M8 8h8v8H8z"],
  plus: ["M12 5v14", "M5 12h14"],
  link: ["M10 14a4 4 0 0 0 5.7 0l3-3A4 4 0 0 0 13 5.300l-1 1", "M14 10a4 4 0 0 0-5.7 0l-3 3A4 4 0 0 0 11 18.700l1-1"],
  down: ["M12 5v14", "M6 13l6 6 6-6"],
  remove: ["M6.500 6.500l11 11", "M17.500 6.500l-11 11"],
  chevron: ["M9 6l6 6-6 6"],
  file: ["M7 3.500h7l4 4v13H7z", "M14 3.500v4h4"],
};

/**
 * Draw an icon.
 *
 * @param {string} name
 * @param {string} [className]
 * @returns {SVGElement}
 */
export function icon(name, className = "") {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", `icon ${className}`.trim());
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("focusable", "false");
  for (const stroke of STROKES[name] ?? []) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", stroke);
    svg.append(path);
  }
  return svg;
}
