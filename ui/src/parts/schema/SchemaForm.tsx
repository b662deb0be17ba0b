/** A form for a value with a JSON Schema. The same value can also be edited as JSON. */
import { useState } from "react";
import { Editor } from "../Editor";
import { Trouble } from "../Feedback";
import { Mistakes, unplaced } from "../Field";
import { placed, placesOf } from "./check";
import { describe, isObject, Unparsed, type Schema } from "./schema";
import { parsed, Properties, SchemaField, textOf } from "./SchemaField";

interface Props {
  schema: Schema;
  name: string; // of the value in the API; the field names of errors begin with it
  label: string;
  value: unknown;
  change: (value: unknown) => void;
  error: unknown; // of the last attempt to send it
}

export function SchemaForm({ schema, name, label, value, change, error }: Props) {
  const [asJson, setAsJson] = useState(false);
  const [typed, setTyped] = useState("");
  const places = asJson ? [] : placesOf(schema, schema, value, name).slice(isObject(value) ? 1 : 0); // an object itself has no field
  const mistakes = placed(error, places);
  const rest = unplaced(mistakes, places);
  const isBroken = value instanceof Unparsed;
  return (
    <div className="schema-form">
      <label className="check">
        <input type="checkbox" checked={asJson} disabled={asJson && isBroken} onChange={(event) => setAsJson(event.target.checked)} /> Edit as JSON
      </label>
      {asJson ? (
        <Editor
          label={`${label} as JSON`}
          value={textOf(value, typed)}
          rows={14}
          mistake={isBroken ? { message: "must be JSON" } : null}
          onChange={(text) => {
            setTyped(text);
            change(parsed(text));
          }}
        />
      ) : (
        <Mistakes value={mistakes}>
          <SchemaFields schema={schema} name={name} label={label} value={value} change={change} />
        </Mistakes>
      )}
      {rest !== null && rest !== undefined && <Trouble error={rest} />}
    </div>
  );
}

/** Only the fields, for a form that also has other fields and shows its errors itself. */
export function SchemaFields({ schema, name, label, value, change }: Omit<Props, "error">) {
  const { shape, description } = describe(schema, schema);
  if (shape.kind !== "object" || (value !== undefined && !isObject(value))) return <SchemaField root={schema} schema={schema} name={name} label={label} value={value} isRequired change={change} />;
  return (
    <>
      {description && <p className="dim">{description}</p>}
      <Properties root={schema} name={name} value={value} properties={shape.properties} change={change} />
    </>
  );
}
