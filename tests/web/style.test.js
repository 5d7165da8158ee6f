// The palette, held to the contrast that WCAG 2.2 AA asks for, in light and in dark.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const css = readFileSync(new URL("../../server/waitpoint/web/base.css", import.meta.url), "utf8");
const palettes = [...css.matchAll(/:root\s*\{([^}]*)\}/g)].map((block) => Object.fromEntries([...block[1].matchAll(/--([a-z-]+):\s*(#[0-9a-f]{6})/g)].map((one) => [one[1], one[2]])));

const light = palettes[0];
const dark = { ...light, ...palettes[1] };

/** Relative luminance of WCAG 2.2. */
function luminance(colour) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

const TEXT = [
  ["text", "ground"], ["text", "surface"], ["text", "sunk"], ["text", "bubble"], ["text", "accent-soft"],
  ["muted", "ground"], ["muted", "surface"], ["muted", "sunk"],
  ["accent", "surface"], ["accent", "accent-soft"], ["on-accent", "accent"],
  ["wait", "surface"], ["wait", "wait-soft"],
  ["bad", "surface"], ["bad", "ground"], ["bad", "bad-soft"],
];
const SHAPES = [["edge", "surface"], ["accent", "ground"], ["accent", "surface"], ["bad", "surface"]];

for (const [name, palette] of [["light", light], ["dark", dark]]) {
  test(`text can be read in ${name}`, () => {
    for (const [front, back] of TEXT) {
      const ratio = contrast(palette[front], palette[back]);
      assert.ok(ratio >= 4.5, `--${front} on --${back}: ${ratio.toFixed(2)} : 1`);
    }
  });

  test(`edges of inputs and the focus ring can be seen in ${name}`, () => {
    for (const [front, back] of SHAPES) {
      const ratio = contrast(palette[front], palette[back]);
      assert.ok(ratio >= 3, `--${front} on --${back}: ${ratio.toFixed(2)} : 1`);
    }
  });
}

test("there is a dark palette of its own", () => {
  assert.equal(palettes.length, 2);
  assert.notEqual(dark.ground, light.ground);
});
