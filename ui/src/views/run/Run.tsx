/** One run: what it is at, drawn, told and timed; and what can be done about it. */
import { useMemo } from "react";
import { useLocation, useSearchParams } from "wouter";
import type { RunDetail, Task } from "../../api/client";
import { GraphView } from "../../graph/GraphView";
import { Found } from "../../parts/Feedback";
import { Tabs } from "../../parts/Tabs";
import { Events } from "./Events";
import { Header } from "./Header";
import { InOut } from "./InOut";
import { Panel } from "./Panel";
import { useGraph, useRun, useRunLife } from "./queries";
import { Timeline } from "./Timeline";

const TABS = [
  { name: "graph", title: "Graph" },
  { name: "timeline", title: "Timeline" },
  { name: "events", title: "Events" },
  { name: "data", title: "Input & output" },
];

export default function RunView({ params }: { params: Record<string, string | undefined> }) {
  const id = params["id"] ?? "";
  const run = useRun(id);
  const phases = useRunLife(id, run.data);
  return <Found query={run}>{(found) => <Whole run={found} tab={params["tab"] ?? "graph"} phases={phases} />}</Found>;
}

function Whole({ run, tab, phases }: { run: RunDetail; tab: string; phases: Record<string, string> }) {
  const [search] = useSearchParams();
  const [place, go] = useLocation();
  const chosen = search.get("task");
  const choose = (task: string | null) => go(task === null ? place : `${place}?task=${encodeURIComponent(task)}`, { replace: true });
  const tasks = useMemo(() => shown(run.tasks, phases), [run.tasks, phases]);
  return (
    <section className="view run-view">
      <Header run={run} />
      <Tabs base={`/runs/${run.id}`} tabs={TABS} chosen={tab} label="Views of the run" />
      <div className={`split${chosen && run.tasks[chosen] ? " open" : ""}`}>
        <div className="split-main">
          {tab === "graph" && <RunGraph run={run} tasks={tasks} chosen={chosen} choose={choose} />}
          {tab === "timeline" && <Timeline run={run} chosen={chosen} choose={choose} />}
          {tab === "events" && <Events id={run.id} live={run.finished_at === null} />}
          {tab === "data" && <InOut run={run} />}
        </div>
        {chosen && run.tasks[chosen] && <Panel run={run} name={chosen} task={tasks[chosen]!} onClose={() => choose(null)} />}
      </div>
    </section>
  );
}

function RunGraph({ run, tasks, chosen, choose }: { run: RunDetail; tasks: Record<string, Task>; chosen: string | null; choose: (task: string) => void }) {
  const graph = useGraph(run.id);
  return <Found query={graph}>{(found) => <GraphView graph={found} tasks={tasks} chosen={chosen} onChoose={choose} />}</Found>;
}

const PHASES = new Set(["queued", "backoff"]);

/** A task that runs may be in line, or backing off: the stream knows. */
function shown(tasks: Record<string, Task>, phases: Record<string, string>): Record<string, Task> {
  const phased = Object.entries(phases).filter(([name, phase]) => PHASES.has(phase) && tasks[name]?.status === "running" && !tasks[name]?.instances);
  if (phased.length === 0) return tasks;
  return { ...tasks, ...Object.fromEntries(phased.map(([name, phase]) => [name, { ...tasks[name]!, status: phase as Task["status"] }])) };
}
