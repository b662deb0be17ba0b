/** The header of a run: name, state, facts and actions. */
import { Link } from "wouter";
import type { RunDetail } from "../../api/client";
import { Copy } from "../../parts/Copy";
import { Menu } from "../../parts/Menu";
import { look, State } from "../../parts/State";
import { Ago, Took } from "../../parts/Time";
import { exact } from "../../parts/words";
import { Actions } from "./Actions";
import type { Picked } from "./queries";

export function Header({ run, picked, onPick }: { run: RunDetail; picked: Picked | null; onPick: (attempt: string | null) => void }) {
  const curl = `curl ${location.origin}/api/v1/runs/${run.id}`;
  const children = Object.entries(run.tasks).filter(([, task]) => task.child_run_id);
  return (
    <header className="run-head">
      <div className="view-head">
        <h1>
          <Link href={`/workflows/${run.workflow}`}>{run.workflow}</Link> <span className="dim">v{run.version}</span>
        </h1>
        <State state={run.status} />
        <div className="actions">
          <Menu label="Copy">
            <Copy text={run.id}>Id</Copy>
            <Copy text={location.href}>Link</Copy>
            <Copy text={`windlass runs show ${run.id}`}>Command</Copy>
            <Copy text={`windlass explain ${run.id}`}>Command to explain it</Copy>
            <Copy text={curl}>curl command</Copy>
          </Menu>
          <Actions run={run} />
        </div>
      </div>
      <dl className="facts">
        <Fact name="Run">
          <span className="mono">{run.id}</span> <Copy text={run.id} label="Copy the id" />
        </Fact>
        <Fact name="Started">
          <Ago when={run.started_at ?? run.inserted_at} />
        </Fact>
        <Fact name="Duration">
          <Took from={run.started_at} to={run.finished_at} />
        </Fact>
        <Fact name="Trigger">
          <Origin run={run} />
        </Fact>
        {run.attempts.length > 1 && (
          <Fact name="Attempt">
            <select aria-label="Attempt" value={picked?.number ?? ""} onChange={(event) => onPick(event.target.value || null)}>
              <option value="">all {run.attempts.length}</option>
              {run.attempts.map((each) => (
                <option key={each.attempt} value={each.attempt}>
                  {each.attempt}: {look(each.status).word}
                </option>
              ))}
            </select>
          </Fact>
        )}
        {children.map(([name, task]) => (
          <Fact key={name} name="Child run">
            <Link href={`/runs/${task.child_run_id}`}>{name}</Link>
          </Fact>
        ))}
        {Object.entries(run.labels).map(([key, value]) => (
          <Fact key={key} name={key}>
            <Link href={`/runs?label=${encodeURIComponent(`${key}=${value}`)}`}>{value}</Link>
          </Fact>
        ))}
        {run.paused_at && (
          <Fact name="Paused">
            <Ago when={run.paused_at} />
          </Fact>
        )}
        {run.reason && <Fact name={run.is_undone ? "Being undone" : "Reason"}>{run.reason}</Fact>}
      </dl>
    </header>
  );
}

/** What started the run. */
function Origin({ run }: { run: RunDetail }) {
  const { kind, scheduled_for: tick, parent_id: parent } = run.trigger;
  if (parent) return <Link href={`/runs/${parent}`}>parent run</Link>;
  if (tick)
    return (
      <>
        <Link href={`/schedules/${run.workflow}`}>cron</Link>, for <time dateTime={tick}>{exact(tick)}</time>
      </>
    );
  return { api: "API", webhook: "webhook", ojs: "Open Job Spec" }[kind as string] ?? kind;
}

function Fact({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
