/** A form field for a JSON Schema: an input, a list of fields, or a group of fields. It edits a JSON value. */
import { useContext, useId, useState, type ReactNode } from "react";
import { Field, mistakeAt, Mistakes } from "../Field";
import { describe, initialValue, isObject, present, Unparsed, type Described, type Property, type Schema, type Shape } from "./schema";

interface Props {
  root: Schema; // that references point into
  schema: Schema;
  name: string; // in the API: input.items.0.sku
  label: string;
  value: unknown; // undefined: omitted
  isRequired: boolean;
  change: (value: unknown) => void;
}

const BOOLEANS = [true, false].map((value) => ({ value, label: String(value) }));

export function SchemaField(props: Props) {
  const described = describe(props.root, props.schema);
  const shape = shapeFor(described, props.value);
  const label = described.title ?? props.label;
  switch (shape.kind) {
    case "object":
      return <ObjectField {...props} label={label} hint={described.description} properties={shape.properties} />;
    case "list":
      return <ListField {...props} label={label} hint={described.description} items={shape.items} />;
    default:
      return <LeafField {...props} label={label} described={described} shape={shape} />;
  }
}

/** Return the shape of a field that can show this value; a value of another type is edited as JSON. */
function shapeFor({ shape, isNullable }: Described, value: unknown): Shape {
  if (shape.kind === "boolean" && isNullable) return { kind: "choice", choices: BOOLEANS };
  if (value === undefined || value === null || shape.kind === "choice") return shape;
  const fits = { text: typeof value === "string", number: typeof value === "number", boolean: typeof value === "boolean", list: Array.isArray(value), object: isObject(value), json: true };
  return fits[shape.kind] ? shape : { kind: "json" };
}

/** The fields of an object, one below the other. */
export function Properties({ root, name, value, properties, change }: Pick<Props, "root" | "name" | "value" | "change"> & { properties: Property[] }) {
  const object = isObject(value) ? value : {};
  const others = Object.keys(object).filter((key) => properties.every((each) => each.name !== key));
  return (
    <>
      {properties.map((each) => (
        <SchemaField
          key={each.name}
          root={root}
          schema={each.schema}
          name={`${name}.${each.name}`}
          label={each.name}
          value={object[each.name]}
          isRequired={each.isRequired}
          change={(next) => change(present(entriesWith(object, each.name, next)))}
        />
      ))}
      {others.length > 0 && <p className="dim">Only in the JSON: {others.join(", ")}</p>}
    </>
  );
}

function entriesWith(object: Record<string, unknown>, name: string, value: unknown): [string, unknown][] {
  return Object.entries({ ...object, [name]: value });
}

function ObjectField({ properties, hint, ...props }: Props & { properties: Property[]; hint: string | undefined }) {
  const { root, schema, label, value, isRequired, change } = props;
  const isShown = isObject(value);
  return (
    <Group name={props.name} label={isRequired ? label : `${label} (optional)`} hint={hint}>
      {isShown && <Properties {...props} properties={properties} />}
      {!isShown && (
        <button type="button" onClick={() => change(initialValue(root, schema) ?? present(properties.map((each) => [each.name, initialValue(root, each.schema, each.isRequired)])))}>
          Add {label}
        </button>
      )}
      {isShown && !isRequired && (
        <button type="button" onClick={() => change(undefined)}>
          Remove {label}
        </button>
      )}
    </Group>
  );
}

function ListField({ items, hint, ...props }: Props & { items: Schema; hint: string | undefined }) {
  const { root, name, label, value, isRequired, change } = props;
  const list = Array.isArray(value) ? (value as unknown[]) : [];
  const without = (n: number) => list.filter((_, place) => place !== n);
  return (
    <Group name={name} label={isRequired ? label : `${label} (optional)`} hint={hint}>
      {list.map((item, n) => (
        <div key={n} className="schema-item">
          <div>
            <SchemaField root={root} schema={items} name={`${name}.${n}`} label={`${label} ${n + 1}`} value={item} isRequired change={(next) => change(list.map((each, place) => (place === n ? next : each)))} />
          </div>
          <button type="button" className="icon-button" aria-label={`Remove ${label} ${n + 1}`} onClick={() => change(list.length === 1 && !isRequired ? undefined : without(n))}>
            <svg viewBox="0 0 16 16" className="icon" aria-hidden>
              <path d="M4 4l8 8M12 4l-8 8" />
            </svg>
          </button>
        </div>
      ))}
      <button type="button" onClick={() => change([...list, initialValue(root, items)])}>
        Add to {label}
      </button>
    </Group>
  );
}

