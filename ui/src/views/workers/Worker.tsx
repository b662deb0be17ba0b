/** One worker and the jobs it runs. */
import { useQuery } from "@tanstack/react-query";
import { api, data } from "../../api/client";
import { useLive } from "../../api/live";
import { Copy } from "../../parts/Copy";
import { Fact, Facts } from "../../parts/Facts";
import { Found } from "../../parts/Feedback";
import { Menu } from "../../parts/Menu";
import { State } from "../../parts/State";
import { Ago, Grown } from "../../parts/Time";
import { JobTable } from "../jobs/JobTable";
import { Slots, stateOf } from "./Slots";
import { AGAIN } from "./Workers";

export default function WorkerView({ params }: { params: Record<string, string | undefined> }) {
  const id = params["id"] ?? "";
  useLive("/api/v1/stream?kind=job&kind=task", [["workers", id]], undefined, 1000);
  const worker = useQuery({
    queryKey: ["workers", id],
    queryFn: () => data(api.GET("/api/v1/workers/{worker_id}", { params: { path: { worker_id: id } } })),
    refetchInterval: AGAIN,
  });
  return (
    <Found query={worker}>
      {(found) => (
        <section className="view">
          <div className="view-head">
            <h1 className="long-name">{found.id}</h1>
            <State state={stateOf(found)} />
            <div className="actions">
              <Menu label="Copy">
                <Copy text={found.id}>Id</Copy>
                <Copy text={location.href}>Link</Copy>
                <Copy text="windlass workers">Command</Copy>
                <Copy text={`curl ${location.origin}/api/v1/workers/${encodeURIComponent(found.id)}`}>curl command</Copy>
              </Menu>
            </div>
          </div>
          <Facts>
            <Fact name="Host">{found.host}</Fact>
            <Fact name="Process">{found.pid}</Fact>
            <Fact name="Slots">
              <Slots active={found.active} slots={found.slots} />
            </Fact>
            <Fact name="Last heartbeat">
              <Grown seconds={found.seen_seconds_ago} since={worker.dataUpdatedAt} /> ago
            </Fact>
            <Fact name="Started">
              <Ago when={found.started_at} />
            </Fact>
            <Fact name="Queues">{found.queues.join(", ")}</Fact>
            <Fact name="Types">{found.types.length === 0 ? "any" : found.types.join(", ")}</Fact>
          </Facts>
          {found.status === "silent" && <p className="reason">It stopped sending heartbeats without shutting down. Its jobs go to other workers when their leases expire.</p>}
          <h2>Running jobs</h2>
          {found.jobs.length === 0 ? <p className="dim">None.</p> : <JobTable jobs={found.jobs} />}
        </section>
      )}
    </Found>
  );
}
