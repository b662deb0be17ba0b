/** A table of runs. */
import { Link } from "wouter";
import type { Run } from "../../api/client";
import { look, State } from "../../parts/State";
import { Ago, Took } from "../../parts/Time";
import { short } from "../../parts/words";

const ORDER = ["success", "running", "sleeping", "waiting", "failed", "timeout", "template_error", "cancelled", "skipped", "pending"];

export function RunTable({ runs, named = true }: { runs: Run[]; named?: boolean }) {
  return (
    <div className="table" tabIndex={0} role="region" aria-label="Runs">
      <table>
        <thead>
          <tr>
            <th>State</th>
            <th>Run</th>
            {named && <th>Workflow</th>}
            <th>Tasks</th>
            <th>Started</th>
            <th className="num">Duration</th>
            <th className="wide-only">Labels</th>
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <tr key={run.id}>
              <td>
                <State state={run.status} />
              </td>
              <td>
                <Link href={`/runs/${run.id}`} className="mono" title={run.id}>
                  {short(run.id)}
                </Link>
                {run.retried > 0 && <span className="tag">retried ×{run.retried}</span>}
                {run.parent_run_id && <span className="tag">child</span>}
              </td>
              {named && (
                <td>
                  <Link href={`/workflows/${run.workflow}`}>{run.workflow}</Link> <span className="dim">v{run.version}</span>
                </td>
              )}
              <td>
                <Counts counts={run.task_counts} />
              </td>
              <td>
                <Ago when={run.started_at ?? run.inserted_at} />
              </td>
              <td className="num">
                <Took from={run.started_at} to={run.finished_at} />
              </td>
              <td className="wide-only">
                {Object.entries(run.labels).map(([key, value]) => (
                  <Link key={key} href={`/runs?label=${encodeURIComponent(`${key}=${value}`)}`} className="tag">
                    {key}={value}
                  </Link>
                ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The states of the tasks as a bar, with a text for screen readers. */
export function Counts({ counts }: { counts: Record<string, number> }) {
  const parts = ORDER.filter((status) => counts[status]).map((status) => ({ status, n: counts[status]! }));
  const all = parts.reduce((sum, part) => sum + part.n, 0);
  const summary = parts.map((part) => `${part.n} ${look(part.status).word}`).join(", ");
  return (
    <span className="counts" title={summary}>
      <span className="bar" role="img" aria-label={summary}>
        {parts.map((part) => (
          <i key={part.status} className={`tone-${look(part.status).tone}`} style={{ width: `${(100 * part.n) / all}%` }} />
        ))}
      </span>
      <span className="num dim">
        {(all - (counts["pending"] ?? 0) - (counts["running"] ?? 0)).toLocaleString("en")}/{all.toLocaleString("en")}
      </span>
    </span>
  );
}
