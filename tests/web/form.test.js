// From what was typed to the answer that is sent, and from a refusal back to the field.
import assert from "node:assert/strict";
import { test } from "node:test";
import { blank, isTouched, keepable, newRow, restore } from "../../server/waitpoint/web/draft.js";
import { collect, locate } from "../../server/waitpoint/web/form.js";
import { modelOf } from "../../server/waitpoint/web/schema.js";

const object = (properties, required = Object.keys(properties), more = {}) => ({ type: "object", properties, required, ...more });

/** A form over `schema`, with `type(draft of field name)` for every name given. */
function filled(schema, typing = {}) {
  const field = modelOf(schema);
  const draft = blank(field);
  for (const [name, change] of Object.entries(typing)) Object.assign(draft.fields[field.fields.findIndex((inner) => inner.name === name)], change);
  return { field, draft, ...collect(field, draft) };
}

const rows = (field, drafts) => drafts.map((draft) => ({ ...newRow(field), draft }));

test("what nobody filled in is left out, also where it is required: the server says so", () => {
  const schema = object({ text: { type: "string" }, yes: { type: "boolean" }, pick: { enum: ["a"] }, count: { type: "integer" }, any: {} });
  assert.deepEqual(filled(schema).value, {});
  assert.deepEqual(filled(schema).errors, []);
});

test("false, zero and empty text are answers when somebody gave them", () => {
  const schema = object({ text: { type: "string" }, yes: { type: "boolean" }, count: { type: "integer" } });
  const { value } = filled(schema, { text: { empty: true }, yes: { answer: false }, count: { text: "0" } });
  assert.deepEqual(value, { text: "", yes: false, count: 0 });
});

test("text is sent as it was typed, with its spaces and lines", () => {
  assert.deepEqual(filled(object({ text: { type: "string" } }), { text: { text: "  a\nb " } }).value, { text: "  a\nb " });
});

test("an optional field that stays empty is left out, and null is sent only when chosen", () => {
  const schema = object({ note: { anyOf: [{ type: "string" }, { type: "null" }], default: null }, size: { type: ["integer", "null"] } }, ["size"]);
  assert.deepEqual(filled(schema).value, {});
  assert.deepEqual(filled(schema, { size: { isNull: true } }).value, { size: null });
  assert.deepEqual(filled(schema, { size: { isNull: true, text: "3" } }).value, { size: null });
});

test("numbers are read exactly or refused on the spot", () => {
  const schema = object({ n: { type: "number" } });
  for (const [text, n] of [["1", 1], ["-2.5", -2.5], ["1e3", 1000], [" 7 ", 7], [".5", 0.5], ["-0", 0]]) {
    assert.deepEqual(filled(schema, { n: { text } }).value, { n }, text);
  }
  for (const text of ["many", "1,5", "0x10", "Infinity", "NaN", "1e999", "--1"]) {
    assert.deepEqual(filled(schema, { n: { text } }).errors.map(({ path, code }) => ({ path, code })), [{ path: ["n"], code: "not-a-number" }], text);
  }
});

test("an integer that would become another one is refused on the spot", () => {
  const { errors } = filled(object({ n: { type: "integer" } }), { n: { text: "9007199254740993" } });
  assert.equal(errors[0].code, "unsafe-integer");
});

test("a fraction in a whole-number field goes to the server, who is the judge", () => {
  assert.deepEqual(filled(object({ n: { type: "integer" } }), { n: { text: "2.5" } }).value, { n: 2.5 });
});

test("a choice is sent as the schema's value, not as its label", () => {
  assert.deepEqual(filled(object({ pick: { enum: ["a", 2, null] } }), { pick: { index: 1 } }).value, { pick: 2 });
  assert.deepEqual(filled(object({ pick: { enum: ["a", 2, null] } }), { pick: { index: 2 } }).value, { pick: null });
});

test("defaults are filled in before anybody types, and are sent as they stand", () => {
  const schema = object({ name: { type: "string", default: "Ann" }, yes: { type: "boolean", default: false }, n: { type: "integer", default: 0 }, pick: { enum: ["a", "b"], default: "b" }, tags: { type: "array", items: { type: "string" }, default: ["x"] } }, []);
  assert.deepEqual(filled(schema).value, { name: "Ann", yes: false, n: 0, pick: "b", tags: ["x"] });
});

