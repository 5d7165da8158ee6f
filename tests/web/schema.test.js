// From resume schemas, as pydantic and people write them, to fields.
import assert from "node:assert/strict";
import { test } from "node:test";
import { modelOf } from "../../server/waitpoint/web/schema.js";

const object = (properties, required = Object.keys(properties), more = {}) => ({ type: "object", properties, required, ...more });
const field = (schema, required = true) => modelOf(object({ it: schema }, required ? ["it"] : [])).fields[0];

test("a plain object becomes a group of labelled fields in schema order", () => {
  const model = modelOf(object({ audience: { type: "string", title: "Audience", description: "Who reads it" }, dueDate: { type: "string" } }, ["audience"]));
  assert.equal(model.kind, "group");
  assert.deepEqual(model.fields.map(({ kind, name, label, hint, required }) => ({ kind, name, label, hint, required })), [
    { kind: "text", name: "audience", label: "Audience", hint: "Who reads it", required: true },
    { kind: "text", name: "dueDate", label: "Due date", hint: undefined, required: false },
  ]);
});

test("each simple type gets its kind of field", () => {
  const kinds = { string: "text", integer: "number", number: "number", boolean: "boolean", null: "nothing" };
  for (const [type, kind] of Object.entries(kinds)) assert.equal(field({ type }).kind, kind, type);
  assert.equal(field({ type: "integer" }).integer, true);
  assert.equal(field({ type: "number" }).integer, false);
});

test("a text that may be long is multi-line, and a format chooses the input", () => {
  const input = (schema, name = "it") => modelOf(object({ [name]: { type: "string", ...schema } })).fields[0].input;
  assert.equal(input({}), "text");
  assert.equal(input({ "x-multiline": true }), "multiline");
  assert.equal(input({ format: "textarea" }), "multiline");
  assert.equal(input({ maxLength: 4000 }), "multiline");
  assert.equal(input({ maxLength: 40 }, "comment"), "text");
  assert.equal(input({}, "comment"), "multiline");
  assert.equal(input({ format: "date" }), "date");
  assert.equal(input({ format: "date-time" }), "datetime-local");
  assert.equal(input({ format: "password" }), "password");
  assert.equal(input({ writeOnly: true }), "password");
});

test("empty text can be an answer only where the schema lets it", () => {
  assert.equal(field({ type: "string" }).allowsEmpty, true);
  for (const more of [{ minLength: 1 }, { format: "date" }, { pattern: "^a" }]) assert.equal(field({ type: "string", ...more }).allowsEmpty, false);
});

test("an enum keeps the values, whatever their type", () => {
  const model = field({ enum: ["a", 2, null, false] });
  assert.equal(model.kind, "choice");
  assert.deepEqual(model.options.map((option) => option.value), ["a", 2, null, false]);
  assert.deepEqual(model.options.map((option) => option.label), ["a", "2", "None", "No"]);
});

test("constants side by side are one choice, with their titles", () => {
  const model = field({ oneOf: [{ const: 1, title: "One", description: "The first" }, { const: 2, title: "Two" }] });
  assert.equal(model.kind, "choice");
  assert.deepEqual(model.options, [{ label: "One", value: 1, hint: "The first" }, { label: "Two", value: 2, hint: undefined }]);
});

test("an optional field that may be null is that field, and leaving it out is the only way to say nothing", () => {
  const model = field({ anyOf: [{ type: "string" }, { type: "null" }], default: null, title: "Deadline" }, false);
  assert.deepEqual([model.kind, model.label, model.required, model.nullToggle], ["text", "Deadline", false, false]);
});

test("a required field that may be null lets the person choose null", () => {
  assert.equal(field({ anyOf: [{ type: "integer" }, { type: "null" }] }).nullToggle, true);
  assert.equal(field({ type: ["integer", "null"] }).nullToggle, true);
  assert.equal(field({ type: ["integer", "null"] }).kind, "number");
});