function Group({ name, label, hint, children }: { name: string; label: string; hint: ReactNode; children: ReactNode }) {
  const id = useId();
  const message = mistakeAt(useContext(Mistakes), name);
  return (
    <fieldset className="schema-group" aria-describedby={`${id}-hint`} aria-invalid={message !== null}>
      <legend>{label}</legend>
      <p className="dim field-note" id={`${id}-hint`}>
        {hint}
      </p>
      {children}
      {message && (
        <p className="mistake field-note" role="alert">
          {message}
        </p>
      )}
    </fieldset>
  );
}

function LeafField({ name, label, value, isRequired, change, described, shape }: Props & { described: Described; shape: Shape }) {
  const zone = shape.kind === "text" && shape.format === "date-time" ? "In your time zone." : undefined;
  const hint = [described.description, zone].filter(Boolean).join(" ") || undefined;
  const empty = described.isNullable && isRequired ? null : undefined;
  return (
    <Field name={name} label={isRequired && !described.isNullable && shape.kind !== "boolean" ? `${label} (required)` : label} hint={hint}>
      {(input) => {
        switch (shape.kind) {
          case "boolean":
            return <input {...input} type="checkbox" checked={value === true} onChange={(event) => change(event.target.checked)} />;
          case "number":
            return (
              <input
                {...input}
                type="number"
                step="any"
                value={typeof value === "number" ? value : ""}
                onChange={(event) => change(event.target.value === "" ? empty : Number(event.target.value))}
              />
            );
          case "choice":
            return (
              <select {...input} value={value === undefined ? "" : JSON.stringify(value)} onChange={(event) => change(event.target.value === "" ? empty : JSON.parse(event.target.value))}>
                <option value="">–</option>
                {shape.choices.map((choice) => (
                  <option key={JSON.stringify(choice.value)} value={JSON.stringify(choice.value)}>
                    {choice.label}
                  </option>
                ))}
              </select>
            );
          case "text":
            return <TextInput input={input} shape={shape} value={typeof value === "string" ? value : ""} change={(text) => change(text === "" ? empty : text)} />;
          default:
            return <JsonInput input={input} value={value} change={change} />;
        }
      }}
    </Field>
  );
}

interface InputProps {
  id: string;
  "aria-invalid": boolean;
  "aria-describedby"?: string;
}

function TextInput({ input, shape, value, change }: { input: InputProps; shape: Shape & { kind: "text" }; value: string; change: (text: string) => void }) {
  if (shape.isLong || value.includes("\n")) return <textarea {...input} rows={4} value={value} onChange={(event) => change(event.target.value)} />;
  if (shape.format === "date-time" && (value === "" || toLocal(value) !== null))
    return <input {...input} type="datetime-local" step={1} value={toLocal(value) ?? ""} onChange={(event) => change(fromLocal(event.target.value))} />;
  // Not type="email" and "url": the browser would validate them with its own rules and messages.
  const mode = shape.format === "email" ? "email" : shape.format === "uri" ? "url" : "text";
  return <input {...input} type={shape.format === "date" ? "date" : "text"} inputMode={mode} value={value} onChange={(event) => change(event.target.value)} />;
}

export function JsonInput({ input, value, change, rows = 3 }: { input: InputProps; value: unknown; change: (value: unknown) => void; rows?: number }) {
  const [typed, setTyped] = useState("");
  return (
    <textarea
      {...input}
      rows={rows}
      spellCheck={false}
      value={textOf(value, typed)}
      placeholder="JSON"
      onChange={(event) => {
        setTyped(event.target.value);
        change(parsed(event.target.value));
      }}
    />
  );
}

/** Return the text of a value: as it was typed, if the typed text still has that value. */
export function textOf(value: unknown, typed: string): string {
  if (value instanceof Unparsed) return value.text;
  const current = parsed(typed);
  if (!(current instanceof Unparsed) && JSON.stringify(current) === JSON.stringify(value)) return typed;
  return value === undefined ? "" : JSON.stringify(value, null, 2);
}

/** Return the value of a JSON text: undefined if it is empty, an `Unparsed` if it is not JSON. */
export function parsed(text: string): unknown {
  if (text.trim() === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return new Unparsed(text);
  }
}

/** Return a time in the local time zone, as a datetime-local field needs it; null if the text is not a time. */
export function toLocal(value: string): string | null {
  const time = new Date(value);
  if (Number.isNaN(time.getTime())) return null;
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

export function fromLocal(text: string): string {
  const time = new Date(text);
  return Number.isNaN(time.getTime()) ? "" : time.toISOString().replace(/\.\d+Z$/, "Z");
}
