// The sentences of the page, and how it cuts text.
import assert from "node:assert/strict";
import { test } from "node:test";
import { blocksOf } from "../../server/waitpoint/web/text.js";
import { clockTime, fieldError, howItEnded, humanise, questionOf, refusal, toolState, whyItEnded, whyItFailed } from "../../server/waitpoint/web/words.js";

const ann = { id: "u1", kind: "person", name: "Ann" };
const at = "2026-03-05T10:30:00.000Z";

test("names made for programs are spelt for people", () => {
  assert.equal(humanise("collectReportDetails"), "Collect report details");
  assert.equal(humanise("report_id"), "Report id");
  assert.equal(humanise("fileURL"), "File URL");
  assert.equal(humanise("_"), "_");
});

test("an ended action says how and by whom", () => {
  assert.equal(howItEnded({ how: "submitted", by: ann }), "Answered by Ann");
  assert.equal(howItEnded({ how: "cancelled", by: { id: "sys", kind: "system" } }), "Cancelled by the system");
  assert.equal(howItEnded({ how: "failed", by: { id: "u2", kind: "person" } }), "Failed by u2");
  assert.equal(howItEnded({ how: "submitted", by: { id: "anonymous", kind: "person" } }), "Answered by somebody");
  assert.equal(howItEnded({ how: "expired", by: { id: "sys", kind: "system" } }), "Expired without an answer");
});

test("a late answer learns who was first", () => {
  const words = refusal({ code: "already-resolved", message: "x", winner: { how: "submitted", by: ann, at } });
  assert.match(words, /^Too late: answered by Ann at /);
  assert.match(refusal({ code: "expired" }), /expired/);
  assert.equal(refusal({ code: "something-new", message: "No tea today." }), "No tea today.");
});

test("the time of another day carries its date", () => {
  const now = new Date("2026-03-06T12:00:00Z");
  assert.ok(clockTime(at, now).length > clockTime(now.toISOString(), now).length);
  assert.equal(clockTime("never", now), "never");
});

test("what a tool asks is split into sentences and details", () => {
  assert.deepEqual(questionOf({ prompt: "Who?", missing: ["a"], nothing: null }), { sentences: ["Who?"], details: [["missing", ["a"]]] });
  assert.deepEqual(questionOf("Sure?"), { sentences: ["Sure?"], details: [] });
  assert.deepEqual(questionOf({ prompt: { odd: true } }), { sentences: [], details: [["prompt", { odd: true }]] });
  assert.deepEqual(questionOf(null), { sentences: [], details: [] });
});

test("a tool that is entered again says so, and a cancelled wait is not called a failure", () => {
  assert.equal(toolState({ state: "running", attempt: 2, actions: [] }), "Running, attempt 2");
  assert.equal(toolState({ state: "running", attempt: 1, actions: [] }), "Running");
  assert.equal(toolState({ state: "output-error", actions: [{ resolution: { how: "cancelled" } }] }), "Cancelled");
  assert.equal(toolState({ state: "output-error", actions: [] }), "Failed");
});

test("an error that the last visit tells already is not told twice", () => {
  const errorText = "ask.answer was cancelled by Ann: not needed.";
  const visit = (/** @type {string} */ how) => ({ state: "output-error", errorText, actions: [{ resolution: { how } }] });
  for (const how of ["cancelled", "failed", "expired"]) assert.equal(whyItFailed(visit(how)), "");
  assert.equal(whyItFailed(visit("submitted")), errorText);
  assert.equal(whyItFailed({ state: "output-error", errorText, actions: [] }), errorText);
  assert.equal(whyItFailed({ state: "running", actions: [] }), "");
});

test("a field that was left out is spelt for people; other errors keep the server's words", () => {
  assert.equal(fieldError({ code: "missing", message: "Field required" }), "This is required.");
  assert.equal(fieldError({ code: "int_type", message: "Input should be a valid integer" }), "Input should be a valid integer");
});

test("only an unusual end of a message is worth a line", () => {
  assert.equal(whyItEnded({ status: "final", reason: "stop" }), "");
  assert.equal(whyItEnded({ status: "final", reason: "stopped" }), "Stopped.");
  assert.equal(whyItEnded({ status: "final", reason: "error", errorText: "no model" }), "no model");
  assert.equal(whyItEnded({ status: "open", reason: "stopped" }), "");
});

test("text is cut into paragraphs and fenced code, and nothing of it is lost", () => {
  assert.deepEqual(blocksOf("a\nb\n\nc\n```py\nx = 1\n\ny\n```\nd"), [
    { kind: "text", text: "a\nb" },
    { kind: "text", text: "c" },
    { kind: "code", text: "x = 1\n\ny", lang: "py" },
    { kind: "text", text: "d" },
  ]);
  assert.deepEqual(blocksOf("```\nopen"), [{ kind: "code", text: "open", lang: "" }]);
  assert.deepEqual(blocksOf("````\n```\n````"), [{ kind: "code", text: "```", lang: "" }]);
  assert.deepEqual(blocksOf(""), []);
});
