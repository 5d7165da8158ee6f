/**
 * From a resume schema (JSON Schema) to a model of fields that a form can show.
 *
 * Knows JSON Schema's shapes; no DOM, no values that people typed. What it cannot express as fields becomes one `json`
 * field, so that every action can be answered from the page. It never judges an answer: the server does.
 *
 * @module
 */

import { isObject, resolve } from "./refs.js";
import { humanise } from "./words.js";

/** @import { Where } from "./refs.js" */

/** @typedef {{ label: string, value: any, hint?: string }} Option */

/**
 * @typedef {object} Field  One field of a form.
 * @property {"text" | "number" | "boolean" | "choice" | "choices" | "list" | "tuple" | "group" | "variants" | "constant" | "nothing" | "json"} kind
 * @property {string} name
 * @property {string} label
 * @property {string} [hint]
 * @property {boolean} required
 * @property {boolean} nullToggle  The person can choose `null`, apart from leaving the field out.
 * @property {any} [default]  There only if the schema has one.
 * @property {string} [input]  text: the kind of input (`text`, `multiline`, `date`, `time`, `datetime-local`, `password`, `email`, `url`).
 * @property {boolean} [allowsEmpty]  text: `""` can be an answer.
 * @property {boolean} [integer]  number.
 * @property {Option[]} [options]  choice, choices.
 * @property {Field} [item]  list: what each row is.
 * @property {Field[]} [fields]  group, tuple.
 * @property {{ label: string, field: Field }[]} [variants]
 * @property {any} [value]  constant.
 * @property {boolean} [fixed]  constant: tells variants apart, so it is part of the answer without being shown.
 * @property {string} [limits]  A line about ranges and lengths, for people.
 */

/** @typedef {{ name: string, required: boolean, inVariant?: boolean }} Place */

const MAX_DEPTH = 8;

/**
 * The model of an answer.
 *
 * @param {any} schema  An action's `schema`.
 * @returns {Field}
 */
export function modelOf(schema) {
  return build(schema, { name: "", required: true }, { root: schema, refs: [], depth: 0 });
}

/**
 * @param {any} raw
 * @param {Place} place
 * @param {Where} where
 * @returns {Field}
 */
function build(raw, place, where) {
  const found = resolve(raw, where);
  if (found === null || where.depth > MAX_DEPTH) return json(isObject(raw) ? raw : {}, place);
  const { schema, inside } = found;
  if ("const" in schema) return constant(schema, place);
  if (Array.isArray(schema.enum)) return choice(schema, schema.enum.map((/** @type {any} */ value) => ({ label: optionLabel(value), value })), place);
  const several = alternatives(schema);
  if (several !== null) return union(schema, several, place, inside);
  return single(schema, place, inside);
}

/** @param {any} schema @param {Place} place @param {Where} where @returns {Field} */
function single(schema, place, where) {
  const deeper = { ...where, depth: where.depth + 1 };
  switch (typeOf(schema)) {
    case "string":
      return { ...base("text", schema, place), ...textual(schema, place) };
    case "integer":
      return { ...base("number", schema, place), integer: true };
    case "number":
      return { ...base("number", schema, place), integer: false };
    case "boolean":
      return base("boolean", schema, place);
    case "null":
      return base("nothing", schema, place);
    case "array":
      return array(schema, place, deeper);
    case "object":
      return object(schema, place, deeper);
    default:
      return json(schema, place);
  }
}

/** @param {any} schema @param {Place} place @param {Where} where @returns {Field} */
function array(schema, place, where) {
  if (Array.isArray(schema.prefixItems)) {
    const fields = schema.prefixItems.map((/** @type {any} */ item, /** @type {number} */ index) =>
      build(item, { name: `${index + 1}`, required: true }, where),
    );
    return { ...base("tuple", schema, place), fields };
  }
  if (schema.items === undefined || schema.items === true) return json(schema, place);
  const item = build(schema.items, { name: "", required: true }, where);
  // Only a set can be ticked: in a list, order and repetition may matter.
  if (item.kind === "choice" && schema.uniqueItems === true) {
    return { ...base("choices", schema, place), options: item.options };
  }
  return { ...base("list", schema, place), item };
}

/** @param {any} schema @param {Place} place @param {Where} where @returns {Field} */
function object(schema, place, where) {
  const entries = isObject(schema.properties) ? Object.entries(schema.properties) : [];
  if (entries.length === 0) {
    // An object that can only be {} has nothing to fill in; any other open object is written as JSON.
    return schema.additionalProperties === false ? { ...base("group", schema, place), fields: [] } : json(schema, place);
  }
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const fields = entries.map(([name, property]) => {
    const field = build(property, { name, required: required.has(name) }, where);
    if (field.kind === "constant" && place.inVariant) field.fixed = true;
    return field;
  });
  return { ...base("group", schema, place), fields };
}

/**
 * Several schemas of which one must fit. `null` among them is a property of the field, not a variant.
 *
 * @param {any} schema
 * @param {any[]} several
 * @param {Place} place
 * @param {Where} where
 * @returns {Field}
 */
