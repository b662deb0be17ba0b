/** Validates a value before it is sent: required fields, bounds and formats. The server checks everything else. */
import { Problem } from "../../api/client";
import { describe, isObject, Unparsed, type Schema } from "./schema";

export interface FieldMistake {
  field: string; // as the server names it: input.items.0.sku
  message: string;
}

const FORMATS: Record<string, [RegExp, string]> = {
  "date-time": [/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?$/i, "must be a time such as 2030-01-31T12:00:00Z"],
  date: [/^\d{4}-\d\d-\d\d$/, "must be a date such as 2030-01-31"],
  email: [/^[^@\s]+@[^@\s]+$/, "must be an email address"],
  uri: [/^[a-z][a-z0-9+.-]*:\S+$/i, "must be a URL such as https://example.com"],
  uuid: [/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i, "must be an id such as 01890a5d-ac96-774b-bcce-b302099a8057"],
};

/** Return the error that a form shows at its fields, null if the value can be sent. */
export function problemOf(schema: Schema, value: unknown, name: string): Problem | null {
  const mistakes = value === undefined ? [{ field: name, message: "is required" }] : check(schema, schema, value, name);
  return mistakes.length === 0 ? null : new Problem(422, "Invalid", mistakes[0]!.message, mistakes);
}

export function check(root: Schema, schema: Schema, value: unknown, at: string): FieldMistake[] {
  const { schema: actual, shape, isNullable } = describe(root, schema);
  if (value instanceof Unparsed) return [{ field: at, message: "must be JSON" }];
  if (value === undefined || (value === null && isNullable)) return [];
  const mistake = (message: string | null | undefined): FieldMistake[] => (message ? [{ field: at, message }] : []);
  if (shape.kind === "text" && typeof value === "string") return mistake(textMistake(actual, value));
  if (shape.kind === "number" && typeof value === "number") return mistake(numberMistake(actual, value, shape.isInteger));
  if (shape.kind === "list" && Array.isArray(value))
    return [
      ...mistake(bound(value.length, actual["minItems"], actual["maxItems"], "items")),
      ...value.flatMap((item, n) => (item === undefined ? [{ field: `${at}.${n}`, message: "is required" }] : check(root, shape.items, item, `${at}.${n}`))),
    ];
  if (shape.kind === "object" && isObject(value))
    return shape.properties.flatMap(({ name, schema: member, isRequired }) => {
      const field = `${at}.${name}`;
      return value[name] === undefined && isRequired ? [{ field, message: "is required" }] : check(root, member, value[name], field);
    });
  return [];
}

function textMistake(schema: Schema, value: string): string | null {
  const long = bound([...value].length, schema["minLength"], schema["maxLength"], "characters");
  if (long) return long;
  if (typeof schema["pattern"] === "string" && !matches(schema["pattern"], value)) return `must match ${schema["pattern"]}`;
  const format = FORMATS[String(schema["format"])];
  return format && !format[0].test(value) ? format[1] : null;
}

function matches(pattern: string, value: string): boolean {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    return true; // a pattern for another regex engine: the server decides
  }
}

function numberMistake(schema: Schema, value: number, isInteger: boolean): string | null {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = schema;
  if (isInteger && !Number.isInteger(value)) return "must be an integer";
  if (typeof minimum === "number" && value < minimum) return `must be ${minimum} or more`;
  if (typeof maximum === "number" && value > maximum) return `must be ${maximum} or less`;
  if (typeof exclusiveMinimum === "number" && value <= exclusiveMinimum) return `must be greater than ${exclusiveMinimum}`;
  if (typeof exclusiveMaximum === "number" && value >= exclusiveMaximum) return `must be less than ${exclusiveMaximum}`;
  return null;
}

function bound(size: number, least: unknown, most: unknown, noun: string): string | null {
  if (typeof least === "number" && size < least) return `must have at least ${least} ${noun}`;
  return typeof most === "number" && size > most ? `must have at most ${most} ${noun}` : null;
}

/** Return the names of the fields and groups that a form shows for a value. */
export function placesOf(root: Schema, schema: Schema, value: unknown, at: string): string[] {
  const { shape } = describe(root, schema);
  if (shape.kind === "object" && isObject(value)) return [at, ...shape.properties.flatMap((each) => placesOf(root, each.schema, value[each.name], `${at}.${each.name}`))];
  if (shape.kind === "list" && Array.isArray(value)) return [at, ...value.flatMap((item, n) => placesOf(root, shape.items, item, `${at}.${n}`))];
  return [at];
}

/** Return the error with each field error moved to the closest field that the form shows, if there is one. */
export function placed(error: unknown, places: string[]): unknown {
  if (!(error instanceof Problem)) return error;
  const errors = error.errors.map((each) => {
    const place = places.filter((name) => each.field === name || each.field.startsWith(`${name}.`)).sort((a, b) => b.length - a.length)[0];
    return place === undefined || place === each.field ? each : { field: place, message: `${each.field.slice(place.length + 1)}: ${each.message}` };
  });
  return new Problem(error.status, error.title, error.message, errors);
}
