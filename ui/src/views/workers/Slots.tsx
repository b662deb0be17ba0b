/** The state of a worker, and how many of its slots are in use, as a bar and in numbers. */
import type { Schemas } from "../../api/client";
import { count } from "../../parts/words";

export function Slots({ active, slots }: { active: number; slots: number }) {
  return (
    <span className="counts">
      <span className="bar" role="img" aria-label={`${active} of ${slots} slots in use`}>
        {active > 0 && <i className="tone-busy" style={{ width: `${Math.min(100, (100 * active) / slots)}%`, minWidth: 4 }} />}
      </span>
      <span className="num dim">
        {count(active)}/{count(slots)}
      </span>
    </span>
  );
}

/** A running worker is shown as "up", so that it does not look busy. */
export function stateOf(worker: Pick<Schemas["Worker"], "status">): string {
  return worker.status === "running" ? "up" : worker.status;
}