function union(schema, several, place, where) {
  const resolved = several.map((one) => resolve(one, where));
  if (resolved.some((one) => one === null)) return json(schema, place);
  const all = resolved.map((one) => /** @type {{ schema: any, inside: Where }} */ (one));
  const real = all.filter((one) => typeOf(one.schema) !== "null" && !("const" in one.schema && one.schema.const === null));
  const nullable = real.length < all.length;
  if (real.length === 0) return base("nothing", schema, place);
  const outer = annotations(schema);
  /** @type {Field} */
  let field;
  if (real.length === 1) {
    field = build({ ...real[0].schema, ...outer }, place, real[0].inside);
  } else if (real.every((one) => "const" in one.schema || Array.isArray(one.schema.enum))) {
    const options = real.flatMap(({ schema: one }) =>
      "const" in one
        ? [{ label: one.title ?? optionLabel(one.const), value: one.const, hint: one.description }]
        : one.enum.map((/** @type {any} */ value) => ({ label: optionLabel(value), value })),
    );
    field = choice(schema, options, place);
  } else {
    const deeper = { ...where, depth: where.depth + 1 };
    const variants = real.map((one) => {
      const inner = build(one.schema, { name: place.name, required: true, inVariant: true }, { ...one.inside, depth: deeper.depth });
      return { label: variantLabel(one.schema, inner), field: inner };
    });
    field = { ...base("variants", schema, place), variants };
  }
  return nullable ? withNull(field) : field;
}

/** @param {Field} field @returns {Field} */
function withNull(field) {
  // With a default of null, leaving the field out says the same as null: no second way of saying it is offered.
  return { ...field, nullToggle: field.required || field.default !== null };
}

/** @param {any} schema @param {Option[]} options @param {Place} place @returns {Field} */
function choice(schema, options, place) {
  return { ...base("choice", schema, place), options };
}

/** @param {any} schema @param {Place} place @returns {Field} */
function constant(schema, place) {
  return { ...base("constant", schema, place), value: schema.const };
}

/** @param {any} schema @param {Place} place @returns {Field} */
function json(schema, place) {
  return base("json", schema, place);
}

/**
 * @param {Field["kind"]} kind
 * @param {any} schema
 * @param {Place} place
 * @returns {Field}
 */
function base(kind, schema, place) {
  /** @type {Field} */
  const field = {
    kind,
    name: place.name,
    label: typeof schema.title === "string" ? schema.title : place.name === "" ? "" : humanise(place.name),
    required: place.required,
    nullToggle: false,
  };
  if (typeof schema.description === "string") field.hint = schema.description;
  if ("default" in schema) field.default = schema.default;
  const limits = limitsOf(schema);
  if (limits !== "") field.limits = limits;
  return field;
}

const LONG_NAMES = /^(comments?|notes?|description|body|message|details|feedback|explanation|instructions)$/i;
const INPUTS = { date: "date", time: "time", "date-time": "datetime-local", password: "password", email: "email", uri: "url" };

/** @param {any} schema @param {Place} place */
function textual(schema, place) {
  const input = INPUTS[/** @type {keyof typeof INPUTS} */ (schema.format)];
  const long =
    schema["x-multiline"] === true ||
    schema.format === "textarea" ||
    schema.format === "multiline" ||
    (schema.maxLength ?? 0) > 200 ||
    (schema.maxLength === undefined && LONG_NAMES.test(place.name));
  return {
    input: schema.writeOnly === true ? "password" : (input ?? (long ? "multiline" : "text")),
    allowsEmpty: !(schema.minLength > 0) && schema.format === undefined && schema.pattern === undefined,
  };
}

/** @param {any} schema */
function limitsOf(schema) {
  const low = schema.minimum ?? schema.exclusiveMinimum;
  const high = schema.maximum ?? schema.exclusiveMaximum;
  const between = low !== undefined && high !== undefined;
  if (between && schema.minimum !== undefined && schema.maximum !== undefined) return `From ${low} to ${high}.`;
  const words = [];
  if (schema.minimum !== undefined) words.push(`At least ${schema.minimum}.`);
  if (schema.exclusiveMinimum !== undefined) words.push(`More than ${schema.exclusiveMinimum}.`);
  if (schema.maximum !== undefined) words.push(`At most ${schema.maximum}.`);
  if (schema.exclusiveMaximum !== undefined) words.push(`Less than ${schema.exclusiveMaximum}.`);
  if (schema.minItems > 0) words.push(`At least ${schema.minItems} ${schema.minItems === 1 ? "entry" : "entries"}.`);
  if (schema.maxItems !== undefined) words.push(`At most ${schema.maxItems} ${schema.maxItems === 1 ? "entry" : "entries"}.`);
  if (schema.maxLength !== undefined) words.push(`At most ${schema.maxLength} characters.`);
  return words.join(" ");
}

/** @param {any} schema @returns {any[] | null} */
function alternatives(schema) {
  const several = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(several) && several.length > 0) return several;
  if (!Array.isArray(schema.type) || schema.type.length === 0) return null;
  const { title: _t, description: _d, default: _v, ...rest } = schema;
  return schema.type.map((/** @type {string} */ type) => ({ ...rest, type }));
}

/** @param {any} schema */
function annotations(schema) {
  return Object.fromEntries(["title", "description", "default"].filter((key) => key in schema).map((key) => [key, schema[key]]));
}

/** @param {any} schema @returns {string | undefined} */
function typeOf(schema) {
  if (typeof schema.type === "string") return schema.type;
  if (isObject(schema.properties)) return "object";
  if (schema.items !== undefined || schema.prefixItems !== undefined) return "array";
  return undefined;
}

const KINDS = { text: "Text", number: "Number", boolean: "Yes or no", list: "List", tuple: "List", choices: "Set", group: "Details", json: "JSON" };

/** @param {any} schema @param {Field} field */
function variantLabel(schema, field) {
  if (typeof schema.title === "string") return schema.title;
  const tag = field.fields?.find((inner) => inner.kind === "constant" && inner.fixed);
  if (tag !== undefined) return optionLabel(tag.value);
  if (field.kind === "constant") return optionLabel(field.value);
  return KINDS[/** @type {keyof typeof KINDS} */ (field.kind)] ?? "Choice";
}

/** @param {any} value */
function optionLabel(value) {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "Yes" : "No";
  return typeof value === "string" ? (value === "" ? "(empty)" : value) : JSON.stringify(value);
}
