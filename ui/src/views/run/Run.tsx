/** One run: graph, timeline, events, input and output, and the actions on it. */
import { useLocation, useSearchParams } from "wouter";
import type { RunDetail } from "../../api/client";
import { GraphView } from "../../graph/GraphView";
import { Found } from "../../parts/Feedback";
import { Tabs } from "../../parts/Tabs";
import { Events } from "./Events";
import { Header } from "./Header";
import { InOut } from "./InOut";
import { Panel } from "./Panel";
import { pick, useChildren, useGraph, useRun, useRunLife } from "./queries";
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
  useRunLife(id, run.data);
  return <Found query={run}>{(found) => <Whole run={found} tab={params["tab"] ?? "graph"} />}</Found>;
}

function Whole({ run, tab }: { run: RunDetail; tab: string }) {
  const [search] = useSearchParams();
  const [place, go] = useLocation();
  const chosen = search.get("task");
  const picked = pick(run.attempts, search.get("attempt"));
  const address = (task: string | null, attempt: string | null) => {
    const kept = new URLSearchParams({ ...(task === null ? {} : { task }), ...(attempt === null ? {} : { attempt }) }).toString();
    return kept && `?${kept}`;
  };
  const number = picked === null ? null : String(picked.number);
  const choose = (task: string | null) => go(place + address(task, number), { replace: true });
  return (
    <section className="view run-view">
      <Header run={run} picked={picked} onPick={(attempt) => go(place + address(chosen, attempt), { replace: true })} />
      <Tabs base={`/runs/${run.id}`} tabs={TABS} chosen={tab} label="Views of the run" query={address(null, number)} />
      {picked?.until && (tab === "graph" || tab === "data") && (
        <p className="explanation">This is the current state of the run. The timeline and the events show attempt {picked.number}.</p>
      )}
      <div className={`split${chosen && run.tasks[chosen] ? " open" : ""}`}>
        <div className="split-main">
          {tab === "graph" && <RunGraph run={run} chosen={chosen} choose={choose} />}
          {tab === "timeline" && <Timeline run={run} picked={picked} chosen={chosen} choose={choose} />}
          {tab === "events" && <Events id={run.id} picked={picked} live={run.finished_at === null} />}
          {tab === "data" && <InOut run={run} />}
        </div>
        {chosen && run.tasks[chosen] && <Panel run={run} picked={picked} name={chosen} task={run.tasks[chosen]} onClose={() => choose(null)} />}
      </div>
    </section>
  );
}

function RunGraph({ run, chosen, choose }: { run: RunDetail; chosen: string | null; choose: (task: string) => void }) {
  const graph = useGraph(run.id);
  useChildren(run, graph.data);
  return <Found query={graph}>{(found) => <GraphView graph={found} tasks={run.tasks} chosen={chosen} onChoose={choose} />}</Found>;
}
