/** Maps a JSON Schema to a form field. Schemas without a matching field are edited as JSON. */

export type Schema = Record<string, unknown>;

export type Format = "date-time" | "date" | "email" | "uri" | "uuid";

export type Shape =
  | { kind: "text"; format: Format | null; isLong: boolean }
  | { kind: "number"; isInteger: boolean }
  | { kind: "boolean" }
  | { kind: "choice"; choices: { value: unknown; label: string }[] }
  | { kind: "list"; items: Schema }
  | { kind: "object"; properties: Property[] }
  | { kind: "json" };

export interface Property {
  name: string;
  schema: Schema;
  isRequired: boolean;
}

export interface Described {
  schema: Schema; // with its references resolved
  shape: Shape;
  isNullable: boolean;
  title: string | undefined;
  description: string | undefined;
}

const FORMATS: readonly string[] = ["date-time", "date", "email", "uri", "uuid"] satisfies Format[];
const LONG_TEXT = 256; // strings with at least this maximum length have a multi-line field
const MAX_REFERENCES = 32; // followed from one schema

/** Describe a schema; `root` is the document that its references point into. */
export function describe(root: Schema, schema: Schema): Described {
  const resolved = resolve(root, schema);
  const { schema: actual, isNullable } = withoutNull(root, resolved);
  return {
    schema: actual,
    shape: shapeOf(actual),
    isNullable,
    title: text(schema["title"]), // not the title of a referenced type
    description: text(schema["description"]) ?? text(resolved["description"]) ?? text(actual["description"]),
  };
}

function shapeOf(schema: Schema): Shape {
  const choices = choicesOf(schema);
  if (choices !== null) return { kind: "choice", choices };
  if (["anyOf", "oneOf", "allOf", "not", "if"].some((word) => word in schema)) return { kind: "json" };
  switch (schema["type"] ?? ("properties" in schema ? "object" : undefined)) {
    case "string":
      return { kind: "text", format: FORMATS.includes(String(schema["format"])) ? (schema["format"] as Format) : null, isLong: Number(schema["maxLength"] ?? 0) >= LONG_TEXT };
    case "number":
      return { kind: "number", isInteger: false };
    case "integer":
      return { kind: "number", isInteger: true };
    case "boolean":
      return { kind: "boolean" };
    case "array":
      return isObject(schema["items"]) && !("prefixItems" in schema) ? { kind: "list", items: schema["items"] } : { kind: "json" };
    case "object":
      return isObject(schema["properties"]) ? { kind: "object", properties: propertiesOf(schema, schema["properties"]) } : { kind: "json" };
    default:
      return { kind: "json" };
  }
}

function propertiesOf(schema: Schema, properties: Schema): Property[] {
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  return Object.entries(properties).map(([name, value]) => ({ name, schema: isObject(value) ? value : {}, isRequired: required.includes(name) }));
}

/** Return the values to choose from: an `enum`, a `const`, or alternatives that are each a `const` with a title. */
function choicesOf(schema: Schema): { value: unknown; label: string }[] | null {
  if (Array.isArray(schema["enum"])) return schema["enum"].map((value) => ({ value, label: labelOf(value) }));
  if ("const" in schema) return [{ value: schema["const"], label: labelOf(schema["const"]) }];
  const alternatives = schema["oneOf"] ?? schema["anyOf"];
  if (!Array.isArray(alternatives) || alternatives.length === 0 || !alternatives.every((each) => isObject(each) && "const" in each)) return null;
  return (alternatives as Schema[]).map((each) => ({ value: each["const"], label: text(each["title"]) ?? labelOf(each["const"]) }));
}

function labelOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Return the schema without the alternative null, and whether it had one. */
function withoutNull(root: Schema, schema: Schema): { schema: Schema; isNullable: boolean } {
  const type = schema["type"];
  if (Array.isArray(type) && type.includes("null")) {
    const others = type.filter((each) => each !== "null");
    return { schema: { ...schema, type: others.length === 1 ? others[0] : others }, isNullable: true };
  }
  for (const word of ["anyOf", "oneOf"]) {
    const alternatives = schema[word];
    if (!Array.isArray(alternatives)) continue;
    const others = alternatives.filter((each) => !isObject(each) || each["type"] !== "null");
    if (others.length === alternatives.length) continue;
    const { [word]: _, ...rest } = schema;
    const only = others[0];
    return { schema: others.length === 1 && isObject(only) ? { ...rest, ...resolve(root, only) } : { ...rest, [word]: others }, isNullable: true };
  }
  return { schema, isNullable: false };
}

/** Follow references into the document. A reference without a target becomes a schema that allows everything. */
function resolve(root: Schema, schema: Schema): Schema {
  let actual = schema;
  for (let n = 0; n < MAX_REFERENCES; n++) {
    const { $ref: reference, ...beside } = actual;
    const all = actual["allOf"];
    if (typeof reference === "string") actual = { ...target(root, reference), ...beside };
    else if (Array.isArray(all) && all.length === 1 && isObject(all[0])) {
      const { allOf: _, ...rest } = actual;
      actual = { ...all[0], ...rest };
    } else return actual;
  }
  return {};
}

function target(root: Schema, reference: string): Schema {
  if (!reference.startsWith("#")) return {};
  let place: unknown = root;
  for (const part of reference.split("/").slice(1)) place = isObject(place) ? place[decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~")] : undefined;
  return isObject(place) ? place : {};
}

/** Return the initial value of a form: defaults, and only or empty values of required fields; undefined if omitted. */
export function initialValue(root: Schema, schema: Schema, isRequired = true): unknown {
  const { schema: actual, shape, isNullable } = describe(root, schema);
  const given = "default" in schema ? schema["default"] : actual["default"];
  if (given !== undefined) return given === null && !isRequired ? undefined : given;
  if (shape.kind === "choice" && shape.choices.length === 1 && isRequired) return shape.choices[0]!.value;
  if (isNullable) return isRequired ? null : undefined;
  switch (shape.kind) {
    case "boolean":
      return false;
    case "list":
      return isRequired ? [] : undefined;
    case "object":
      return isRequired ? present(shape.properties.map((each) => [each.name, initialValue(root, each.schema, each.isRequired)])) : undefined;
    case "json":
      return isRequired && actual["type"] === "object" ? {} : undefined;
    default:
      return undefined;
  }
}

/** Return an object of the entries that have a value. */
export function present(entries: [string, unknown][]): Record<string, unknown> {
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Unparsed);
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value ? value : undefined;
}

/** A text that is not valid JSON yet, in place of a value, so that the rest of the form keeps working. */
export class Unparsed {
  constructor(readonly text: string) {}

  toJSON(): string {
    return this.text;
  }
}
