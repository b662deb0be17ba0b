/** Queues: their depth, the age of the oldest waiting job, their throughput; pause and resume. */
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "wouter";
import { api, data, page, type Schemas } from "../../api/client";
import { useLive } from "../../api/live";
import { Allowed } from "../../parts/Allowed";
import { Copy } from "../../parts/Copy";
import { Empty, Found, Trouble } from "../../parts/Feedback";
import { ListHead } from "../../parts/ListHead";
import { Menu } from "../../parts/Menu";
import { State } from "../../parts/State";
import { ActionsHead, More, Table } from "../../parts/Table";
import { Ago, Grown } from "../../parts/Time";
import { count, quoted } from "../../parts/words";

type Queue = Schemas["Queue"];

const AGAIN = 10_000; // rates fall without any event

export default function Queues() {
  useLive("/api/v1/stream?kind=job&kind=task", [["queues"]], undefined, 1000);
  const queues = useInfiniteQuery({
    queryKey: ["queues"],
    initialPageParam: "",
    queryFn: ({ pageParam }) => page(api.GET("/api/v1/queues", { params: { query: { limit: 100, after: pageParam } } })),
    getNextPageParam: (last) => last.next ?? undefined,
    refetchInterval: ({ state }) => (state.data?.pages.some((each) => each.rows.some((queue) => queue.ended_per_second > 0 || queue.scheduled > 0)) ? AGAIN : false),
  });
  const rows = queues.data?.pages.flatMap((each) => each.rows) ?? [];
  return (
    <section className="view">
      <ListHead title="Queues" command="windlass queues list" url={`${location.origin}/api/v1/queues`} />
      <Found query={queues}>
        {() =>
          rows.length === 0 ? (
            <Empty title="All queues are empty" commands={["windlass submit content.thumbnail.v1 '{\"id\": 7}' --queue default"]}>
              A queue exists as soon as a job is submitted to it; workers serve queues by name. Submit a job:
            </Empty>
          ) : (
            <Table
              label="Queues"
              head={
                <>
                  <th>Queue</th>
                  <th>State</th>
                  <th className="num">Due</th>
                  <th className="num">Running</th>
                  <th className="num">Scheduled</th>
                  <th className="num">Oldest waiting</th>
                  <th className="num">Finished / s</th>
                  <ActionsHead />
                </>
              }
            >
              {rows.map((queue) => (
                <Row key={queue.name} queue={queue} since={queues.dataUpdatedAt} />
              ))}
            </Table>
          )
        }
      </Found>
      <More query={queues} />
    </section>
  );
}

function Row({ queue, since }: { queue: Queue; since: number }) {
  const client = useQueryClient();
  const path = { params: { path: { name: queue.name } } };
  const turn = useMutation({
    mutationFn: () => (queue.paused ? data(api.POST("/api/v1/queues/{name}/resume", path)) : data(api.POST("/api/v1/queues/{name}/pause", path))),
    onSuccess: () => client.invalidateQueries({ queryKey: ["queues"] }),
  });
  const verb = queue.paused ? "resume" : "pause";
  return (
    <tr>
      <td>
        <Link href={`/jobs?queue=${encodeURIComponent(queue.name)}`}>
          <strong>{queue.name}</strong>
        </Link>
      </td>
      <td>
        <State state={queue.paused ? "paused" : "enabled"} />
        {queue.paused && (
          <span className="dim">
            {" "}
            <Ago when={queue.paused_at} />
          </span>
        )}
        {turn.error && <Trouble error={turn.error} />}
      </td>
      <td className="num">
        {count(queue.due)}
        {queue.capped && "+"}
      </td>
      <td className="num">{count(queue.leased)}</td>
      <td className="num">{count(queue.scheduled)}</td>
      <td className="num">
        <Grown seconds={queue.oldest_seconds} since={since} />
      </td>
      <td className="num">{rate(queue.ended_per_second)}</td>
      <td>
        <div className="actions row-actions">
          <Allowed scope="operate">
            <button type="button" disabled={turn.isPending} onClick={() => turn.mutate()} aria-label={`${verb} ${queue.name}`}>
              {queue.paused ? "Resume" : "Pause"}
            </button>
          </Allowed>
          <Menu label="Copy">
            <Copy text={`windlass queues ${verb} ${quoted(queue.name)}`}>Command to {verb} it</Copy>
            <Copy text={`curl -X POST ${location.origin}/api/v1/queues/${encodeURIComponent(queue.name)}/${verb}`}>curl command to {verb} it</Copy>
          </Menu>
        </div>
      </td>
    </tr>
  );
}

export function rate(perSecond: number): string {
  if (perSecond === 0) return "–";
  return perSecond < 0.1 ? "< 0.1" : perSecond < 100 ? perSecond.toFixed(1) : count(Math.round(perSecond));
}
