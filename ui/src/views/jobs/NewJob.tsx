/** Submits a job. A type whose workers have published a schema has a form for its payload. */
import { useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useLocation, useSearchParams } from "wouter";
import { api, data, page, Problem } from "../../api/client";
import { AllowedPage } from "../../parts/Allowed";
import { Command } from "../../parts/Copy";
import { Trouble } from "../../parts/Feedback";
import { Field, Mistakes, unplaced } from "../../parts/Field";
import { placed, problemOf } from "../../parts/schema/check";
import { initialValue, Unparsed, type Schema } from "../../parts/schema/schema";
import { JsonInput } from "../../parts/schema/SchemaField";
import { SchemaForm } from "../../parts/schema/SchemaForm";

const MOST_TYPES = 500; // the maximum number of suggestions
const OPTIONS = ["type", "queue", "delay", "idempotency_key"];

export default function NewJob() {
  const [search, setSearch] = useSearchParams();
  const type = search.get("type") ?? "";
  const types = useQuery({ queryKey: ["job-types"], queryFn: () => page(api.GET("/api/v1/job-types", { params: { query: { limit: MOST_TYPES } } })) });
  const schema: Schema | null = types.data?.rows.find((each) => each.type === type)?.schema ?? null;
  return (
    <AllowedPage scope="start">
      <section className="view">
        <div className="view-head">
          <h1>New job</h1>
        </div>
        {types.error && <Trouble error={types.error} />}
        <datalist id="job-types">
          {types.data?.rows.map((each) => (
            <option key={each.type} value={each.type} />
          ))}
        </datalist>
        <JobForm type={type} setType={(next) => setSearch(next ? { type: next } : {}, { replace: true })} schema={schema} />
      </section>
    </AllowedPage>
  );
}

export function JobForm({ type, setType, schema }: { type: string; setType: (type: string) => void; schema: Schema | null }) {
  const [, go] = useLocation();
  const [payload, setPayload] = useState<unknown>({});
  const [queue, setQueue] = useState("");
  const [delay, setDelay] = useState("");
  const [key, setKey] = useState("");
  const [refusal, setRefusal] = useState<Problem | null>(null);
  useEffect(() => setPayload(schema ? initialValue(schema, schema) : {}), [schema]);
  const submit = useMutation({
    mutationFn: () => {
      const options = { queue: queue.trim(), delay: delay.trim(), idempotency_key: key.trim() };
      const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== ""));
      return data(api.POST("/api/v1/jobs", { body: { type: type.trim(), payload, ...given } as never }));
    },
    onSuccess: (job) => go(`/jobs/${(job as { id: string }).id}`),
  });
  const error = refusal ?? submit.error;
  const about = onlyOf(error, "payload");
  const rest = unplaced(error, [...OPTIONS, ...(about?.errors.map((each) => each.field) ?? [])]);
  const text = (label: string, name: string, value: string, change: (text: string) => void, hint: string, list?: string) => (
    <Field name={name} label={label}>
      {(input) => <input {...input} type="text" list={list} placeholder={hint} value={value} onChange={(event) => change(event.target.value)} />}
    </Field>
  );
  return (
    <form
      className="two"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        const problem = refused(type, schema, payload);
        setRefusal(problem);
        if (problem) submit.reset();
        else submit.mutate();
      }}
    >
      <Mistakes value={placed(error, ["payload"])}>
        <section>
          {text("Type (required)", "type", type, setType, "content.thumbnail.v1", "job-types")}
          <h2>Payload</h2>
          {schema ? (
            <SchemaForm schema={schema} name="payload" label="Payload" value={payload} change={setPayload} error={about} />
          ) : (
            <Field name="payload" label="Payload as JSON" hint={type.trim() ? "No worker has published a schema for this type." : undefined}>
              {(input) => <JsonInput input={input} value={payload} change={setPayload} rows={10} />}
            </Field>
          )}
        </section>
        <section>
          <h2>Options</h2>
          {text("Queue", "queue", queue, setQueue, "the queue of its handler")}
          {text("Delay", "delay", delay, setDelay, "5m")}
          {text("Idempotency key", "idempotency_key", key, setKey, "reusing a key submits no new job")}
          {rest !== null && rest !== undefined && <Trouble error={rest} />}
          <div className="actions">
            <button type="submit" className="primary" disabled={submit.isPending}>
              Submit
            </button>
          </div>
          {type.trim() && payload !== undefined && !(payload instanceof Unparsed) && <Command text={`windlass submit ${type.trim()} '${JSON.stringify(payload).replaceAll("'", "'\\''")}'`} />}
        </section>
      </Mistakes>
    </form>
  );
}

/** Validate the form before it is sent; return the error, null if there is none. */
function refused(type: string, schema: Schema | null, payload: unknown): Problem | null {
  if (!type.trim()) return new Problem(422, "Invalid", "type is required", [{ field: "type", message: "is required" }]);
  if (schema) return problemOf(schema, payload, "payload");
  return payload instanceof Unparsed ? new Problem(422, "Invalid", "payload must be JSON", [{ field: "payload", message: "must be JSON" }]) : null;
}

/** Return the mistakes in a field and in its subfields, null if there are none. */
function onlyOf(error: unknown, name: string): Problem | null {
  if (!(error instanceof Problem)) return null;
  const errors = error.errors.filter((each) => each.field === name || each.field.startsWith(`${name}.`));
  return errors.length === 0 ? null : new Problem(error.status, error.title, error.message, errors);
}
