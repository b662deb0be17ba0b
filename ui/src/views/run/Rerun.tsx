/** The dialog that reruns a run from a task, with another input if it was changed. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Problem, type RunDetail } from "../../api/client";
import { Dialog } from "../../parts/Dialog";
import { Editor, parseJson } from "../../parts/Editor";
import { Trouble } from "../../parts/Feedback";
import { problemOf } from "../../parts/schema/check";
import { Unparsed, type Schema } from "../../parts/schema/schema";
import { parsed, textOf } from "../../parts/schema/SchemaField";
import { SchemaForm } from "../../parts/schema/SchemaForm";
import { useSteer } from "./steer";

export function Rerun({ run, onClose }: { run: RunDetail; onClose: () => void }) {
  const version = useQuery({
    queryKey: ["version", run.workflow, run.version],
    staleTime: Infinity, // it never changes
    retry: false, // the workflow may have been deleted: its input is edited as JSON then
    queryFn: () => data(api.GET("/api/v1/workflows/{ref}/versions/{number}", { params: { path: { ref: run.workflow, number: run.version } } })),
  });
  return (
    <Dialog title="Rerun from a task" onClose={onClose} wide>
      <p>Runs the task and everything after it again. The results of earlier tasks are kept.</p>
      {version.isPending ? (
        <p className="dim" role="status">
          Loading…
        </p>
      ) : (
        <RerunForm run={run} schema={(version.data?.definition.input as Schema | undefined) ?? null} onClose={onClose} />
      )}
    </Dialog>
  );
}

function RerunForm({ run, schema, onClose }: { run: RunDetail; schema: Schema | null; onClose: () => void }) {
  const names = Object.keys(run.tasks).filter((name) => !run.tasks[name]!.compensates);
  const worst = names.find((name) => ["failed", "timeout", "template_error"].includes(run.tasks[name]!.status)) ?? names[0] ?? "";
  const [from, setFrom] = useState(worst);
  const [value, setValue] = useState<unknown>(run.input);
  const [typed, setTyped] = useState("");
  const [refusal, setRefusal] = useState<Problem | null>(null);
  const text = textOf(value, typed);
  const mistake = schema ? null : parseJson(text).mistake;
  const isBroken = value === undefined || value instanceof Unparsed;
  const isChanged = isBroken || JSON.stringify(value) !== JSON.stringify(run.input);
  const body = isChanged ? { from, input: value } : { from };
  const rerun = useSteer(run.id, () => data(api.POST("/api/v1/runs/{run_id}/rerun", { params: { path: { run_id: run.id } }, body: body as never })), onClose);
  return (
    <form
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        const problem = schema && isChanged ? problemOf(schema, value, "input") : null;
        setRefusal(problem);
        if (problem) rerun.reset();
        else rerun.mutate();
      }}
    >
      <label className="field">
        From
        <select value={from} onChange={(event) => setFrom(event.target.value)}>
          {names.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      {schema ? (
        <SchemaForm schema={schema} name="input" label="Input of the run" value={value} change={setValue} error={refusal ?? rerun.error} />
      ) : (
        <>
          <Editor
            label="Input of the run"
            value={text}
            mistake={mistake}
            onChange={(next) => {
              setTyped(next);
              setValue(parsed(next));
            }}
          />
          {rerun.error && <Trouble error={rerun.error} />}
        </>
      )}
      <div className="actions">
        <button type="button" onClick={onClose}>
          Close
        </button>
        <button type="submit" className="primary" disabled={rerun.isPending || isBroken}>
          {isChanged ? "Rerun with this input" : "Rerun"}
        </button>
      </div>
    </form>
  );
}
