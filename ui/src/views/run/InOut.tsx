/** The input and output of a run. */
import { useQuery } from "@tanstack/react-query";
import { api, data, type RunDetail } from "../../api/client";
import { Found } from "../../parts/Feedback";
import { Json } from "../../parts/Json";
import { LIVE } from "./queries";

export function InOut({ run }: { run: RunDetail }) {
  const ended = !LIVE.has(run.status);
  const output = useQuery({
    queryKey: ["run", run.id, "output", run.finished_at],
    enabled: ended,
    queryFn: () => data(api.GET("/api/v1/runs/{run_id}/output", { params: { path: { run_id: run.id } } })),
  });
  return (
    <div className="two">
      <section>
        <h2>Input</h2>
        <Json value={run.input} label="input" />
      </section>
      <section>
        <h2>Output</h2>
        {ended ? <Found query={output}>{(value) => <Json value={value ?? null} label="output" />}</Found> : <p className="dim">Available when the run has ended.</p>}
      </section>
    </div>
  );
}
