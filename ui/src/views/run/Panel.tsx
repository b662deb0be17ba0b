/** The panel of one task of a run: reason, times, attempts, input and output, logs, its instances or its child run. */
import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { Link, useLocation } from "wouter";
import { api, data, page, type RunDetail, type Task } from "../../api/client";
import { GraphView } from "../../graph/GraphView";
import { KindIcon, kindTitle } from "../../graph/KindIcon";
import { obstacle, stateOf } from "../../parts/activity";
import { Allowed } from "../../parts/Allowed";
import { Command } from "../../parts/Copy";
import { Found } from "../../parts/Feedback";
import { Json } from "../../parts/Json";
import { State } from "../../parts/State";
import { Ago, Took, useNow } from "../../parts/Time";
import { countdown, exact } from "../../parts/words";
import { Progress } from "../job/Progress";
import { TaskApproval } from "./Approval";
import { Artifacts } from "./Artifacts";
import { Awaited } from "./Awaited";
import { Attempts } from "./Attempts";
import { Given } from "./Given";
import { Instances } from "./Instances";
import { Logs } from "./Logs";
import { useGraph, useRun, useRunLife, within, type Picked } from "./queries";

const AGAIN = 2000; // no stream announces progress
const BEGUN = new Set(["success", "failed", "timeout", "running", "cancelled"]);

export function Panel({ run, picked, name, task, onClose }: { run: RunDetail; picked: Picked | null; name: string; task: Task; onClose: () => void }) {
  useEffect(() => {
    const leave = (event: KeyboardEvent) => event.key === "Escape" && !document.querySelector("dialog[open]") && onClose();
    document.addEventListener("keydown", leave);
    return () => document.removeEventListener("keydown", leave);
  }, [onClose]);
  const shape = useGraph(run.id).data?.tasks.find((each) => each.name === name);
  const blocked = obstacle(task);
  const hasJobs = task.type === "job" || task.type === "http" || task.type === "command";
  return (
    <aside className="panel" aria-label={`Task ${name}`}>
      <header className="view-head">
        <h2>{name}</h2>
        <State state={stateOf(task)} />
        <button type="button" className="icon-button" onClick={onClose} aria-label="Close the panel">
          <svg viewBox="0 0 16 16" className="icon" aria-hidden>
            <path d="M4 4l8 8M12 4l-8 8" />
          </svg>
        </button>
      </header>
      <dl className="facts">
        <Line name="Kind">
          <KindIcon kind={task.type} /> {kindTitle(task.type)}
        </Line>
        {shape?.runs_on && (
          <Line name="Runs on">
            <Link href="/pools">{shape.runs_on}</Link>
          </Line>
        )}
        {shape?.runs_on && task.activity && !task.instances && task.remark && <Line name="Launch">{task.remark}</Line>}
        {shape?.if && (
          <Line name="Runs if">
            <code>{shape.if}</code>
          </Line>
        )}
        {task.activity && task.until && <Until task={task} />}
        {task.started_at && (
          <Line name="Started">
            <Ago when={task.started_at} />
          </Line>
        )}
        {task.started_at && (
          <Line name="Duration">
            <Took from={task.started_at} to={task.finished_at} />
          </Line>
        )}
        {task.attempt ? (
          <Line name="Attempt">
            {task.attempt} of {task.max_attempts}
          </Line>
        ) : null}
        {task.status_code ? <Line name="HTTP status">{task.status_code}</Line> : null}
        {task.worker && <Line name="Worker">{task.worker}</Line>}
      </dl>
      {picked && hasJobs && !task.instances && <p className="dim">Failed attempts and logs are those of attempt {picked.number} of the run.{picked.until && " Everything else is current."}</p>}
      {blocked && <p className="reason">{blocked}</p>}
      {task.reason && <p className="reason">{task.reason}</p>}
      {task.error && !hasJobs && <pre className="error">{task.error}</pre>}
      {task.type === "wait_for_webhook" && (
        <Allowed scope="operate">
          <Callback run={run} name={name} waits={task.status === "waiting" || task.status === "pending"} />
        </Allowed>
      )}
      {task.awaited && <Awaited run={run} message={task.awaited} />}
      {task.type === "approve" && task.status === "waiting" && <TaskApproval run={run.id} name={name} />}
      {task.child_run_id && <Child id={task.child_run_id} />}
      {hasJobs && task.instances && <Instances run={run.id} name={name} task={task} />}
      {hasJobs && !task.instances && BEGUN.has(task.status) && <Single run={run} picked={picked} name={name} task={task} />}
      {!hasJobs && (task.status === "success" || (task.type === "approve" && task.status === "failed")) && task.type !== "sleep" && <Output run={run.id} name={name} />}
      {hasJobs && BEGUN.has(task.status) && <Artifacts run={run.id} name={name} task={task} />}
      {hasJobs && BEGUN.has(task.status) && <Logs run={run.id} name={name} live={task.status === "running"} picked={picked} />}
    </aside>
  );
}

