import assert from "node:assert/strict";
import { test } from "node:test";
import vm from "node:vm";

import { byteLength, decode, encodeCommand, refusal } from "../codec.js";

const nested = (depth) => {
  let value = 0;
  for (let level = 0; level < depth; level++) value = [value];
  return value;
};
const shared = () => {
  let value = [];
  for (let level = 0; level < 60; level++) value = [value, value]; // 2^60 values as a tree
  return value;
};
const cyclic = {};
cyclic.self = cyclic;

const good = {
  "null": null, "false": false, "zero": 0, "empty text": "", "empty list": [], "empty object": {}, "fraction": 0.1,
  "largest integer": 2 ** 53 - 1, "smallest integer": -(2 ** 53 - 1), "large float": 1e300, "emoji": "😀", "NUL": "\0",
  "no prototype": Object.assign(Object.create(null), { a: 1 }), "of another realm": vm.runInNewContext("({ a: [1] })"),
  "64 levels": nested(64), "own __proto__": JSON.parse('{"__proto__":{"a":1}}'),
};
for (const [name, value] of Object.entries(good)) {
  test(`${name} is a value, and is spelled as itself`, () => {
    assert.equal(refusal(value), null);
    const text = encodeCommand({ type: "submit", id: "k", thread: "t", action: "a", data: value });
    assert.equal(JSON.stringify(JSON.parse(text).data), JSON.stringify(value));
  });
}

test("minus zero is zero", () => {
  assert.match(encodeCommand({ type: "submit", id: "k", thread: "t", action: "a", data: [-0] }), /"data":\[0\]/);
});

const bad = {
  "NaN": [{ n: NaN }, "not-finite", ["n"]],
  "infinity": [[1, -Infinity], "not-finite", [1]],
  "2^53": [2 ** 53, "integer-range", []],
  "-2^60": [{ a: [-(2 ** 60)] }, "integer-range", ["a", 0]],
  "a lone surrogate": [["ok", "\ud800"], "bad-unicode", [1]],
  "half a pair at the end": ["a\ude00", "bad-unicode", []],
  "a key with a lone surrogate": [{ "\udc00": 1 }, "bad-unicode", ["\ufffd"]],
  "undefined": [{ deadline: undefined }, "unsupported-type", ["deadline"]],
  "a hole in a list": [[1, , 3], "unsupported-type", [1]],
  "a Date": [{ when: new Date(0) }, "unsupported-type", ["when"]],
  "a BigInt": [10n, "unsupported-type", []],
  "a function": [{ f() {} }, "unsupported-type", ["f"]],
  "a symbol": [Symbol("s"), "unsupported-type", []],
  "a symbol key": [{ [Symbol("s")]: 1 }, "bad-key", []],
  "a Map": [new Map(), "unsupported-type", []],
  "bytes": [{ file: new Uint8Array(2) }, "unsupported-type", ["file"]],
  "a boxed number": [Object(1), "unsupported-type", []],
  "an instance": [{ of: new (class Money {})() }, "unsupported-type", ["of"]],
  "65 levels": [nested(65), "too-deep", Array(64).fill(0)],
  "a cycle": [cyclic, "too-deep", Array(64).fill("self")],
  "a graph that is huge as a tree": [shared(), "too-large", []],
};
for (const [name, [value, code, path]] of Object.entries(bad)) {
  test(`${name} is refused by name and place`, () => {
    const { code: got, path: where, message } = refusal(value);
    assert.deepEqual([got, where], [code, path]);
    assert.ok(message.length > 5);
  });
}

test("70,000 nested arrays are refused without exhausting the stack", () => {
  assert.equal(refusal(nested(70_000)).code, "too-deep");
});

test("a refused payload names its place from the payload's root", () => {
  assert.throws(
    () => encodeCommand({ type: "submit", id: "k", thread: "t", action: "a", data: { rows: [1n] } }),
    (error) => error.code === "invalid" && error.local && /\$\.rows\[0\]/.test(error.message),
  );
});

test("bytes are those of UTF-8", () => {
  assert.deepEqual(["a", "é", "€", "😀"].map(byteLength), [1, 2, 3, 4]);
});

test("one frame or a list of them is read; unknown types are left out", () => {
  assert.deepEqual(decode('{"type":"ping"}'), [{ type: "ping" }]);
  assert.deepEqual(decode('[{"type":"ping"},{"type":"hum"},{"type":"toString"},{"type":"ping","new":1}]'), [{ type: "ping" }, { type: "ping", new: 1 }]);
});

for (const text of ["", "{", "null", "7", '"ping"', "[[]]", "{}", '{"type":1}', '{"type":"events","thread":"t"}', '{"type":"snapshot","thread":"t","cursor":{"log":"L","seq":1,"tag":"x"},"state":{}}', '{"type":"events","thread":"t","log":"L","seq":1,"prev":"","tag":"a","events":[null]}', '{"type":"ack"}', '{"type":"goodbye"}', '{"type":"welcome","limits":null}']) {
  test(`what is not a frame is an error, not a crash later: ${text}`, () => {
    assert.throws(() => decode(text), (error) => error instanceof SyntaxError || error instanceof TypeError);
  });
}
