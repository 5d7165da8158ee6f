/**
 * Drafts: what somebody typed into a form, before it is an answer.
 *
 * Knows fields (`schema.js`); no DOM. A draft is plain JSON, so it can be kept over a reload. It starts from the schema's
 * defaults and from nothing else.
 *
 * @module
 */

/** @import { Field } from "./schema.js" */

/**
 * @typedef {object} Draft  What was typed into one field; which members are used depends on the field's kind.
 * @property {boolean} [isNull]
 * @property {string} [text]  text, number, json.
 * @property {boolean} [empty]  text: empty on purpose.
 * @property {boolean} [bad]  text: the input shows something that it cannot spell, such as half a date.
 * @property {boolean} [answer]  boolean.
 * @property {number | null} [index]  choice, variants.
 * @property {number[]} [indexes]  choices.
 * @property {{ id: number, draft: Draft }[]} [rows]  list.
 * @property {Draft[]} [fields]  group, tuple, variants: in the field's order.
 * @property {boolean} [given]  constant.
 */

let rowIds = 0;

/**
 * The draft of a form that nobody touched: empty, but for the schema's defaults.
 *
 * @param {Field} field
 * @returns {Draft}
 */
export function blank(field) {
  const draft = empty(field);
  if (field.default !== undefined && field.default !== null) write(field, draft, field.default);
  return draft;
}

/** @param {Field} field @returns {Draft} */
function empty(field) {
  switch (field.kind) {
    case "text":
      return { text: "", empty: false };
    case "number":
    case "json":
      return { text: "" };
    case "choice":
      return { index: null };
    case "choices":
      return { indexes: [] };
    case "list":
      return { rows: [] };
    case "group":
    case "tuple":
      return { fields: (field.fields ?? []).map(blank) };
    case "variants":
      return { index: null, fields: (field.variants ?? []).map((variant) => blank(variant.field)) };
    default:
      return {};
  }
}

/**
 * Another row of a list.
 *
 * @param {Field} list
 * @returns {{ id: number, draft: Draft }}
 */
export function newRow(list) {
  rowIds += 1;
  return { id: rowIds, draft: blank(/** @type {Field} */ (list.item)) };
}

/**
 * Fill a draft with a value, as far as the field can show it.
 *
 * @param {Field} field
 * @param {Draft} draft
 * @param {any} value
 */
function write(field, draft, value) {
  switch (field.kind) {
    case "text":
      if (typeof value === "string") draft.text = field.input === "datetime-local" ? toLocal(value) : value;
      return;
    case "number":
      if (typeof value === "number") draft.text = String(value);
      return;
    case "json":
      draft.text = JSON.stringify(value, null, 2);
      return;
    case "boolean":
      if (typeof value === "boolean") draft.answer = value;
      return;
    case "choice": {
      const index = indexOf(field, value);
      if (index >= 0) draft.index = index;
      return;
    }
    case "choices":
      if (Array.isArray(value)) draft.indexes = value.map((one) => indexOf(field, one)).filter((index) => index >= 0);
      return;
    case "list":
      if (!Array.isArray(value)) return;
      draft.rows = value.map((one) => {
        const row = newRow(field);
        write(/** @type {Field} */ (field.item), row.draft, one);
        return row;
      });
      return;
    case "tuple":
      if (Array.isArray(value)) field.fields?.forEach((inner, index) => write(inner, draftAt(draft, index), value[index]));
      return;
    case "group":
      if (value === null || typeof value !== "object") return;
      field.fields?.forEach((inner, index) => {
        if (Object.hasOwn(value, inner.name)) write(inner, draftAt(draft, index), value[inner.name]);
      });
      return;
    default:
      // Which variant a default means is the server's to say; a constant has to be given by a person.
      return;
  }
}

/**
 * Whether somebody put something into the form that would be lost with it.
 *
 * @param {Field} field
 * @param {Draft} draft
 */
export function isTouched(field, draft) {
  return JSON.stringify(draft, ignoreIds) !== JSON.stringify(blank(field), ignoreIds);
}

/**
 * A kept draft, if it still fits its form; otherwise `null`.
 *
 * @param {Field} field
 * @param {any} kept
 * @returns {Draft | null}
 */
export function restore(field, kept) {
  try {
    return fits(field, kept) ? kept : null;
  } catch {
    return null;
  }
}

/** @param {Field} field @param {any} kept @returns {boolean} */
function fits(field, kept) {
  if (kept === null || typeof kept !== "object") return false;
  for (const [key, like] of Object.entries(empty(field))) {
    if (like !== null && like !== undefined && typeof kept[key] !== typeof like) return false;
    if (Array.isArray(like) !== Array.isArray(kept[key])) return false;
  }
  if (field.kind === "list") {
    for (const row of kept.rows) {
      if (!fits(/** @type {Field} */ (field.item), row.draft)) return false;
      rowIds += 1;
      row.id = rowIds;
    }
  }
  const inner = field.kind === "variants" ? field.variants?.map((variant) => variant.field) : field.fields;
  if (inner === undefined) return true;
  return kept.fields.length === inner.length && inner.every((one, index) => fits(one, kept.fields[index]));
}

/**
 * A draft as it may be kept: without what was typed into password inputs.
 *
 * @param {Field} field
 * @param {Draft} draft
 * @returns {Draft}
 */
export function keepable(field, draft) {
  if (field.kind === "text") return field.input === "password" ? { ...draft, text: "" } : { ...draft, bad: false };
  if (field.kind === "list") {
    return { ...draft, rows: draft.rows?.map((row) => ({ ...row, draft: keepable(/** @type {Field} */ (field.item), row.draft) })) };
  }
  const inner = field.kind === "variants" ? field.variants?.map((variant) => variant.field) : field.fields;
  if (inner === undefined) return draft;
  return { ...draft, fields: inner.map((one, index) => keepable(one, draftAt(draft, index))) };
}

/** @param {Draft} draft @param {number} index @returns {Draft} */
export function draftAt(draft, index) {
  return /** @type {Draft[]} */ (draft.fields)[index];
}

/** @param {Field} field @param {any} value */
function indexOf(field, value) {
  const wanted = JSON.stringify(value);
  return (field.options ?? []).findIndex((option) => JSON.stringify(option.value) === wanted);
}

/** @param {string} key @param {any} value */
function ignoreIds(key, value) {
  return key === "id" || key === "bad" ? undefined : value;
}

/** @param {string} value */
function toLocal(value) {
  const moment = new Date(value);
  if (Number.isNaN(moment.getTime())) return "";
  return new Date(moment.getTime() - moment.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
