/** Starts a run. The form has the fields of the `input` schema of the workflow, else those that its templates read. */
import { useMutation, useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { useLocation, useSearchParams } from "wouter";
import { api, data, type Problem, type Schemas } from "../../api/client";
import { Command } from "../../parts/Copy";
import { Editor, parseJson } from "../../parts/Editor";
import { Trouble } from "../../parts/Feedback";
import { problemOf } from "../../parts/schema/check";
import { initialValue, isObject, Unparsed, type Schema } from "../../parts/schema/schema";
import { parsed, textOf } from "../../parts/schema/SchemaField";
import { SchemaForm } from "../../parts/schema/SchemaForm";

export function Trigger({ workflow }: { workflow: Schemas["WorkflowDetail"] }) {
  const [, go] = useLocation();
  const [search] = useSearchParams();
  const like = search.get("like");
  const schema: Schema | null = workflow.input ?? null;
  const asked = useMemo(() => inputs(workflow.tasks), [workflow.tasks]);
  const [value, setValue] = useState<unknown>(() => (schema ? initialValue(schema, schema) : Object.fromEntries(asked.map((name) => [name, ""]))));
  const [typed, setTyped] = useState("");
  const [refusal, setRefusal] = useState<Problem | null>(null);
  const [labels, setLabels] = useState("");
  const [key, setKey] = useState("");
  const past = useQuery({
    queryKey: ["run", like],
    enabled: like !== null,
    queryFn: () => data(api.GET("/api/v1/runs/{run_id}", { params: { path: { run_id: like! } } })),
  });
  useEffect(() => {
    if (!past.data) return;
    setValue(past.data.input);
    setLabels(Object.entries(past.data.labels).map(([name, value]) => `${name}=${value}`).join(", "));
  }, [past.data?.id]); // eslint-disable-line react-hooks/exhaustive-deps
  const start = useMutation({
    mutationFn: () =>
      data(
        api.POST("/api/v1/workflows/{ref}/runs", {
          params: { path: { ref: workflow.name } },
          body: { input: value as never, labels: pairs(labels), ...(key.trim() ? { idempotency_key: key.trim() } : {}) } as never,
        }),
      ),
    onSuccess: (started) => go(`/runs/${(started as { run_id: string }).run_id}`),
  });
  const text = textOf(value, typed);
  const mistake = schema ? null : parseJson(text).mistake;
  const isWhole = mistake === null && value !== undefined && !(value instanceof Unparsed);
  const edit = (next: string) => {
    setTyped(next);
    setValue(parsed(next));
  };
  const options = (
    <>
      <h2>Options</h2>
      <label className="field">
        Labels <input type="text" value={labels} placeholder="team=shop, area=orders" onChange={(event) => setLabels(event.target.value)} />
      </label>
      <label className="field">
        Idempotency key <input type="text" value={key} placeholder="reusing a key starts no new run" onChange={(event) => setKey(event.target.value)} />
      </label>
    </>
  );
  return (
    <form
      className="two"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        const problem = schema && problemOf(schema, value, "input");
        setRefusal(problem);
        if (problem) start.reset();
        else start.mutate();
      }}
    >
      <section>
        <h2>Input</h2>
        {like && past.data && <p className="dim">Copied from run {like.slice(-8)}.</p>}
        {schema ? <SchemaForm schema={schema} name="input" label="Input" value={value} change={setValue} error={refusal ?? start.error} /> : <UsedInputs asked={asked} value={value} change={setValue} />}
        {!schema && options}
      </section>
      <section>
        {schema ? options : <Editor label="Input as JSON" value={text} onChange={edit} mistake={mistake} rows={14} />}
        {!workflow.enabled && <p className="reason">The workflow is disabled, so it accepts no new runs.</p>}
        {!schema && start.error && <Trouble error={start.error} />}
        <div className="actions">
          <button type="submit" className="primary" disabled={mistake !== null || start.isPending}>
            Start a run
          </button>
        </div>
        {isWhole && <Command text={`windlass run ${workflow.name} --input '${JSON.stringify(value).replaceAll("'", "'\\''")}'`} />}
      </section>
    </form>
  );
}

/** Fields for the inputs that the templates of the tasks read. */
function UsedInputs({ asked, value, change }: { asked: string[]; value: unknown; change: (value: unknown) => void }) {
  if (value === undefined || value instanceof Unparsed) return <p className="dim">Fix the JSON to edit the fields.</p>;
  const fields = isObject(value) ? [...new Set([...asked, ...Object.keys(value)])] : [];
  if (!isObject(value) || fields.length === 0) return <p className="dim">The templates of the workflow read no named inputs. The JSON is passed on unchanged.</p>;
  return fields.map((name) => <Field key={name} name={name} value={value[name]} change={(next) => change({ ...value, [name]: next })} />);
}

function Field({ name, value, change }: { name: string; value: unknown; change: (value: unknown) => void }) {
  if (typeof value === "boolean")
    return (
      <label className="field">
        {name} <input type="checkbox" checked={value} onChange={(event) => change(event.target.checked)} />
      </label>
    );
  if (typeof value === "number")
    return (
      <label className="field">
        {name} <input type="number" step="any" value={value} onChange={(event) => change(event.target.value === "" ? "" : Number(event.target.value))} />
      </label>
    );
  const plain = typeof value === "string" || value === undefined || value === null;
  return (
    <label className="field">
      {name} <input type="text" disabled={!plain} value={plain ? (value ?? "") : JSON.stringify(value)} onChange={(event) => change(typed(event.target.value))} />
    </label>
  );
}

/** Read numbers and booleans as such; a string that looks like one can be written in the JSON. */
function typed(text: string): unknown {
  if (text === "true" || text === "false") return text === "true";
  return /^-?(0|[1-9]\d{0,14})(\.\d+)?$/.test(text) ? Number(text) : text;
}

/** Return the input fields that templates and expressions of the tasks use. */
export function inputs(tasks: Record<string, unknown>): string[] {
  const found = JSON.stringify(tasks).matchAll(/\b(?:trigger\.body|input)\.([A-Za-z_][\w-]*)/g);
  return [...new Set([...found].map((match) => match[1]!))];
}

export function pairs(text: string): Record<string, string> {
  const parts = text.split(",").map((each) => each.trim()).filter((each) => each.includes("="));
  return Object.fromEntries(parts.map((each) => [each.slice(0, each.indexOf("=")), each.slice(each.indexOf("=") + 1)]));
}
