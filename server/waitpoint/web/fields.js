/**
 * The view of any field, and of those that hold other fields: groups, variants, lists.
 *
 * Knows fields, drafts and the DOM; nothing of actions or sending. Each view writes what is typed into its draft.
 *
 * @module
 */

import { choiceView, constantView, picks, radioView, ticksView, yesNo } from "./choices.js";
import { newRow } from "./draft.js";
import { h, show } from "./dom.js";
import { nullTick, setFrame } from "./frame.js";
import { icon } from "./icons.js";
import { jsonView, numberView, textView } from "./inputs.js";

/** @import { Draft } from "./draft.js" */
/** @import { FieldView, Form, Look } from "./frame.js" */
/** @import { Field } from "./schema.js" */

/**
 * The view of a field.
 *
 * @param {Field} field
 * @param {Draft} draft
 * @param {Form} form
 * @param {Look} [look]
 * @returns {FieldView}
 */
export function fieldView(field, draft, form, look = {}) {
  switch (field.kind) {
    case "text":
      return textView(field, draft, form, look);
    case "number":
      return numberView(field, draft, form, look);
    case "json":
      return jsonView(field, draft, form, look);
    case "boolean":
      return radioView(field, yesNo(field, draft), form, look);
    case "choice":
      return choiceView(field, draft, form, look);
    case "choices":
      return ticksView(field, draft, form, look);
    case "list":
      return listView(field, draft, form, look);
    case "group":
    case "tuple":
      return groupView(field, draft, form, look);
    case "variants":
      return variantsView(field, draft, form, look);
    case "constant":
      return constantView(field, draft, form, look);
    case "nothing":
      return { node: h("p", { class: "hint" }, "There is nothing to fill in."), focus() {}, setErrors() {}, below: () => undefined };
  }
}

/** @param {Field} field @param {Draft} draft @param {Form} form @param {Look} look @returns {FieldView} */
function groupView(field, draft, form, look) {
  const fields = field.fields ?? [];
  const views = fields.map((inner, index) =>
    inner.fixed ? undefined : fieldView(inner, /** @type {Draft[]} */ (draft.fields)[index], form),
  );
  const shown = views.filter((view) => view !== undefined);
  const body = h("div", { class: "fields" }, shown.map((view) => view.node));
  if (shown.length === 0) body.append(h("p", { class: "hint" }, "There is nothing to fill in."));
  const nothing = nullTick(field, draft, form, (isNull) => {
    body.inert = isNull;
    body.classList.toggle("off", isNull);
  });
  const frame = setFrame(field, look, "group", [body, nothing]);
  return {
    ...frame,
    focus: () => shown[0]?.focus(),
    below: (step) => views[field.kind === "tuple" ? Number(step) : fields.findIndex((inner) => inner.name === step)],
  };
}

/** @param {Field} field @param {Draft} draft @param {Form} form @param {Look} look @returns {FieldView} */
function variantsView(field, draft, form, look) {
  const variants = field.variants ?? [];
  /** @type {(FieldView | undefined)[]} */
  const views = variants.map(() => undefined);
  const panel = h("div", { class: "variant" });
  const open = () => {
    const index = draft.index ?? -1;
    const variant = variants[index];
    show(panel, variant !== undefined);
    if (variant === undefined) return;
    // Built once and kept: changing one's mind twice brings back what was typed.
    views[index] ??= fieldView(variant.field, /** @type {Draft[]} */ (draft.fields)[index], form, { label: variant.label, quiet: true });
    panel.replaceChildren(views[index].node);
  };
  const options = picks({ ...field, options: variants.map((variant) => ({ label: variant.label, value: undefined })) }, draft);
  const radios = radioView(field, options, form, look, open);
  radios.node.append(panel);
  open();
  const chosen = () => (draft.index === null || draft.index === undefined ? undefined : views[draft.index]);
  return {
    ...radios,
    focus: () => (chosen() ?? radios).focus(),
    setErrors(errors) {
      const inner = chosen();
      inner?.setErrors(errors);
      radios.setErrors(inner === undefined ? errors : []);
    },
    below: (step) => chosen()?.below(step),
  };
}

/** @param {Field} field @param {Draft} draft @param {Form} form @param {Look} look @returns {FieldView} */
function listView(field, draft, form, look) {
  const name = field.label || look.label || "Row";
  const list = h("ol", { class: "rows" });
  const add = h("button", { type: "button", class: "small" }, icon("plus"), h("span", {}, "Add"), h("span", { class: "quiet" }, ` to ${name}`));
  const none = h("p", { class: "hint" }, "No rows yet.");
  /** @type {{ view: FieldView, remove: HTMLButtonElement, node: HTMLElement, id: number }[]} */
  const rows = [];
  const rows_ = () => /** @type {{ id: number, draft: Draft }[]} */ (draft.rows);
  const number = () => {
    rows.forEach((row, index) => {
      row.view.rename?.(`${name} ${index + 1}`);
      row.remove.setAttribute("aria-label", `Remove ${name} ${index + 1}`);
    });
    show(none, rows.length === 0);
  };
  /** @param {{ id: number, draft: Draft }} row */
  const put = (row) => {
    const view = fieldView(/** @type {Field} */ (field.item), row.draft, form, { label: name, quiet: true });
    const remove = h("button", { type: "button", class: "icon-button", on: { click: () => drop(row.id) } }, icon("remove"));
    const node = h("li", {}, view.node, remove);
    rows.push({ view, remove, node, id: row.id });
    list.append(node);
    return view;
  };
  /** @param {number} id */
  const drop = (id) => {
    const index = rows.findIndex((row) => row.id === id);
    rows[index].node.remove();
    rows.splice(index, 1);
    draft.rows = rows_().filter((row) => row.id !== id);
    number();
    (rows[index]?.remove ?? rows[index - 1]?.remove ?? add).focus();
    form.changed();
  };
  add.addEventListener("click", () => {
    const row = newRow(field);
    rows_().push(row);
    const view = put(row);
    number();
    view.focus();
    form.changed();
  });
  rows_().forEach(put);
  number();
  const body = h("div", { class: "list" }, none, list, add);
  const nothing = nullTick(field, draft, form, (isNull) => {
    body.inert = isNull;
    body.classList.toggle("off", isNull);
  });
  const frame = setFrame(field, look, "group", [body, nothing]);
  return { ...frame, focus: () => (rows[0]?.view ?? add).focus(), below: (step) => rows[Number(step)]?.view };
}
