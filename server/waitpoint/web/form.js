/**
 * The answer that a filled-in form stands for, and the fields that a refusal belongs to.
 *
 * Knows fields (`schema.js`) and drafts (`draft.js`); no DOM. The server is the
 * judge of an answer: refused here is only what cannot be written as a value at all (a number that is none, broken JSON,
 * an empty row, no answer whatsoever). What nobody chose is left out, never filled in.
 *
 * @module
 */

import { draftAt, isTouched } from "./draft.js";

/** @import { Draft } from "./draft.js" */
/** @import { Field } from "./schema.js" */

/** @typedef {{ path: (string | number)[], message: string, code: string }} FieldError */

/**
 * The answer that a draft stands for. `value` is `undefined` when there is none; `errors` says what cannot be sent, and
 * then `value` is good for showing only: it holds such fields as they were typed.
 *
 * @param {Field} field  The root of a model.
 * @param {Draft} draft
 * @returns {{ value: any, errors: FieldError[] }}
 */
export function collect(field, draft) {
  /** @type {FieldError[]} */
  const errors = [];
  const value = read(field, draft, [], errors);
  if (value === undefined && errors.length === 0) {
    errors.push({ path: [], message: "Give an answer first.", code: "missing" });
  }
  return { value, errors };
}

/**
 * @param {Field} field
 * @param {Draft} draft
 * @param {(string | number)[]} path
 * @param {FieldError[]} errors
 * @returns {any}
 */
function read(field, draft, path, errors) {
  if (field.nullToggle && draft.isNull) return null;
  switch (field.kind) {
    case "text":
      return readText(field, draft, path, errors);
    case "number":
      return readNumber(field, draft, path, errors);
    case "json":
      return readJson(draft, path, errors);
    case "boolean":
      return draft.answer;
    case "choice":
      return draft.index === null || draft.index === undefined ? undefined : field.options?.[draft.index]?.value;
    case "choices":
      return readChoices(field, draft);
    case "list":
      return readList(field, draft, path, errors);
    case "tuple": {
      if (!field.required && !isTouched(field, draft)) return undefined;
      const values = (field.fields ?? []).map((inner, index) => read(inner, draftAt(draft, index), [...path, index], errors));
      values.forEach((value, index) => missing(value, [...path, index], errors, "Fill this in too."));
      return values;
    }
    case "group":
      return readGroup(field, draft, path, errors);
    case "variants": {
      const chosen = draft.index === null || draft.index === undefined ? undefined : field.variants?.[draft.index];
      return chosen === undefined ? undefined : read(chosen.field, draftAt(draft, /** @type {number} */ (draft.index)), path, errors);
    }
    case "constant":
      return field.fixed || draft.given ? field.value : undefined;
    case "nothing":
      return field.required ? null : undefined;
  }
}

/** @param {Field} field @param {Draft} draft @param {(string | number)[]} path @param {FieldError[]} errors */
function readText(field, draft, path, errors) {
  const text = draft.text ?? "";
  if (draft.bad) errors.push({ path, message: "This is not complete.", code: "incomplete" });
  if (text === "") return draft.empty ? "" : undefined;
  return field.input === "datetime-local" ? fromLocal(text) : text;
}

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** @param {Field} field @param {Draft} draft @param {(string | number)[]} path @param {FieldError[]} errors */
function readNumber(field, draft, path, errors) {
  const text = (draft.text ?? "").trim();
  if (text === "") return undefined;
  const value = NUMBER.test(text) ? Number(text) : Number.NaN;
  if (!Number.isFinite(value)) {
    errors.push({ path, message: `“${text}” is not a number.`, code: "not-a-number" });
    return text;
  }
  // A larger integer would silently become another one.
  if (Number.isInteger(value) && !Number.isSafeInteger(value) && field.integer) {
    errors.push({ path, message: "This number is too large to be sent exactly.", code: "unsafe-integer" });
    return text;
  }
  return Object.is(value, -0) ? 0 : value;
}

/** @param {Draft} draft @param {(string | number)[]} path @param {FieldError[]} errors */
function readJson(draft, path, errors) {
  if ((draft.text ?? "").trim() === "") return undefined;
  try {
    return JSON.parse(/** @type {string} */ (draft.text));
  } catch (error) {
    errors.push({ path, message: `Not JSON: ${/** @type {Error} */ (error).message}`, code: "not-json" });
    return draft.text;
  }
}

