/** Pause a schedule with a reason, resume it, run it now, backfill it. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";
import { api, data } from "../../api/client";
import { Allowed } from "../../parts/Allowed";
import { Confirm } from "../../parts/Confirm";
import { Copy } from "../../parts/Copy";
import { Dialog } from "../../parts/Dialog";
import { Trouble } from "../../parts/Feedback";
import { Menu } from "../../parts/Menu";
import { Backfill } from "./Backfill";
import type { Schedule } from "./Schedules";

export function Actions({ schedule }: { schedule: Schedule }) {
  const client = useQueryClient();
  const [, go] = useLocation();
  const [open, setOpen] = useState<"pause" | "run" | "backfill" | null>(null);
  const [reason, setReason] = useState("");
  const name = schedule.name;
  const path = { params: { path: { ref: name } } };
  const fresh = () => {
    void client.invalidateQueries({ queryKey: ["schedules"] });
    void client.invalidateQueries({ queryKey: ["workflows", "one", name] });
  };
  const close = () => setOpen(null);
  const resume = useMutation({ mutationFn: () => data(api.POST("/api/v1/schedules/{ref}/resume", path)), onSuccess: fresh });
  const url = `${location.origin}/api/v1/schedules/${name}`;
  const post = `curl -X POST -H 'content-type: application/json' -d '{}'`;
  const verb = schedule.paused ? "resume" : "pause";
  return (
    <div className="actions row-actions">
      <Allowed scope="operate">
        {schedule.paused ? (
          <button type="button" className="primary" disabled={resume.isPending} onClick={() => resume.mutate()}>
            Resume
          </button>
        ) : (
          <button type="button" onClick={() => setOpen("pause")}>
            Pause…
          </button>
        )}
      </Allowed>
      <Allowed scope="start">
        <button type="button" onClick={() => setOpen("run")}>
          Run now…
        </button>
        <button type="button" onClick={() => setOpen("backfill")}>
          Backfill…
        </button>
      </Allowed>
      <Menu label="Copy">
        <Copy text={`windlass schedules ${verb} ${name}`}>Command to {verb} it</Copy>
        <Copy text={`${post} ${url}/${verb}`}>curl command to {verb} it</Copy>
        <Copy text={`windlass schedules run ${name}`}>Command to run it now</Copy>
        <Copy text={`curl -X POST ${url}/run`}>curl command to run it now</Copy>
        <Copy text={`windlass schedules preview ${name}`}>Command to preview it</Copy>
      </Menu>
      {resume.error && (
        <Dialog title="The schedule was not resumed" onClose={() => resume.reset()}>
          <Trouble error={resume.error} />
        </Dialog>
      )}
      {open === "pause" && (
        <Confirm
          title={`Pause ${name}`}
          verb="Pause the schedule"
          act={() => data(api.POST("/api/v1/schedules/{ref}/pause", { ...path, body: reason.trim() ? { reason: reason.trim() } : {} }))}
          onDone={fresh}
          onClose={close}
        >
          <p>No run is started until the schedule is resumed; active runs continue. Ticks missed during the pause are not caught up automatically, but can be backfilled.</p>
          <label className="field">
            Reason <input type="text" maxLength={1000} value={reason} placeholder="optional" onChange={(event) => setReason(event.target.value)} />
          </label>
        </Confirm>
      )}
      {open === "run" && (
        <Confirm
          title={`Run ${name} now`}
          verb="Start a run"
          act={async () => go(`/runs/${(await data(api.POST("/api/v1/schedules/{ref}/run", path))).run_id}`)}
          onDone={fresh}
          onClose={close}
        >
          <p>Starts a run with the schedule's input, even if another run is active. The schedule itself does not change.</p>
        </Confirm>
      )}
      {open === "backfill" && <Backfill name={name} onDone={fresh} onClose={close} />}
    </div>
  );
}
