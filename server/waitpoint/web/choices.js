/**
 * Fields that are chosen, not typed: yes or no, one of several, any of several, a single possible value.
 *
 * Knows fields, drafts and the DOM. Nothing is chosen before somebody chooses it, but for the schema's own defaults.
 *
 * @module
 */

import { freshId, h } from "./dom.js";
import { inputView, nullTick, setFrame, tick } from "./frame.js";

/** @import { Draft } from "./draft.js" */
/** @import { FieldView, Form, Look } from "./frame.js" */
/** @import { Field, Option } from "./schema.js" */

const MAX_RADIOS = 5;

/** @typedef {Option & { chosen: () => boolean, choose: () => void }} Pick */

/** @param {Field} field @param {Draft} draft @returns {Pick[]} */
export function yesNo(field, draft) {
  /** @type {(label: string, answer: boolean | undefined, isNull?: boolean) => Pick} */
  const pick = (label, answer, isNull) => ({
    label,
    value: answer,
    chosen: () => draft.answer === answer && (draft.isNull === true) === (isNull === true),
    choose: () => Object.assign(draft, { answer, isNull }),
  });
  return [pick("Yes", true), pick("No", false), ...(field.required ? [] : [pick("No answer", undefined)]), ...(field.nullToggle ? [pick("None", undefined, true)] : [])];
}

/** @param {Field} field @param {Draft} draft @returns {Pick[]} */
export function picks(field, draft) {
  /** @type {(option: Option, index: number | null, isNull?: boolean) => Pick} */
  const pick = (option, index, isNull) => ({
    ...option,
    chosen: () => draft.index === index && (draft.isNull === true) === (isNull === true),
    choose: () => Object.assign(draft, { index, isNull }),
  });
  const list = (field.options ?? []).map((option, index) => pick(option, index));
  if (!field.required) list.push(pick({ label: "No answer", value: undefined }, null));
  if (field.nullToggle) list.push(pick({ label: "None", value: null }, null, true));
  return list;
}

/** @param {Field} field @param {Draft} draft @param {Form} form @param {Look} look @returns {FieldView} */
export function choiceView(field, draft, form, look) {
  const options = picks(field, draft);
  if ((field.options ?? []).length <= MAX_RADIOS) return radioView(field, options, form, look);
  const select = h("select", {});
  if (field.required) select.append(h("option", { value: "" }, "Choose…"));
  options.forEach((option, index) => select.append(h("option", { value: String(index) }, option.label)));
  const chosen = options.findIndex((option) => option.chosen());
  select.value = chosen < 0 ? "" : String(chosen);
  select.addEventListener("change", () => {
    if (select.value === "") Object.assign(draft, { index: null, isNull: undefined });
    else options[Number(select.value)]?.choose();
    form.changed();
  });
  return inputView({ ...field, nullToggle: false }, draft, form, look, select, []);
}

/** @param {Field} field @param {Pick[]} options @param {Form} form @param {Look} look @param {() => void} [after] @returns {FieldView} */
export function radioView(field, options, form, look, after) {
  const name = freshId();
  const inputs = options.map((option) => {
    const input = h("input", { type: "radio", name, id: freshId() });
    input.checked = option.chosen();
    input.addEventListener("change", () => {
      option.choose();
      after?.();
      form.changed();
    });
    return input;
  });
  const row = h("div", { class: field.kind === "boolean" ? "radios segmented" : "radios" });
  options.forEach((option, index) => {
    const hint = option.hint ? h("span", { class: "hint" }, option.hint) : null;
    row.append(h("label", { class: "radio", for: inputs[index].id }, inputs[index], h("span", {}, option.label, hint)));
  });
  const frame = setFrame(field, look, "radiogroup", [row]);
  return { ...frame, focus: () => (inputs.find((input) => input.checked) ?? inputs[0])?.focus(), below: () => undefined };
}

/** @param {Field} field @param {Draft} draft @param {Form} form @param {Look} look @returns {FieldView} */
export function ticksView(field, draft, form, look) {
  const row = h("div", { class: "radios" });
  const boxes = (field.options ?? []).map((option, index) => {
    const one = tick(option.label, (ticked) => {
      draft.indexes = (draft.indexes ?? []).filter((other) => other !== index).concat(ticked ? [index] : []);
      form.changed();
    });
    one.box.checked = (draft.indexes ?? []).includes(index);
    row.append(one.node);
    return one.box;
  });
  const nothing = nullTick(field, draft, form, (isNull) => boxes.forEach((box) => (box.disabled = isNull)));
  const frame = setFrame(field, look, "group", [row, nothing]);
  return { ...frame, focus: () => boxes[0]?.focus(), below: () => undefined };
}

/** @param {Field} field @param {Draft} draft @param {Form} form @param {Look} look @returns {FieldView} */
export function constantView(field, draft, form, look) {
  const words = typeof field.value === "string" ? field.value : field.value === true ? "Yes" : JSON.stringify(field.value);
  const one = tick(words, (ticked) => {
    draft.given = ticked || undefined;
    form.changed();
  });
  one.box.checked = draft.given === true;
  const frame = setFrame(field, look, "group", [one.node]);
  return { ...frame, focus: () => one.box.focus(), below: () => undefined };
}
