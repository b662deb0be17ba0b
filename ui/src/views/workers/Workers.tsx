/** Workers: their state, last heartbeat and slots. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { api, page } from "../../api/client";
import { useLive } from "../../api/live";
import { Copy } from "../../parts/Copy";
import { Empty, Found } from "../../parts/Feedback";
import { Menu } from "../../parts/Menu";
import { State } from "../../parts/State";
import { Ago, Grown } from "../../parts/Time";
import { plural } from "../../parts/words";
import { Slots, stateOf } from "./Slots";

export const AGAIN = 5000; // no stream announces heartbeats

export default function Workers() {
  useLive("/api/v1/stream?kind=job&kind=task", [["workers"]], undefined, 1000);
  const workers = useQuery({ queryKey: ["workers"], queryFn: () => page(api.GET("/api/v1/workers")), refetchInterval: AGAIN });
  return (
    <section className="view">
      <div className="view-head">
        <h1>Workers</h1>
        <div className="actions">
          <Menu label="Copy">
            <Copy text={location.href}>Link to this list</Copy>
            <Copy text="windlass workers">Command</Copy>
            <Copy text={`curl '${location.origin}/api/v1/workers'`}>curl command</Copy>
          </Menu>
        </div>
      </div>
      <Found query={workers}>
        {({ rows }) =>
          rows.length === 0 ? (
            <Empty title="No workers" commands={["windlass worker MODULE:APP"]}>
              A worker claims jobs from queues and runs their handlers. Start as many as you like, on any machine that can reach the database:
            </Empty>
          ) : (
            <div className="table" tabIndex={0} role="region" aria-label="Workers">
              <table>
                <thead>
                  <tr>
                    <th>State</th>
                    <th>Worker</th>
                    <th>Slots</th>
                    <th>Last heartbeat</th>
                    <th>Queues</th>
                    <th className="wide-only">Types</th>
                    <th>Started</th>
                  </tr>
                </thead>
                <tbody>
                  {rows.map((worker) => (
                    <tr key={worker.id}>
                      <td>
                        <State state={stateOf(worker)} />
                      </td>
                      <td>
                        <Link href={`/workers/${encodeURIComponent(worker.id)}`}>{worker.id}</Link>
                      </td>
                      <td>
                        <Slots active={worker.active} slots={worker.slots} />
                      </td>
                      <td>
                        <Grown seconds={worker.seen_seconds_ago} since={workers.dataUpdatedAt} /> ago
                      </td>
                      <td>{worker.queues.join(", ")}</td>
                      <td className="wide-only" title={worker.types.join(", ")}>
                        {worker.types.length === 0 ? "any" : plural(worker.types.length, "type")}
                      </td>
                      <td>
                        <Ago when={worker.started_at} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Found>
    </section>
  );
}
