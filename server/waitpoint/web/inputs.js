/**
 * Inputs that hold one value as text: text of all kinds, numbers, JSON.
 *
 * Knows fields, drafts and the DOM. What was typed stays as it was typed, also where it is no value yet.
 *
 * @module
 */

import { h, show } from "./dom.js";
import { inputView, tick } from "./frame.js";

/** @import { Draft } from "./draft.js" */
/** @import { FieldView, Form, Look } from "./frame.js" */
/** @import { Field } from "./schema.js" */

/** @param {Field} field @param {Draft} draft @param {Form} form @param {Look} look @returns {FieldView} */
export function textView(field, draft, form, look) {
  const multiline = field.input === "multiline";
  const input = multiline ? h("textarea", { rows: 3 }) : h("input", { type: field.input, autocomplete: "off" });
  if (field.input === "time" || field.input === "datetime-local") input.step = "60";
  input.value = draft.text ?? "";
  const purpose = tick("Leave this empty on purpose", (ticked) => {
    draft.empty = ticked;
    form.changed();
  });
  show(purpose.node, false);
  purpose.box.checked = draft.empty === true;
  input.addEventListener("input", () => {
    draft.text = input.value;
    draft.bad = input.validity.badInput;
    if (draft.text !== "") {
      draft.empty = purpose.box.checked = false;
      show(purpose.node, false);
    }
    form.changed();
  });
  const view = inputView(field, draft, form, look, input, [purpose.node]);
  return {
    ...view,
    setErrors(errors) {
      // Empty text can be an answer, but never by accident: the choice is offered once leaving it out was refused.
      if (errors.length > 0 && field.required && field.allowsEmpty && draft.text === "") show(purpose.node, true);
      view.setErrors(errors);
    },
  };
}

/** @param {Field} field @param {Draft} draft @param {Form} form @param {Look} look @returns {FieldView} */
export function numberView(field, draft, form, look) {
  // A number input throws away what it cannot read; here what was typed stays, and the error says so.
  const input = h("input", { type: "text", inputmode: field.integer ? "numeric" : "decimal", autocomplete: "off", class: "number" });
  input.value = draft.text ?? "";
  input.addEventListener("input", () => {
    draft.text = input.value;
    form.changed();
  });
  return inputView(field, draft, form, look, input, []);
}

/** @param {Field} field @param {Draft} draft @param {Form} form @param {Look} look @returns {FieldView} */
export function jsonView(field, draft, form, look) {
  const input = h("textarea", { rows: 4, class: "code", spellcheck: "false", autocomplete: "off" });
  input.value = draft.text ?? "";
  input.addEventListener("input", () => {
    draft.text = input.value;
    form.changed();
  });
  return inputView({ ...field, limits: "Write this as JSON." }, draft, form, look, input, []);
}