test("null can be chosen apart from leaving out where the default is another value", () => {
  assert.equal(field({ anyOf: [{ type: "string" }, { type: "null" }], default: "x" }, false).nullToggle, true);
});

test("references are followed, and words beside a reference win", () => {
  const model = modelOf(object({ home: { $ref: "#/$defs/Address", title: "Home" } }, ["home"], { $defs: { Address: object({ city: { type: "string" } }, ["city"], { title: "Address" }) } }));
  assert.equal(model.fields[0].kind, "group");
  assert.equal(model.fields[0].label, "Home");
  assert.equal(model.fields[0].fields[0].name, "city");
});

test("a schema that refers to itself ends in a JSON field instead of for ever", () => {
  const tree = object({ children: { type: "array", items: { $ref: "#/$defs/Tree" } } }, [], { title: "Tree" });
  const model = modelOf({ $ref: "#/$defs/Tree", $defs: { Tree: tree } });
  assert.equal(model.fields[0].kind, "list");
  assert.equal(model.fields[0].item.kind, "json");
});

test("a dangling reference is answered as JSON", () => {
  assert.equal(field({ $ref: "#/$defs/Nowhere" }).kind, "json");
  assert.equal(field({ $ref: "https://example.org/schema.json" }).kind, "json");
});

test("variants of objects are told apart by their constant, which is not shown", () => {
  const cat = object({ kind: { const: "cat" }, lives: { type: "integer" } });
  const dog = object({ kind: { const: "dog" }, name: { type: "string" } });
  const model = field({ oneOf: [cat, dog], discriminator: { propertyName: "kind" } });
  assert.equal(model.kind, "variants");
  assert.deepEqual(model.variants.map((variant) => variant.label), ["cat", "dog"]);
  assert.equal(model.variants[0].field.fields[0].fixed, true);
});

test("a constant outside of variants has to be given by a person", () => {
  const model = field({ const: true, title: "Terms" });
  assert.equal(model.kind, "constant");
  assert.equal(model.fixed, undefined);
});

test("lists have rows, sets of constants have ticks, tuples have a place for each", () => {
  assert.equal(field({ type: "array", items: { type: "string" } }).kind, "list");
  assert.equal(field({ type: "array", items: { enum: ["a", "b"] } }).kind, "list");
  assert.equal(field({ type: "array", items: { enum: ["a", "b"] }, uniqueItems: true }).kind, "choices");
  const tuple = field({ type: "array", prefixItems: [{ type: "string" }, { type: "integer" }] });
  assert.deepEqual([tuple.kind, ...tuple.fields.map((inner) => inner.kind)], ["tuple", "text", "number"]);
});

test("what no field can express is written as JSON", () => {
  for (const schema of [{}, true, { type: "object", additionalProperties: { type: "string" } }, { type: "array" }, { not: { type: "string" } }, { type: "whatever" }]) {
    assert.equal(field(schema).kind, "json", JSON.stringify(schema));
  }
});

test("an object that may have no members has nothing to fill in", () => {
  assert.deepEqual(modelOf({ type: "object", additionalProperties: false, properties: {} }).fields, []);
});

test("allOf is folded into one object", () => {
  const model = modelOf({ allOf: [object({ a: { type: "string" } }), object({ b: { type: "integer" } })] });
  assert.deepEqual(model.fields.map((inner) => [inner.name, inner.required]), [["a", true], ["b", true]]);
});

test("ranges and lengths are put in words", () => {
  assert.equal(field({ type: "integer", minimum: 1, maximum: 9 }).limits, "From 1 to 9.");
  assert.equal(field({ type: "number", exclusiveMinimum: 0 }).limits, "More than 0.");
  assert.equal(field({ type: "array", items: { type: "string" }, minItems: 1 }).limits, "At least 1 entry.");
});

test("a schema that is not an object at the root is one field", () => {
  assert.equal(modelOf({ type: "boolean" }).kind, "boolean");
  assert.equal(modelOf({ enum: ["a", "b"] }).kind, "choice");
  assert.equal(modelOf({}).kind, "json");
});
