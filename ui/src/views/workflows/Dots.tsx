/** The last runs of a workflow, the newest on the right, each a link. */
import { Link } from "wouter";
import { look, StateIcon } from "../../parts/State";

const SHOWN = 12;

export function Dots({ runs }: { runs: { id: string; status: string }[] }) {
  if (runs.length === 0) return <span className="dim">no runs</span>;
  return (
    <span className="dots">
      {runs
        .slice(0, SHOWN)
        .reverse()
        .map((run) => (
          <Link key={run.id} href={`/runs/${run.id}`} title={look(run.status).word} aria-label={`run ${run.id.slice(-8)}: ${look(run.status).word}`}>
            <StateIcon state={run.status} />
          </Link>
        ))}
    </span>
  );
}
