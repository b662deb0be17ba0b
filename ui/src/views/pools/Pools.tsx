/** Pools, which execute the tasks with `runs_on`: their state and their running and waiting jobs. */
import { useQuery } from "@tanstack/react-query";
import { api, page } from "../../api/client";
import { useLive } from "../../api/live";
import { Empty, Found } from "../../parts/Feedback";
import { ListHead } from "../../parts/ListHead";
import { State } from "../../parts/State";
import { Table } from "../../parts/Table";
import { Ago } from "../../parts/Time";
import { count } from "../../parts/words";
import { Slots } from "../workers/Slots";
import { AGAIN } from "../workers/Workers";

export default function Pools() {
  useLive("/api/v1/stream?kind=job&kind=task", [["pools"]], undefined, 1000);
  const pools = useQuery({ queryKey: ["pools"], queryFn: () => page(api.GET("/api/v1/pools")), refetchInterval: AGAIN });
  return (
    <section className="view">
      <ListHead title="Pools" command="windlass pools list" url={`${location.origin}/api/v1/pools`} />
      <Found query={pools}>
        {({ rows }) =>
          rows.length === 0 ? (
            <Empty title="No pools" commands={["windlass worker --allow-commands"]}>
              A task with <code>runs_on</code> runs as a job of a pool: a separate process on this machine, on Kubernetes, Ray or Dask. A pool exists once a worker that is configured with it has started:
            </Empty>
          ) : (
            <Table
              label="Pools"
              head={
                <>
                  <th>State</th>
                  <th>Pool</th>
                  <th>Launcher</th>
                  <th>Running</th>
                  <th>Waiting</th>
                  <th>Last seen</th>
                  <th>Problem</th>
                </>
              }
            >
              {rows.map((pool) => (
                <tr key={pool.name}>
                  <td>
                    <State state={pool.alive ? (pool.problem ? "failed" : "up") : "silent"} />
                  </td>
                  <td title={pool.image ?? undefined}>{pool.name}</td>
                  <td>{pool.launcher}</td>
                  <td>
                    <Slots active={pool.running} slots={pool.max_parallel} />
                  </td>
                  <td className="num">{count(pool.waiting)}</td>
                  <td>
                    <Ago when={pool.seen_at} />
                  </td>
                  <td>
                    {pool.problem}
                    {pool.fix && <p className="dim">{pool.fix}</p>}
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