test("a list is sent row by row in order", () => {
  const schema = object({ tags: { type: "array", items: { type: "string" } } });
  const list = modelOf(schema).fields[0];
  assert.deepEqual(filled(schema, { tags: { rows: rows(list, [{ text: "a" }, { text: "b" }]) } }).value, { tags: ["a", "b"] });
});

test("a required list without rows is the empty list, an optional one is left out", () => {
  const list = { type: "array", items: { type: "string" } };
  assert.deepEqual(filled(object({ tags: list })).value, { tags: [] });
  assert.deepEqual(filled(object({ tags: list }, [])).value, {});
});

test("removing every row of a default is an answer, not a wish for the default", () => {
  const schema = object({ tags: { type: "array", items: { type: "string" }, default: ["x"] } }, []);
  assert.deepEqual(filled(schema, { tags: { rows: [] } }).value, { tags: [] });
});

test("an empty row is pointed at instead of shifting the rows below it", () => {
  const schema = object({ tags: { type: "array", items: { type: "string" } } });
  const list = modelOf(schema).fields[0];
  const { errors } = filled(schema, { tags: { rows: rows(list, [{ text: "a" }, { text: "" }, { text: "c" }]) } });
  assert.deepEqual(errors.map(({ path, code }) => ({ path, code })), [{ path: ["tags", 1], code: "missing" }]);
});

test("an optional group is left out until somebody changes something in it", () => {
  const address = object({ city: { type: "string" }, country: { type: "string", default: "DK" } }, ["city"]);
  const schema = object({ home: address }, []);
  assert.deepEqual(filled(schema).value, {});
  assert.deepEqual(filled(schema, { home: { fields: [{ text: "Aarhus", empty: false }, { text: "DK", empty: false }] } }).value, { home: { city: "Aarhus", country: "DK" } });
});

test("a required group is there even when it is empty, so that the server can name its fields", () => {
  assert.deepEqual(filled(object({ home: object({ city: { type: "string" } }) })).value, { home: {} });
});

test("a variant carries the constant that names it", () => {
  const schema = object({ pet: { oneOf: [object({ kind: { const: "cat" }, lives: { type: "integer" } }), object({ kind: { const: "dog" } })] } });
  const field = modelOf(schema);
  const draft = blank(field);
  assert.deepEqual(collect(field, draft).value, {});
  draft.fields[0].index = 0;
  draft.fields[0].fields[0].fields[1].text = "9";
  assert.deepEqual(collect(field, draft).value, { pet: { kind: "cat", lives: 9 } });
});

test("a constant is sent only when it was given", () => {
  const schema = object({ terms: { const: true } });
  assert.deepEqual(filled(schema).value, {});
  assert.deepEqual(filled(schema, { terms: { given: true } }).value, { terms: true });
});

test("a set is sent in the schema's order", () => {
  const schema = object({ days: { type: "array", uniqueItems: true, items: { enum: ["mon", "tue", "wed"] } } });
  assert.deepEqual(filled(schema, { days: { indexes: [2, 0] } }).value, { days: ["mon", "wed"] });
});

test("JSON is parsed, and broken JSON is refused beside its field", () => {
  assert.deepEqual(filled(object({ any: {} }), { any: { text: '{"a": [1, null]}' } }).value, { any: { a: [1, null] } });
  assert.deepEqual(filled(object({ any: {} }), { any: { text: "null" } }).value, { any: null });
  const { errors } = filled(object({ any: {} }), { any: { text: "{" } });
  assert.deepEqual(errors.map(({ path, code }) => ({ path, code })), [{ path: ["any"], code: "not-json" }]);
});

test("a local date and time is sent with its offset", () => {
  const { value } = filled(object({ at: { type: "string", format: "date-time" } }), { at: { text: "2026-03-05T10:30" } });
  assert.match(value.at, /^2026-03-05T10:30:00[+-]\d\d:\d\d$/);
  assert.equal(new Date(value.at).getTime(), new Date("2026-03-05T10:30").getTime());
});

test("half a date is pointed at", () => {
  const { errors } = filled(object({ due: { type: "string", format: "date" } }), { due: { text: "", bad: true } });
  assert.deepEqual(errors.map(({ path, code }) => ({ path, code })), [{ path: ["due"], code: "incomplete" }]);
});

