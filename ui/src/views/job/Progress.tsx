/** The progress that a handler reported. */
import type { Schemas } from "../../api/client";
import { Ago } from "../../parts/Time";
import { percent } from "../../parts/words";

export function Progress({ progress }: { progress: Schemas["JobProgress"] }) {
  return (
    <div className="progress">
      <progress max={1} value={progress.fraction} aria-label="progress" />
      <strong className="num">{percent(progress.fraction)}</strong>
      {progress.message && <span>{progress.message}</span>}
      <span className="dim">
        <Ago when={progress.at} />
      </span>
    </div>
  );
}
