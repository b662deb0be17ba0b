/** Workers: their state, last heartbeat and slots. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { api, page } from "../../api/client";
import { useLive } from "../../api/live";
import { Empty, Found } from "../../parts/Feedback";
import { ListHead } from "../../parts/ListHead";
import { State } from "../../parts/State";
import { Table } from "../../parts/Table";
import { Ago, Grown } from "../../parts/Time";
import { plural } from "../../parts/words";
import { Slots, stateOf } from "./Slots";

export const AGAIN = 5000; // no stream announces heartbeats

export default function Workers() {
  useLive("/api/v1/stream?kind=job&kind=task", [["workers"]], undefined, 1000);
  const workers = useQuery({ queryKey: ["workers"], queryFn: () => page(api.GET("/api/v1/workers")), refetchInterval: AGAIN });
  return (
    <section className="view">
      <ListHead title="Workers" command="windlass workers" url={`${location.origin}/api/v1/workers`} />
      <Found query={workers}>
        {({ rows }) =>
          rows.length === 0 ? (
            <Empty title="No workers" commands={["windlass worker MODULE:APP"]}>
              A worker claims jobs from queues and runs their handlers. Start as many as you like, on any machine that can reach the database:
            </Empty>
          ) : (
            <Table
              label="Workers"
              head={
                <>
                  <th>State</th>
                  <th>Worker</th>
                  <th>Slots</th>
                  <th>Last heartbeat</th>
                  <th>Queues</th>
                  <th className="wide-only">Types</th>
                  <th>Started</th>
                </>
              }
            >
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
            </Table>
          )
        }
      </Found>
    </section>
  );
}
