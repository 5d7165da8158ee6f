import assert from "node:assert/strict";
import { test } from "node:test";

import { Listeners } from "../listeners.js";

const soon = () => new Promise((resolve) => setImmediate(resolve));

test("a change that comes first makes telling the present superfluous", async () => {
  const heard = [];
  const listeners = new Listeners();
  listeners.add((value) => heard.push(value), () => ["present"]);
  listeners.tell(() => ["change"]);
  await soon();
  assert.deepEqual(heard, ["change"]);
});

test("a listener that left hears nothing more, not even the present", async () => {
  const heard = [];
  const listeners = new Listeners();
  const stop = listeners.add((value) => heard.push(value), () => ["present"]);
  stop();
  listeners.tell(() => ["change"]);
  await soon();
  assert.deepEqual(heard, []);
});

test("the same function may listen twice, and one that leaves during a change takes nobody along", async () => {
  const heard = [];
  const listeners = new Listeners();
  const hear = (value) => heard.push(value);
  listeners.add(hear, () => ["p"]);
  const stop = listeners.add(() => stop(), () => ["p"]);
  listeners.add(hear, () => ["p"]);
  await soon();
  listeners.tell(() => ["c"]);
  assert.deepEqual(heard, ["p", "p", "c", "c"]);
});

test("the first to come and the last to leave are announced, once each", () => {
  const said = [];
  const listeners = new Listeners((some) => said.push(some));
  const stops = [1, 2].map(() => listeners.add(() => {}, () => []));
  stops[0]();
  stops[0]();
  stops[1]();
  stops[1]();
  stops[0]();
  assert.deepEqual(said, [true, false]);
});
