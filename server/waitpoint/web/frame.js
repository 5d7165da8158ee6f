/**
 * What every input of a form has around it: a label, a hint, errors tied to it, a way to say "no value".
 *
 * Knows fields, drafts and the DOM; nothing of kinds of fields.
 *
 * @module
 */

import { attribute, freshId, h, setText, show } from "./dom.js";

/** @import { Draft } from "./draft.js" */
/** @import { FieldError } from "./form.js" */
/** @import { Field } from "./schema.js" */

/**
 * @typedef {object} FieldView
 * @property {HTMLElement} node
 * @property {() => void} focus
 * @property {(errors: FieldError[]) => void} setErrors
 * @property {(step: string | number) => FieldView | undefined} below
 * @property {(label: string) => void} [rename]
 */

/** @typedef {{ changed: () => void }} Form */
/** @typedef {{ label?: string, quiet?: boolean, bare?: boolean }} Look  `quiet`: label only for screen readers; `bare`: no frame. */

/**
 * A label, an input, its hint and its errors.
 *
 * @param {Field} field
 * @param {Draft} draft
 * @param {Form} form
 * @param {Look} look
 * @param {any} input
 * @param {HTMLElement[]} extras
 * @returns {FieldView}
 */
export function inputView(field, draft, form, look, input, extras) {
  input.id = freshId();
  const label = h("label", { for: input.id, class: look.quiet ? "quiet" : "" });
  label.append(...labelWords(field, look));
  const hint = hintOf(field);
  const errors = errorSlot();
  attribute(input, "aria-required", field.required ? "true" : null);
  const describe = () => attribute(input, "aria-describedby", [hint?.id, errors.shown() && errors.node.id].filter(Boolean).join(" ") || null);
  describe();
  const nothing = nullTick(field, draft, form, (isNull) => {
    input.disabled = isNull;
  });
  const node = h("div", { class: "field", data: { field: field.name } }, label, hint, input, nothing, errors.node, ...extras);
  return {
    node,
    focus: () => input.focus(),
    setErrors(list) {
      errors.set(list);
      attribute(input, "aria-invalid", list.length > 0 ? "true" : null);
      describe();
    },
    below: () => undefined,
    rename: (text) => setText(label, text),
  };
}

/**
 * A fieldset with a legend, a hint and errors around several inputs.
 *
 * @param {Field} field
 * @param {Look} look
 * @param {string} role
 * @param {(HTMLElement | null)[]} children
 */
export function setFrame(field, look, role, children) {
  const hint = hintOf(field);
  const errors = errorSlot();
  const legend = h("legend", { class: look.quiet ? "quiet" : "" });
  legend.append(...labelWords(field, look));
  const plain = ["boolean", "choice", "choices", "constant"].includes(field.kind);
  const look_ = look.bare ? "bare" : plain ? "plain" : "framed";
  const node = h("fieldset", { class: `field ${look_}`, role, data: { field: field.name } }, look.bare ? null : legend, hint, ...children, errors.node);
  const describe = () => attribute(node, "aria-describedby", [hint?.id, errors.shown() && errors.node.id].filter(Boolean).join(" ") || null);
  describe();
  if (role === "radiogroup") attribute(node, "aria-required", field.required ? "true" : null);
  return {
    node,
    /** @param {FieldError[]} list */
    setErrors(list) {
      errors.set(list);
      if (role === "radiogroup") attribute(node, "aria-invalid", list.length > 0 ? "true" : null);
      node.classList.toggle("invalid", list.length > 0);
      describe();
    },
    /** @param {string} text */
    rename: (text) => setText(legend, text),
  };
}

/** @param {Field} field @param {Look} look @returns {(string | HTMLElement)[]} */
function labelWords(field, look) {
  const words = field.label || look.label || "Your answer";
  return field.required || look.quiet ? [words] : [words, h("span", { class: "optional" }, " optional")];
}

/** @param {Field} field @returns {HTMLElement | null} */
function hintOf(field) {
  const whole = field.integer ? "A whole number." : "";
  const limits = field.limits || whole;
  const hint = field.hint && limits !== "" && !/[.!?…:]$/.test(field.hint) ? `${field.hint}.` : field.hint;
  const words = [hint, limits].filter(Boolean).join(" ");
  return words === "" ? null : h("p", { class: "hint", id: freshId() }, words);
}

function errorSlot() {
  const node = h("p", { class: "field-error", id: freshId(), hidden: true });
  return {
    node,
    shown: () => !node.hidden,
    /** @param {FieldError[]} errors */
    set(errors) {
      setText(node, errors.map((error) => error.message).join(" "));
      show(node, errors.length > 0);
    },
  };
}

/** @param {string} words @param {(ticked: boolean) => void} changed */
export function tick(words, changed) {
  const box = h("input", { type: "checkbox", id: freshId() });
  box.addEventListener("change", () => changed(box.checked));
  return { box, node: h("label", { class: "radio", for: box.id }, box, h("span", {}, words)) };
}

/** @param {Field} field @param {Draft} draft @param {Form} form @param {(isNull: boolean) => void} apply @returns {HTMLElement | null} */
export function nullTick(field, draft, form, apply) {
  if (!field.nullToggle) return null;
  const one = tick("No value", (ticked) => {
    draft.isNull = ticked || undefined;
    apply(ticked);
    form.changed();
  });
  one.box.checked = draft.isNull === true;
  apply(one.box.checked);
  return one.node;
}
