/** Cancel or retry a job. A job that is a task is retried with its run. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { api, data } from "../../api/client";
import { useMay } from "../../api/session";
import { Confirm } from "../../parts/Confirm";
import { UNDER_WAY, type JobDetail } from "./queries";

export function Actions({ job }: { job: JobDetail }) {
  const client = useQueryClient();
  const [open, setOpen] = useState<"cancel" | "retry" | null>(null);
  const [reason, setReason] = useState("");
  const path = { params: { path: { job_id: job.id } } };
  const asked = { onDone: () => void client.invalidateQueries({ queryKey: ["job", job.id] }), onClose: () => setOpen(null) };
  const ended = job.status === "failed" || job.status === "cancelled";
  if (!useMay("operate")) return null;
  return (
    <>
      {UNDER_WAY.has(job.status) && (
        <button type="button" className="danger" onClick={() => setOpen("cancel")}>
          Cancel…
        </button>
      )}
      {ended && !job.run_id && (
        <button type="button" className="primary" onClick={() => setOpen("retry")}>
          Retry…
        </button>
      )}
      {ended && job.run_id && (
        <Link className="button" href={`/runs/${job.run_id}`}>
          Retry with its run
        </Link>
      )}
      {open === "cancel" && (
        <Confirm
          title="Cancel this job"
          verb="Cancel the job"
          keep="Keep the job"
          danger
          act={() => data(api.POST("/api/v1/jobs/{job_id}/cancel", { ...path, body: reason.trim() ? { reason: reason.trim() } : {} }))}
          {...asked}
        >
          <p>The job is cancelled immediately. If a worker is running it, that worker is requested to stop it.</p>
          <label className="field">
            Reason <input type="text" value={reason} placeholder="optional" onChange={(event) => setReason(event.target.value)} />
          </label>
        </Confirm>
      )}
      {open === "retry" && (
        <Confirm title="Retry this job" verb="Retry the job" act={() => data(api.POST("/api/v1/jobs/{job_id}/retry", path))} {...asked}>
          <p>It runs again with the same payload, and its attempt count is reset.</p>
        </Confirm>
      )}
    </>
  );
}
