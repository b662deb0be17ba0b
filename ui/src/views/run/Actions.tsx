/** Pause, resume, cancel, retry, rerun from a task with another input, start a copy. */
import { useState } from "react";
import { Link } from "wouter";
import { api, data, type RunDetail } from "../../api/client";
import { Allowed } from "../../parts/Allowed";
import { Dialog } from "../../parts/Dialog";
import { Trouble } from "../../parts/Feedback";
import { LIVE } from "./queries";
import { Rerun } from "./Rerun";
import { useSteer } from "./steer";

export function Actions({ run }: { run: RunDetail }) {
  const [open, setOpen] = useState<"cancel" | "rerun" | null>(null);
  const retry = useSteer(run.id, () => data(api.POST("/api/v1/runs/{run_id}/retry", { params: { path: { run_id: run.id } } })));
  const path = { params: { path: { run_id: run.id } } };
  const pause = useSteer(run.id, () => data(run.paused_at ? api.POST("/api/v1/runs/{run_id}/resume", path) : api.POST("/api/v1/runs/{run_id}/pause", { ...path, body: {} })));
  const steering = retry.error ? { title: "The retry failed", ...retry } : pause.error ? { title: "The run was not changed", ...pause } : null;
  const close = () => setOpen(null);
  const bad = run.status === "failed" || run.status === "timeout";
  return (
    <>
      <Allowed scope="operate">
        {LIVE.has(run.status) && (
          <button type="button" disabled={pause.isPending} onClick={() => pause.mutate()} title={run.paused_at ? "Its jobs become due at their previous times." : "No more jobs start. Running jobs finish, and timers continue."}>
            {run.paused_at ? "Resume" : "Pause"}
          </button>
        )}
        {LIVE.has(run.status) && (
          <button type="button" className="danger" onClick={() => setOpen("cancel")}>
            Cancel…
          </button>
        )}
        {bad && (
          <button type="button" className="primary" disabled={retry.isPending} onClick={() => retry.mutate()}>
            Retry
          </button>
        )}
        {!LIVE.has(run.status) && run.status !== "cancelled" && (
          <button type="button" onClick={() => setOpen("rerun")}>
            Rerun…
          </button>
        )}
      </Allowed>
      <Allowed scope="start">
        <Link className="button" href={`/workflows/${run.workflow}/trigger?like=${run.id}`}>
          Start a copy
        </Link>
      </Allowed>
      {steering?.error && (
        <Dialog title={steering.title} onClose={() => steering.reset()}>
          <Trouble error={steering.error} />
        </Dialog>
      )}
      {open === "cancel" && <Cancel run={run} onClose={close} />}
      {open === "rerun" && <Rerun run={run} onClose={close} />}
    </>
  );
}

function Cancel({ run, onClose }: { run: RunDetail; onClose: () => void }) {
  const [reason, setReason] = useState("");
  const [compensate, setCompensate] = useState(false);
  const undoable = Object.values(run.tasks).some((task) => task.compensates);
  const body = { ...(reason.trim() ? { reason: reason.trim() } : {}), ...(compensate ? { compensate } : {}) };
  const cancel = useSteer(run.id, () => data(api.POST("/api/v1/runs/{run_id}/cancel", { params: { path: { run_id: run.id } }, body })), onClose);
  return (
    <Dialog title="Cancel this run" onClose={onClose}>
      <p>Waiting tasks are cancelled immediately, and workers that are running its tasks are requested to stop them. A cancelled run cannot be resumed.</p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          cancel.mutate();
        }}
      >
        <label className="field">
          Reason <input type="text" value={reason} placeholder="optional" onChange={(event) => setReason(event.target.value)} />
        </label>
        {undoable && (
          <label className="check">
            <input type="checkbox" checked={compensate} onChange={(event) => setCompensate(event.target.checked)} /> Undo the tasks that succeeded
          </label>
        )}
        {cancel.error && <Trouble error={cancel.error} />}
        <div className="actions">
          <button type="button" onClick={onClose}>
            Keep it running
          </button>
          <button type="submit" className="danger" disabled={cancel.isPending}>
            Cancel the run
          </button>
        </div>
      </form>
    </Dialog>
  );
}
