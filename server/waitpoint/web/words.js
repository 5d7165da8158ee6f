/**
 * The page's sentences: names, times, how an action ended, what a refusal means for the person who reads it.
 *
 * Knows state shapes and English; no DOM, no sockets. Pure, so its tests need no browser.
 *
 * @module
 */

/**
 * A name made for programs, spelt for people: `collectReportDetails` becomes `Collect report details`.
 *
 * @param {string} name
 */
export function humanise(name) {
  const words = name
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replace(/([A-Z]+)([A-Z][a-z])/g, "$1 $2")
    .split(/[\s_.-]+/)
    .filter((word) => word !== "")
    .map((word) => (/^[A-Z0-9]{2,}$/.test(word) ? word : word.toLowerCase()));
  if (words.length === 0) return name;
  words[0] = words[0][0].toUpperCase() + words[0].slice(1);
  return words.join(" ");
}

/**
 * When something happened: the time today, with the date on other days.
 *
 * @param {string} at
 * @param {Date} [now]
 */
export function clockTime(at, now = new Date()) {
  const moment = new Date(at);
  if (Number.isNaN(moment.getTime())) return at;
  /** @type {Intl.DateTimeFormatOptions} */
  const options = { hour: "2-digit", minute: "2-digit" };
  if (moment.toDateString() !== now.toDateString()) {
    options.day = "numeric";
    options.month = "short";
    if (moment.getFullYear() !== now.getFullYear()) options.year = "numeric";
  }
  return new Intl.DateTimeFormat(undefined, options).format(moment);
}

/**
 * Who did it, as this page's reader would say it.
 *
 * @param {{ id: string, kind?: string, name?: string } | undefined} by
 */
export function whoIs(by) {
  if (by === undefined) return "somebody";
  if (by.kind === "system") return "the system";
  return by.name ?? (by.id === "anonymous" ? "somebody" : by.id);
}

const HOW = { submitted: "Answered", cancelled: "Cancelled", failed: "Failed", expired: "Expired" };

/**
 * How an action ended, in one line without the time: "Answered by Ann".
 *
 * @param {{ how: string, by?: any }} resolution
 */
export function howItEnded(resolution) {
  const how = HOW[/** @type {keyof typeof HOW} */ (resolution.how)] ?? humanise(resolution.how);
  return resolution.how === "expired" ? "Expired without an answer" : `${how} by ${whoIs(resolution.by)}`;
}

/**
 * What is wrong with a field, for the person who fills it in. The server's own words are about data, and mostly do.
 *
 * @param {{ message: string, code: string }} error  From the server.
 */
export function fieldError(error) {
  return error.code === "missing" ? "This is required." : error.message;
}

const REFUSALS = {
  expired: "This question has expired, so the answer was not taken.",
  "unknown-action": "This question does not exist any more.",
  "not-found": "This thread cannot be reached from here.",
  forbidden: "You may not do this here.",
  waiting: "The question above has to be answered first.",
  busy: "The server is busy. Try again in a moment.",
  "rate-limited": "That was too much at once. Try again in a moment.",
  "too-large": "That is too large to send.",
  "tool-unavailable": "The tool that asked is not installed any more.",
  unavailable: "The server cannot store anything at the moment. Nothing was lost; try again.",
  closed: "The connection is closed. Reload the page to go on.",
};

/**
 * What a refusal means, for the person whose command it was.
 *
 * @param {any} error  A WaitpointError, or whatever else was thrown.
 */
export function refusal(error) {
  if (error?.code === "already-resolved" && error.winner) {
    return `Too late: ${lowerFirst(howItEnded(error.winner))} at ${clockTime(error.winner.at)}.`;
  }
  if (error?.code === "already-resolved") return "Too late: this question was already answered.";
  const known = REFUSALS[/** @type {keyof typeof REFUSALS} */ (error?.code)];
  return known ?? (error?.message ? String(error.message) : "That did not work.");
}

const ENDS = {
  stopped: "Stopped.",
  superseded: "Left for a newer message.",
  "step-cap": "Ended here: the turn took too many steps.",
  length: "Cut off: the model's answer reached its length limit.",
};

/**
 * Why an assistant message ended, when that is worth a line.
 *
 * @param {{ status: string, reason?: string, errorText?: string }} message
 */
export function whyItEnded(message) {
  if (message.status !== "final") return "";
  if (message.errorText) return message.errorText;
  if (message.reason === "error") return "The turn ended in an error.";
  return ENDS[/** @type {keyof typeof ENDS} */ (message.reason)] ?? "";
}

const STATES = {
  "input-streaming": "Preparing",
  "input-available": "Ready to run",
  running: "Running",
  waiting: "Waiting for an answer",
  "output-available": "Done",
  "output-error": "Failed",
};

/**
 * Why a tool part failed, unless the last visit to a wait point says it already: the error of a wait that was cancelled,
 * failed or expired is the same in words for the model.
 *
 * @param {{ state: string, errorText?: string, actions: any[] }} part
 */
export function whyItFailed(part) {
  if (part.state !== "output-error") return "";
  const how = part.actions.at(-1)?.resolution?.how;
  return how === undefined || how === "submitted" ? (part.errorText ?? "") : "";
}

/**
 * What a tool part is doing.
 *
 * @param {{ state: string, attempt?: number, actions: any[] }} part
 */
export function toolState(part) {
  const words = STATES[/** @type {keyof typeof STATES} */ (part.state)] ?? humanise(part.state);
  if (part.state === "output-error" && part.actions.some((visit) => visit.resolution?.how === "cancelled")) return "Cancelled";
  return part.state === "running" && (part.attempt ?? 1) > 1 ? `${words}, attempt ${part.attempt}` : words;
}

const ASKING = ["prompt", "question", "message", "summary", "text", "title"];

/**
 * Split what a tool asked into sentences to read first and further details.
 *
 * @param {any} input  An action's input.
 * @returns {{ sentences: string[], details: [string, any][] }}
 */
export function questionOf(input) {
  if (typeof input === "string") return { sentences: [input], details: [] };
  if (input === null || typeof input !== "object") return { sentences: [], details: input === null ? [] : [["Value", input]] };
  if (Array.isArray(input)) return { sentences: [], details: input.length ? [["Values", input]] : [] };
  const entries = Object.entries(input);
  const asks = ASKING.filter((key) => typeof input[key] === "string" && input[key] !== "");
  return {
    sentences: asks.map((key) => input[key]),
    details: entries.filter(([key, value]) => !asks.includes(key) && value !== null && value !== undefined),
  };
}

/** @param {string} text */
export function lowerFirst(text) {
  return text === "" ? text : text[0].toLowerCase() + text.slice(1);
}
