/**
 * Following a JSON Schema's references and folding `allOf` in.
 *
 * Knows JSON Schema's ways of saying "see there"; nothing of fields. Never follows a reference out of the document, and
 * never in a circle.
 *
 * @module
 */

/** @typedef {{ root: any, refs: readonly string[], depth: number }} Where  `refs` were followed to get here. */

/**
 * Follow references and fold `allOf` in. `null` when it cannot be followed, or leads back into itself.
 *
 * @param {any} raw
 * @param {Where} where
 * @returns {{ schema: any, inside: Where } | null}
 */
export function resolve(raw, where) {
  if (!isObject(raw)) return null;
  let schema = raw;
  let refs = where.refs;
  while (typeof schema.$ref === "string") {
    const ref = schema.$ref;
    const target = refs.includes(ref) ? undefined : at(where.root, ref);
    if (!isObject(target)) return null;
    const { $ref: _, ...beside } = schema;
    schema = { ...target, ...beside };
    refs = [...refs, ref];
  }
  const inside = { ...where, refs };
  if (!Array.isArray(schema.allOf)) return { schema, inside };
  const { allOf, ...own } = schema;
  const merged = { .../** @type {any} */ ({}) };
  let nested = inside;
  for (const part of [...allOf, own]) {
    const found = part === own ? { schema: own, inside: nested } : resolve(part, nested);
    if (found === null) return null;
    nested = { ...nested, refs: [...new Set([...nested.refs, ...found.inside.refs])] };
    const properties = { ...merged.properties, ...found.schema.properties };
    const required = [...(merged.required ?? []), ...(found.schema.required ?? [])];
    Object.assign(merged, found.schema, Object.keys(properties).length ? { properties } : {}, required.length ? { required } : {});
  }
  return { schema: merged, inside: nested };
}

/** @param {any} root @param {string} ref */
function at(root, ref) {
  if (ref !== "#" && !ref.startsWith("#/")) return undefined;
  const steps = ref.split("/").slice(1).map((step) => decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~"));
  return steps.reduce((value, step) => (isObject(value) && Object.hasOwn(value, step) ? value[step] : undefined), root);
}

/** @param {any} value @returns {value is Record<string, any>} */
export function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
