/**
 * The chat page: which thread it shows, and how the connection is doing. Everything about one thread is in `page.js`.
 *
 * This is the only file that knows the address bar, the page's configuration and where the client comes from.
 *
 * @module
 */

// @ts-ignore: in the sources the client is elsewhere; the server serves it here.
import { WaitpointClient } from "./client/index.js";
import { attribute, setText } from "./dom.js";
import { icon } from "./icons.js";
import { Page } from "./page.js";
import { Place } from "./scroll.js";

/** What the page does when `/config.json` does not say otherwise. */
const DEFAULTS = {
  title: "Waitpoint",
  wsPath: "./ws",
  suggestions: [
    { label: "Collect report details", text: "report" },
    { label: "Draft a report in three steps", text: "draft" },
    { label: "Ask for approval", text: "approve" },
    { label: "Two waits at once", text: "both" },
    { label: "Tell a long story", text: "story" },
    { label: "Every kind of field", text: "form" },
  ],
};

const THREAD = /^[A-Za-z0-9._~:@-]{1,128}$/;

/** @type {Record<string, any>} */
const regions = Object.fromEntries([...document.querySelectorAll("[id]")].map((element) => [element.id, element]));

const config = await configuration();
const client = new WaitpointClient(config.wsPath);
const place = new Place(regions.log, regions.jump);
/** @type {Page | null} */
let page = null;

decorate();
regions["new-thread"].addEventListener("click", () => {
  history.pushState(null, "", addressOf(randomName()));
  open();
  regions["composer-text"].focus();
});
regions["copy-link"].addEventListener("click", () => void page?.copy(location.href, regions["copy-link"]));
addEventListener("popstate", open);
addEventListener("offline", () => standing(client.status));
addEventListener("online", () => standing(client.status));
open();
client.onStatus((/** @type {string} */ status) => standing(status));

/** Show the thread that the address names. */
function open() {
  let name = new URLSearchParams(location.search).get("thread") ?? "";
  if (!THREAD.test(name)) {
    name = randomName();
    history.replaceState(null, "", addressOf(name));
  }
  page?.dispose();
  page = new Page(client.thread(name), regions, { place, title: config.title, suggestions: config.suggestions });
  setText(regions["thread-name"], name);
  standing(client.status);
}

/** @param {string} status */
function standing(status) {
  const offline = !navigator.onLine && status !== "connected";
  const words = { idle: "Not connected", connecting: "Connecting…", connected: "Connected", reconnecting: "Reconnecting…", closed: "Disconnected" };
  const text = offline ? "Offline" : (words[/** @type {keyof typeof words} */ (status)] ?? status);
  setText(regions["status-text"], text);
  attribute(regions.status, "data-status", offline ? "offline" : status);
  attribute(regions.status, "title", client.reason);
  page?.say(notice(status, offline));
}

/**
 * What to say above the message box about the connection.
 *
 * @param {string} status
 * @param {boolean} offline
 * @returns {{ text: string, go?: [string, () => void] } | null}
 */
function notice(status, offline) {
  const why = client.reason ? `: ${client.reason}` : "";
  if (status === "closed") return { text: `Disconnected${why}.`, go: ["Connect again", () => client.reconnect()] };
  if (offline) return { text: "You are offline. What you send now goes out when the network is back." };
  if (status !== "reconnecting") return null;
  return { text: `Reconnecting${why}. What you send now goes out when the connection is back.`, go: ["Try now", () => client.reconnect()] };
}

async function configuration() {
  try {
    const response = await fetch("./config.json", { headers: { accept: "application/json" } });
    if (!response.ok) return DEFAULTS;
    const given = await response.json();
    const suggestions = (Array.isArray(given.suggestions) ? given.suggestions : DEFAULTS.suggestions).map((/** @type {any} */ one) =>
      typeof one === "string" ? { label: one, text: one } : { label: String(one.label ?? one.text), text: String(one.text ?? one.label) },
    );
    return { title: given.title ?? DEFAULTS.title, wsPath: given.wsPath ?? DEFAULTS.wsPath, suggestions };
  } catch {
    // The page has to work without its configuration: the server may be restarting at this very moment.
    return DEFAULTS;
  }
}

function decorate() {
  regions["copy-link"].prepend(icon("link"));
  regions["new-thread"].prepend(icon("plus"));
  regions.jump.prepend(icon("down"));
  regions.stop.prepend(icon("stop"));
  regions.send.prepend(icon("send"));
}

/** @param {string} name */
function addressOf(name) {
  return `?thread=${encodeURIComponent(name)}`;
}

/** A name that nobody guesses: whoever has the link may find the thread. */
function randomName() {
  const letters = "abcdefghijkmnpqrstuvwxyz23456789";
  return Array.from(crypto.getRandomValues(new Uint8Array(20)), (byte) => letters[byte % letters.length]).join("");
}
