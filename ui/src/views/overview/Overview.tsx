/** The state of the system at a glance: runs, recent failures, jobs, queues, workers, the next schedules. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { api, data, type Schemas } from "../../api/client";
import { useLive } from "../../api/live";
import { Empty, Found } from "../../parts/Feedback";
import { look, State, StateIcon } from "../../parts/State";
import { Ago } from "../../parts/Time";
import { count, plural, span } from "../../parts/words";
import { MOST, useQuarantine } from "../quarantine/queries";
import { Hours } from "./Hours";

type Stats = Schemas["Stats"];

const RUNS = ["running", "pending", "failed", "timeout", "completed", "cancelled"];
const JOBS: [string, string, string][] = [
  ["due", "queued", "due"],
  ["leased", "running", "running"],
  ["scheduled", "scheduled", "scheduled"],
  ["failed", "failed", "failed"],
  ["succeeded", "success", "succeeded"],
];

export default function Overview() {
  useLive("/api/v1/stream", [["stats"]], undefined, 2000);
  const stats = useQuery({ queryKey: ["stats"], queryFn: () => data(api.GET("/api/v1/stats")) });
  return (
    <section className="view">
      <div className="view-head">
        <h1>Overview</h1>
      </div>
      <QuarantineNotice />
      <Found query={stats}>{(found) => <Whole stats={found} />}</Found>
    </section>
  );
}

/** A notice while the quarantine is not empty. */
function QuarantineNotice() {
  const rows = useQuarantine().data?.rows ?? [];
  if (rows.length === 0) return null;
  return (
    <p className="reason" role="status">
      {rows.length === MOST && "At least "}
      {plural(rows.length, "item is", "items are")} in quarantine because processing failed unexpectedly. <Link href="/quarantine">Open the quarantine</Link>
    </p>
  );
}

function Whole({ stats }: { stats: Stats }) {
  const never = Object.values(stats.runs.counts).every((n) => n === 0) && Object.values(stats.jobs.counts).every((n) => n === 0);
  if (never)
    return (
      <Empty title="Windlass is running" commands={["windlass deploy workflow.yaml", "windlass run NAME --wait", "make demo"]}>
        Nothing has run yet. Deploy a workflow and start it from a terminal, or create one under <Link href="/workflows/+/edit">New workflow</Link>:
      </Empty>
    );
  return (
    <div className="cards">
      <section className="card wide-card" aria-label="Runs by state">
        <h2>Runs</h2>
        <div className="figures">
          {RUNS.map((state) => (
            <Figure key={state} href={`/runs?status=${state}`} state={state} n={stats.runs.counts[state] ?? 0} capped={stats.runs.capped.includes(state)} word={look(state).word} />
          ))}
        </div>
        <Hours hours={stats.hours} />
      </section>
      <Failing runs={stats.failing} />
      <section className="card">
        <h2>Jobs</h2>
        <div className="figures">
          {JOBS.map(([name, state, word]) => (
            <Figure key={name} state={state} n={stats.jobs.counts[name] ?? 0} capped={stats.jobs.capped.includes(name)} word={word} />
          ))}
        </div>
        <Queues queues={stats.queues} />
      </section>
      <section className="card">
        <h2>Workers</h2>
        {stats.workers.up === 0 ? (
          <>
            <p className="reason">No worker is running, so no job can run. Start one:</p>
            <p>
              <code>windlass worker MODULE:APP</code>
            </p>
          </>
        ) : (
          <p>
            <strong className="big">{count(stats.workers.up)}</strong> running, {count(stats.workers.active)} of {plural(stats.workers.slots, "slot")} in use
          </p>
        )}
        {stats.workers.silent > 0 && (
          <p className="reason">{plural(stats.workers.silent, "worker")} stopped sending heartbeats. Other workers take over {stats.workers.silent === 1 ? "its" : "their"} jobs when the leases expire.</p>
        )}
      </section>
      <Next ticks={stats.next} />
    </div>
  );
}

function Figure({ state, n, word, capped, href }: { state: string; n: number; word: string; capped: boolean; href?: string }) {
  const inside = (
    <>
      <strong className={`big ${n > 0 ? `tone-${look(state).tone}` : "zero"}`}>
        {count(n)}
        {capped && "+"}
      </strong>
      <span>
        <StateIcon state={state} />
        {word}
      </span>
    </>
  );
  return href ? (
    <Link href={href} className="figure">
      {inside}
    </Link>
  ) : (
    <div className="figure">{inside}</div>
  );
}

function Failing({ runs }: { runs: Stats["failing"] }) {
  return (
    <section className="card">
      <h2>Recent failures</h2>
      {runs.length === 0 ? (
        <p className="dim">No recent failures.</p>
      ) : (
        <ul className="plain-list lines">
          {runs.slice(0, 8).map((run) => (
            <li key={run.id}>
              <State state={run.status} />
              <Link href={`/runs/${run.id}`}>{run.workflow}</Link>
              <span className="dim">
                <Ago when={run.finished_at} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function Queues({ queues }: { queues: Stats["queues"] }) {
  if (queues.length === 0) return <p className="dim">All queues are empty.</p>;
  return (
    <table className="plain">
      <thead>
        <tr>
          <th>Queue</th>
          <th className="num">Due</th>
          <th className="num">Running</th>
          <th className="num">Oldest waiting</th>
        </tr>
      </thead>
      <tbody>
        {queues.map((queue) => (
          <tr key={queue.name}>
            <td>
              {queue.name} {queue.paused && <State state="paused" />}
            </td>
            <td className="num">
              {count(queue.due)}
              {queue.capped && "+"}
            </td>
            <td className="num">{count(queue.leased)}</td>
            <td className="num">{queue.oldest_seconds === null ? "–" : span(queue.oldest_seconds * 1000)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Next({ ticks }: { ticks: Stats["next"] }) {
  return (
    <section className="card">
      <h2>Schedules</h2>
      {ticks.length === 0 ? (
        <p className="dim">No schedules. Add a cron trigger to a workflow to run it on a schedule.</p>
      ) : (
        <ul className="plain-list lines">
          {ticks.map((tick) => (
            <li key={`${tick.starts} ${tick.name}`}>
              {tick.starts === "run" ? <Link href={`/workflows/${tick.name}/schedule`}>{tick.name}</Link> : tick.name}
              <code className="dim">{tick.cron}</code>
              <Ago when={tick.next_run_at} />
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
