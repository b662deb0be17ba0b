/** Quarantined items: the reason, the time of the next retry, and a button to retry now. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "wouter";
import { api, data } from "../../api/client";
import { useLive } from "../../api/live";
import { Allowed } from "../../parts/Allowed";
import { Copy } from "../../parts/Copy";
import { Empty, Found, Trouble } from "../../parts/Feedback";
import { ListHead } from "../../parts/ListHead";
import { Menu } from "../../parts/Menu";
import { ActionsHead, Table } from "../../parts/Table";
import { Ago } from "../../parts/Time";
import { count, isId, quoted, short } from "../../parts/words";
import { MOST, pageOf, useQuarantine, useScheduleNames, type Quarantined } from "./queries";

const KINDS: Record<Quarantined["kind"], { word: string; title: string }> = {
  run: { word: "run", title: "Its events could not be applied" },
  workflow: { word: "workflow", title: "Its pending runs could not be started" },
  trigger: { word: "workflow schedule", title: "The schedule of a workflow could not be fired" },
  cron: { word: "OJS schedule", title: "A schedule of the Open Job Spec could not be fired" },
  schedule: { word: "SQL schedule", title: "A row of workflow.workflow_schedule could not be fired" },
  job: { word: "job", title: "It could not be claimed, or its outcome could not be recorded" },
  start: { word: "requested run", title: "A run requested with SQL or by an event could not be started" },
  event: { word: "event", title: "It could not be delivered to its subscribers" },
  message: { word: "message", title: "It could not be delivered to the runs and jobs that wait for it" },
  duty: { word: "maintenance task", title: "A maintenance task of the server failed" },
};

export default function Quarantine() {
  useLive("/api/v1/stream?kind=run", [], undefined); // only for the connection indicator: no stream announces entries
  const entries = useQuarantine({ watched: true });
  const schedules = useScheduleNames(entries.data?.rows ?? []);
  return (
    <section className="view">
      <ListHead title="Quarantine" command="windlass quarantine list" url={`${location.origin}/api/v1/quarantine`} />
      <Found query={entries}>
        {({ rows }) =>
          rows.length === 0 ? (
            <Empty title="The quarantine is empty" commands={["windlass quarantine list"]}>
              If processing a run, job or schedule fails with an unexpected error, it is put into quarantine, and everything else continues. It is listed here and retried automatically.
            </Empty>
          ) : (
            <>
              <p className="dim">Processing these items failed with an unexpected error. Everything else continues without them. Items with a next retry are retried automatically, with growing delays.</p>
              {entries.error && <Trouble error={entries.error} />}
              <Entries rows={rows} schedules={schedules} />
              {rows.length === MOST && <p className="dim">Only the latest {count(MOST)} are shown.</p>}
            </>
          )
        }
      </Found>
    </section>
  );
}

function Entries({ rows, schedules }: { rows: Quarantined[]; schedules: Map<string, string> }) {
  return (
    <Table
      label="Quarantine"
      head={
        <>
          <th>Kind</th>
          <th>Key</th>
          <th className="num wide-only">Failures</th>
          <th>Reason</th>
          <th className="wide-only">Last failure</th>
          <th>Next retry</th>
          <ActionsHead />
        </>
      }
    >
      {rows.map((entry) => (
        <Row key={`${entry.kind} ${entry.key}`} entry={entry} page={pageOf(entry, schedules)} name={schedules.get(entry.key)} />
      ))}
    </Table>
  );
}

function Row({ entry, page, name }: { entry: Quarantined; page: string | null; name: string | undefined }) {
  const client = useQueryClient();
  const { kind, key } = entry;
  const retry = useMutation({
    mutationFn: () => data(api.POST("/api/v1/quarantine/{kind}/{key}/retry", { params: { path: { kind, key } } })),
    onSettled: () => client.invalidateQueries({ queryKey: ["quarantine"] }),
  });
  const text = name ?? (isId(key) ? short(key) : key);
  const path = `${encodeURIComponent(kind)}/${encodeURIComponent(key)}`;
  return (
    <tr>
      <td className="nowrap" title={KINDS[kind].title}>
        {KINDS[kind].word}
      </td>
      <td className="long-name" title={key}>
        {page ? (
          <Link href={page} className="mono">
            {text}
          </Link>
        ) : (
          <code>{text}</code>
        )}
      </td>
      <td className="num wide-only">{count(entry.failures)}</td>
      <td className="clipped quarantine-reason">
        <code>{entry.error_type}</code>
        <div className="event-line">{entry.reason}</div>
        {retry.error && <Trouble error={retry.error} />}
      </td>
      <td className="wide-only">
        <Ago when={entry.last_at} />
      </td>
      <td>{entry.retry_at ? <Ago when={entry.retry_at} /> : <span title="Only reported: there is nothing to retry">never</span>}</td>
      <td>
        <div className="actions row-actions">
          {entry.retry_at && (
            <Allowed scope="operate">
              <button type="button" disabled={retry.isPending} onClick={() => retry.mutate()} aria-label={`Retry ${KINDS[kind].word} ${key}`}>
                Retry
              </button>
            </Allowed>
          )}
          <Menu label="Copy">
            <Copy text={key}>Key</Copy>
            {entry.retry_at && <Copy text={`windlass quarantine retry ${kind} ${quoted(key)}`}>Command to retry it</Copy>}
            {entry.retry_at && <Copy text={`curl -X POST '${location.origin}/api/v1/quarantine/${path}/retry'`}>curl command to retry it</Copy>}
          </Menu>
        </div>
      </td>
    </tr>
  );
}