test("a member name such as __proto__ is a name like any other", () => {
  const schema = JSON.parse('{"type":"object","properties":{"__proto__":{"type":"string"}},"required":["__proto__"]}');
  const { value } = filled(schema, { ["__proto__"]: { text: "x" } });
  const field = modelOf(schema);
  const draft = blank(field);
  draft.fields[0].text = "x";
  assert.equal(JSON.stringify(collect(field, draft).value), '{"__proto__":"x"}');
  assert.equal(Object.getPrototypeOf(value), Object.prototype);
});

test("a form without any answer is not sent: a missing payload is not null", () => {
  for (const schema of [{ type: "string" }, { type: "boolean" }, { type: "integer" }, { enum: ["a"] }, {}]) {
    const field = modelOf(schema);
    const { value, errors } = collect(field, blank(field));
    assert.equal(value, undefined);
    assert.deepEqual(errors.map(({ path, code }) => ({ path, code })), [{ path: [], code: "missing" }], JSON.stringify(schema));
  }
});

test("a root that can only be null is answered by sending the form", () => {
  const field = modelOf({ type: "null" });
  assert.deepEqual(collect(field, blank(field)), { value: null, errors: [] });
});

test("an error finds its field through groups, rows and the chosen variant", () => {
  const schema = object({
    home: object({ city: { type: "string" } }),
    people: { type: "array", items: object({ name: { type: "string" } }) },
    pet: { oneOf: [object({ kind: { const: "cat" }, lives: { type: "integer" } }), object({ kind: { const: "dog" } })] },
    any: {},
  });
  const field = modelOf(schema);
  const draft = blank(field);
  draft.fields[1].rows = [newRow(field.fields[1]), newRow(field.fields[1])];
  const at = (path) => locate(field, draft, path);
  assert.deepEqual(at(["home", "city"]), { at: ["home", "city"], rest: [] });
  assert.deepEqual(at(["people", 1, "name"]), { at: ["people", 1, "name"], rest: [] });
  assert.deepEqual(at(["people", 7, "name"]), { at: ["people"], rest: [7, "name"] });
  assert.deepEqual(at(["pet", "lives"]), { at: ["pet"], rest: ["lives"] });
  draft.fields[2].index = 0;
  assert.deepEqual(at(["pet", "lives"]), { at: ["pet", "lives"], rest: [] });
  assert.deepEqual(at(["pet", "kind"]), { at: ["pet"], rest: ["kind"] });
  assert.deepEqual(at(["any", "deep", 0]), { at: ["any"], rest: ["deep", 0] });
  assert.deepEqual(at(["nowhere"]), { at: [], rest: ["nowhere"] });
  assert.deepEqual(at([]), { at: [], rest: [] });
});

test("a form is touched once something in it differs from its defaults", () => {
  const field = modelOf(object({ name: { type: "string", default: "Ann" }, tags: { type: "array", items: { type: "string" }, default: ["x"] } }, []));
  const draft = blank(field);
  assert.equal(isTouched(field, draft), false);
  draft.fields[0].text = "Bob";
  assert.equal(isTouched(field, draft), true);
  draft.fields[0].text = "Ann";
  assert.equal(isTouched(field, draft), false);
});

test("a kept draft comes back whole, and one of another form does not come back", () => {
  const field = modelOf(object({ name: { type: "string" }, tags: { type: "array", items: { type: "string" } } }));
  const draft = blank(field);
  draft.fields[0].text = "Ann";
  draft.fields[1].rows = rows(field.fields[1], [{ text: "a", empty: false }]);
  const kept = JSON.parse(JSON.stringify(keepable(field, draft)));
  assert.deepEqual(collect(field, restore(field, kept)).value, { name: "Ann", tags: ["a"] });
  for (const other of [null, 3, {}, { fields: [] }, { fields: [{ text: 1 }, {}] }, { fields: [{ text: "", empty: false }, { rows: [{}] }] }]) {
    assert.equal(restore(field, other), null, JSON.stringify(other));
  }
});

test("a password is never kept", () => {
  const field = modelOf(object({ key: { type: "string", writeOnly: true } }));
  const draft = blank(field);
  draft.fields[0].text = "secret";
  assert.doesNotMatch(JSON.stringify(keepable(field, draft)), /secret/);
  assert.deepEqual(collect(field, draft).value, { key: "secret" });
});
