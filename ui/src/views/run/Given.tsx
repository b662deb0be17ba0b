/** The input of the job of a task. */
import { useQuery } from "@tanstack/react-query";
import { api, data } from "../../api/client";
import { Copy } from "../../parts/Copy";
import { Found } from "../../parts/Feedback";
import { Json } from "../../parts/Json";

export function Given({ id }: { id: string }) {
  const job = useQuery({
    queryKey: ["job", id, "payload"],
    staleTime: 60_000,
    queryFn: () => data(api.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } } })),
  });
  return (
    <section>
      <h3>Input</h3>
      <Found query={job}>{(found) => <Json value={found.payload} label="input" />}</Found>
      <p className="dim">
        job <span className="mono">{id}</span> <Copy text={id} label="Copy the id of the job" />
      </p>
    </section>
  );
}
