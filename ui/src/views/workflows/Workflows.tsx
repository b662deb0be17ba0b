/** All workflows: their last runs, success rate, durations and next start. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { api, page, type Schemas } from "../../api/client";
import { useLive } from "../../api/live";
import { Allowed } from "../../parts/Allowed";
import { Empty, Found } from "../../parts/Feedback";
import { State } from "../../parts/State";
import { Ago } from "../../parts/Time";
import { percent, span } from "../../parts/words";
import { Dots } from "./Dots";

export default function Workflows() {
  const [find, setFind] = useState("");
  useLive("/api/v1/stream?kind=run", [["workflows"]], undefined, 2000);
  const workflows = useInfiniteQuery({
    queryKey: ["workflows", "list"],
    initialPageParam: "",
    queryFn: ({ pageParam }) => page(api.GET("/api/v1/workflows", { params: { query: { limit: 100, after: pageParam } } })),
    getNextPageParam: (last) => last.next ?? undefined,
  });
  const rows = workflows.data?.pages.flatMap((each) => each.rows) ?? [];
  const shown = rows.filter((each) => !find || `${each.name} ${each.description ?? ""}`.toLowerCase().includes(find.toLowerCase()));
  return (
    <section className="view">
      <div className="view-head">
        <h1>Workflows</h1>
        <div className="actions">
          <input type="search" aria-label="Filter workflows" placeholder="filter" value={find} onChange={(event) => setFind(event.target.value)} />
          <Allowed scope="deploy">
            <Link className="button primary" href="/workflows/+/edit">
              New workflow
            </Link>
          </Allowed>
        </div>
      </div>
      <Found query={workflows}>
        {() =>
          rows.length === 0 ? (
            <Empty title="No workflows yet" commands={["windlass deploy workflow.yaml"]}>
              A workflow is a set of tasks and their dependencies. Create one under <Link href="/workflows/+/edit">New workflow</Link>, or deploy a file:
            </Empty>
          ) : (
            <div className="table" tabIndex={0} role="region" aria-label="Workflows">
              <table>
                <thead>
                  <tr>
                    <th>Name</th>
                    <th>Last runs</th>
                    <th className="num">Success</th>
                    <th className="num">p50</th>
                    <th className="num">p95</th>
                    <th>Trigger</th>
                    <th>Next</th>
                    <th>State</th>
                  </tr>
                </thead>
                <tbody>
                  {shown.map((each) => (
                    <Row key={each.id} workflow={each} />
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Found>
      {workflows.hasNextPage && (
        <button type="button" className="more" onClick={() => void workflows.fetchNextPage()}>
          Show more
        </button>
      )}
    </section>
  );
}

function Row({ workflow }: { workflow: Schemas["ListedWorkflow"] }) {
  const stats = workflow.stats;
  return (
    <tr>
      <td>
        <Link href={`/workflows/${workflow.name}`}>
          <strong>{workflow.name}</strong>
        </Link>{" "}
        <span className="dim">v{workflow.version}</span>
        {workflow.description && <div className="dim clip">{workflow.description}</div>}
      </td>
      <td><Dots runs={stats.latest} /></td>
      <td className="num">{stats.success_rate == null ? "–" : percent(stats.success_rate)}</td>
      <td className="num">{span(stats.p50_ms)}</td>
      <td className="num">{span(stats.p95_ms)}</td>
      <td>
        {workflow.trigger}
        {workflow.cron_expression && <div className="dim mono">{workflow.cron_expression}</div>}
      </td>
      <td>{stats.next_run_at ? <Ago when={stats.next_run_at} /> : <span className="dim">–</span>}</td>
      <td>
        <State state={workflow.enabled ? "enabled" : "disabled"} />
      </td>
    </tr>
  );
}
