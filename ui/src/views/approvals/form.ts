/** The fields of a form, made of the JSON Schema of an approval. The server validates the values. */

export type Kind = "text" | "number" | "boolean" | "choice" | "json";

export interface FormField {
  name: string;
  label: string;
  hint: string | undefined;
  kind: Kind;
  required: boolean;
  choices: unknown[];
  initial: string; // as it is typed
}

type Schema = Record<string, unknown>;

export function fieldsOf(form: Schema | null | undefined): FormField[] {
  const properties = object(form?.["properties"]);
  const required = Array.isArray(form?.["required"]) ? form["required"] : [];
  return Object.entries(properties).map(([name, value]) => {
    const schema = object(value);
    const kind = kindOf(schema);
    const initial = schema["default"];
    return {
      name,
      label: text(schema["title"]) ?? name,
      hint: text(schema["description"]),
      kind,
      required: required.includes(name),
      choices: Array.isArray(schema["enum"]) ? schema["enum"] : [],
      initial: initial === undefined ? (kind === "boolean" ? "false" : "") : kind === "text" ? String(initial) : JSON.stringify(initial),
    };
  });
}

function kindOf(schema: Schema): Kind {
  if (Array.isArray(schema["enum"])) return "choice";
  switch (schema["type"]) {
    case "string":
      return "text";
    case "number":
    case "integer":
      return "number";
    case "boolean":
      return "boolean";
    default:
      return "json";
  }
}

/** The values of the fields as they were typed; empty fields are left out. What is no JSON is sent as text: the server says what is wrong. */
export function valuesOf(fields: FormField[], typed: Record<string, string>): Record<string, unknown> {
  const entries = fields.flatMap((field): [string, unknown][] => {
    const value = typed[field.name] ?? field.initial;
    if (value === "" && !(field.kind === "text" && field.required)) return [];
    return [[field.name, field.kind === "text" ? value : parsed(value)]];
  });
  return Object.fromEntries(entries);
}

function parsed(value: string): unknown {
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

function object(value: unknown): Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Schema) : {};
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value ? value : undefined;
}
