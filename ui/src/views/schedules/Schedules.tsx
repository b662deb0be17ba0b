/** Schedules of workflows, and of jobs scheduled with plain SQL: their last and next runs. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { api, page, type Schemas } from "../../api/client";
import { useLive } from "../../api/live";
import { Empty, Found } from "../../parts/Feedback";
import { ListHead } from "../../parts/ListHead";
import { State } from "../../parts/State";
import { ActionsHead, More, Table } from "../../parts/Table";
import { Ago } from "../../parts/Time";
import { Actions } from "./Actions";
import { OfSql } from "./OfSql";

export type Schedule = Schemas["Schedule"];

export default function Schedules() {
  useLive("/api/v1/stream?kind=run&kind=job", [["schedules"]], undefined, 2000);
  const schedules = useInfiniteQuery({
    queryKey: ["schedules", "list"],
    initialPageParam: "",
    queryFn: ({ pageParam }) => page(api.GET("/api/v1/schedules", { params: { query: { limit: 100, after: pageParam } } })),
    getNextPageParam: (last) => last.next ?? undefined,
  });
  const rows = schedules.data?.pages.flatMap((each) => each.rows) ?? [];
  return (
    <section className="view">
      <ListHead title="Schedules" command="windlass schedules list" url={`${location.origin}/api/v1/schedules`} />
      <Found query={schedules}>
        {() =>
          rows.length === 0 ? (
            <Empty title="No schedules" commands={['trigger: { cron: "0 6 * * *", timezone: Europe/Berlin }']}>
              Add a cron trigger to a workflow to run it on a schedule, for example under <Link href="/workflows/+/edit">New workflow</Link>:
            </Empty>
          ) : (
            <Table
              label="Schedules"
              head={
                <>
                  <th>Starts</th>
                  <th>Cron</th>
                  <th>Next</th>
                  <th>Last</th>
                  <th className="wide-only">Overlap</th>
                  <th>State</th>
                  <ActionsHead />
                </>
              }
            >
              {rows.map((schedule) => (
                <Row key={schedule.id} schedule={schedule} />
              ))}
            </Table>
          )
        }
      </Found>
      <More query={schedules} />
    </section>
  );
}

function Row({ schedule }: { schedule: Schedule }) {
  const ofRun = schedule.starts === "run";
  return (
    <tr>
      <td>
        {ofRun ? (
          <Link href={`/schedules/${schedule.name}`}>
            <strong>{schedule.name}</strong>
          </Link>
        ) : (
          <code>{schedule.name}</code>
        )}
        <div className="dim">{ofRun ? "a run" : "a job"}</div>
      </td>
      <td>
        <code>{schedule.cron}</code>
        <div className="dim">{schedule.timezone}</div>
      </td>
      <td>
        <Ago when={schedule.next_run_at} />
      </td>
      <td>
        {schedule.last_run_id ? (
          <Link href={`/runs/${schedule.last_run_id}`}>
            <Ago when={schedule.last_run_at} />
          </Link>
        ) : (
          <Ago when={schedule.last_run_at} />
        )}
      </td>
      <td className="wide-only">{schedule.overlap ?? <span className="dim">–</span>}</td>
      <td>
        <State state={stateOf(schedule)} />
        {schedule.paused_reason && <div className="dim clip clipped">{schedule.paused_reason}</div>}
      </td>
      <td>{ofRun ? <Actions schedule={schedule} /> : <OfSql schedule={schedule} />}</td>
    </tr>
  );
}

export function stateOf(schedule: Pick<Schedule, "paused" | "enabled">): string {
  return schedule.paused ? "paused" : schedule.enabled ? "enabled" : "disabled";
}