/** @param {Field} field @param {Draft} draft */
function readChoices(field, draft) {
  const indexes = [...(draft.indexes ?? [])].sort((one, other) => one - other);
  if (indexes.length === 0 && !field.required && !hasRows(field.default)) return undefined;
  return indexes.map((index) => field.options?.[index]?.value);
}

/** @param {Field} field @param {Draft} draft @param {(string | number)[]} path @param {FieldError[]} errors */
function readList(field, draft, path, errors) {
  const rows = draft.rows ?? [];
  // Leaving the list out would bring its default back, after somebody has removed every row of it.
  if (rows.length === 0 && !field.required && !hasRows(field.default)) return undefined;
  return rows.map((row, index) => {
    const here = [...path, index];
    const before = errors.length;
    const value = read(/** @type {Field} */ (field.item), row.draft, here, errors);
    if (errors.length === before) missing(value, here, errors, "Fill this in, or remove the row.");
    return value;
  });
}

/** @param {Field} field @param {Draft} draft @param {(string | number)[]} path @param {FieldError[]} errors */
function readGroup(field, draft, path, errors) {
  // An optional group is left out as a whole until somebody changes something in it, or its defaults alone would make it.
  if (!field.required && !isTouched(field, draft)) return undefined;
  /** @type {[string, any][]} */
  const entries = [];
  field.fields?.forEach((inner, index) => {
    const value = read(inner, draftAt(draft, index), [...path, inner.name], errors);
    if (value !== undefined) entries.push([inner.name, value]);
  });
  return Object.fromEntries(entries);
}

/** @param {any} value @param {(string | number)[]} path @param {FieldError[]} errors @param {string} message */
function missing(value, path, errors, message) {
  if (value === undefined && !errors.some((error) => startsWith(error.path, path))) errors.push({ path, message, code: "missing" });
}

/**
 * The field that an error belongs to: the deepest one on its path. `rest` is what is left of the path below it.
 *
 * @param {Field} field
 * @param {Draft} draft
 * @param {readonly (string | number)[]} path
 * @returns {{ at: (string | number)[], rest: (string | number)[] }}
 */
export function locate(field, draft, path) {
  /** @type {(string | number)[]} */
  const taken = [];
  let here = field;
  let typed = draft;
  for (;;) {
    while (here.kind === "variants") {
      const index = typed.index ?? -1;
      const chosen = here.variants?.[index];
      if (chosen === undefined) return { at: taken, rest: path.slice(taken.length) };
      here = chosen.field;
      typed = draftAt(typed, index);
    }
    const step = path[taken.length];
    const inner = step === undefined ? undefined : below(here, typed, step);
    if (inner === undefined) return { at: taken, rest: path.slice(taken.length) };
    taken.push(step);
    [here, typed] = inner;
  }
}

/**
 * @param {Field} field
 * @param {Draft} draft
 * @param {string | number} step
 * @returns {[Field, Draft] | undefined}
 */
function below(field, draft, step) {
  if (field.kind === "list") {
    const row = draft.rows?.[Number(step)];
    return row === undefined ? undefined : [/** @type {Field} */ (field.item), row.draft];
  }
  if (field.kind !== "group" && field.kind !== "tuple") return undefined;
  const index = field.kind === "tuple" ? Number(step) : (field.fields ?? []).findIndex((inner) => inner.name === step && !inner.fixed);
  const inner = field.fields?.[index];
  return inner === undefined ? undefined : [inner, draftAt(draft, index)];
}

/** @param {any} value */
function hasRows(value) {
  return Array.isArray(value) && value.length > 0;
}

/** @param {readonly any[]} path @param {readonly any[]} start */
function startsWith(path, start) {
  return start.every((step, index) => path[index] === step);
}

/**
 * A moment in the reader's own time zone, spelt with its offset so that nothing has to be guessed.
 *
 * @param {string} text  As a `datetime-local` input gives it.
 */
function fromLocal(text) {
  const moment = new Date(text);
  if (Number.isNaN(moment.getTime())) return text;
  const minutes = -moment.getTimezoneOffset();
  const two = (/** @type {number} */ number) => String(Math.floor(Math.abs(number))).padStart(2, "0");
  const seconds = text.length === 16 ? ":00" : "";
  return `${text}${seconds}${minutes < 0 ? "-" : "+"}${two(minutes / 60)}:${two(minutes % 60)}`;
}