/** The only job of a task: its failed attempts, output and input. */
function Single({ run, picked, name, task }: { run: RunDetail; picked: Picked | null; name: string; task: Task }) {
  const jobs = useQuery({
    queryKey: ["run", run.id, "instances", name, "first", task.status],
    queryFn: () => page(api.GET("/api/v1/runs/{run_id}/tasks/{task}/instances", { params: { path: { run_id: run.id, task: name }, query: { limit: 1 } } })),
  });
  const job = jobs.data?.rows[0];
  const errors = job?.errors.filter((error) => within(picked, error["at"] as string | undefined)) ?? [];
  return (
    <>
      {errors.length > 0 && <Attempts errors={errors} />}
      {job && job.errors.length === 0 && job.error && <pre className="error">{job.error}</pre>}
      {task.status === "success" && <Output run={run.id} name={name} />}
      {job && task.status === "running" && <Reported id={job.job_id} />}
      {job && <Given id={job.job_id} />}
    </>
  );
}

/** The last progress report of a job: the progress of its handler, or the state of a launched job. */
function Reported({ id }: { id: string }) {
  const job = useQuery({
    queryKey: ["job", id, "progress"],
    refetchInterval: AGAIN,
    queryFn: () => data(api.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } } })),
  });
  const progress = job.data?.progress;
  if (!progress) return null;
  return progress.fraction === 0 && progress.message ? <p className="reason">{progress.message}</p> : <Progress progress={progress} />;
}

function Output({ run, name }: { run: string; name: string }) {
  const output = useQuery({
    queryKey: ["run", run, "output", name],
    queryFn: () => data(api.GET("/api/v1/runs/{run_id}/tasks/{task}/output", { params: { path: { run_id: run, task: name } } })),
  });
  return (
    <section>
      <h3>Output</h3>
      <Found query={output}>{(value) => <Json value={value ?? null} label="output" />}</Found>
    </section>
  );
}

function Callback({ run, name, waits }: { run: RunDetail; name: string; waits: boolean }) {
  const callback = useQuery({
    queryKey: ["callback", run.id, name],
    staleTime: Infinity,
    enabled: waits,
    queryFn: () => data(api.GET("/api/v1/runs/{run_id}/tasks/{task}/callback", { params: { path: { run_id: run.id, task: name } } })),
  });
  if (!waits) return null;
  return (
    <section>
      <h3>Callback URL</h3>
      <Found query={callback}>{({ url }) => <Command text={`curl -X POST -H 'content-type: application/json' -d '{}' ${url}`} />}</Found>
    </section>
  );
}

/** The child run, embedded in the panel. */
function Child({ id }: { id: string }) {
  const run = useRun(id);
  const graph = useGraph(id);
  const [, go] = useLocation();
  useRunLife(id, run.data);
  return (
    <section>
      <h3>Child run</h3>
      <Found query={run}>
        {(found) => (
          <>
            <State state={found.status} /> <Link href={`/runs/${id}`}>{found.workflow}</Link>
            <Found query={graph}>{(shape) => <GraphView graph={shape} tasks={found.tasks} onChoose={(task) => go(`/runs/${id}?task=${encodeURIComponent(task)}`)} small />}</Found>
          </>
        )}
      </Found>
    </section>
  );
}

const ENDS: Record<string, string> = { backing_off: "Next attempt", sleeping: "Wakes up", waiting_for_callback: "Times out", waiting_for_message: "Times out", waiting_for_approval: "Decide until" };

/** When the activity ends. */
function Until({ task }: { task: Task }) {
  const now = useNow();
  const when = task.until!;
  return (
    <Line name={ENDS[task.activity!] ?? "Until"}>
      {countdown(when, now)} <span className="dim">({exact(when)})</span>
    </Line>
  );
}

function Line({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
