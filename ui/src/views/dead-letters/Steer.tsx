/** Retries or drops a group, after counting and confirmation. Tasks are retried with their runs, and never dropped. */
import { useQueryClient } from "@tanstack/react-query";
import { api, data } from "../../api/client";
import { Allowed } from "../../parts/Allowed";
import { Batches, type Part } from "../../parts/Batches";
import { Copy } from "../../parts/Copy";
import { Menu } from "../../parts/Menu";
import { command, curl, which, type Named } from "./group";

export interface Plan {
  group: Named;
  act: "retry" | "drop";
}

export function Buttons({ group, ask }: { group: Named; ask: (plan: Plan) => void }) {
  return (
    <div className="actions row-actions">
      <Allowed scope="operate">
        <button type="button" onClick={() => ask({ group, act: "retry" })}>
          Retry…
        </button>
        {!group.of_runs && (
          <button type="button" className="danger" onClick={() => ask({ group, act: "drop" })}>
            Drop…
          </button>
        )}
      </Allowed>
      <Menu label="Copy">
        <Copy text={command(group, "retry")}>Command to retry them</Copy>
        <Copy text={curl(group, "retry")}>curl command to retry them</Copy>
        {!group.of_runs && <Copy text={command(group, "drop")}>Command to drop them</Copy>}
        {!group.of_runs && <Copy text={curl(group, "drop")}>curl command to drop them</Copy>}
      </Menu>
    </div>
  );
}

/** The dialog is part of the page, because the row may disappear while it is open. */
export function Steering({ plan, onClose }: { plan: Plan; onClose: () => void }) {
  const { group, act } = plan;
  const client = useQueryClient();
  const send = ({ before, ...part }: Part) => {
    const body = { ...which(group), ...part, ...(before ? { before: Number(before) } : {}) };
    return act === "drop" ? data(api.POST("/api/v1/dead-letters/drop", { body })) : data(api.POST("/api/v1/dead-letters/retry", { body }));
  };
  const words = act === "drop" ? { verb: "Drop", past: "dropped" } : { verb: "Retry", past: "retried" };
  return (
    <Batches
      title={`${words.verb} this group`}
      question={QUESTIONS[act === "drop" ? "drop" : group.of_runs ? "runs" : "retry"]}
      noun={group.of_runs ? "task" : "job"}
      {...words}
      danger={act === "drop"}
      send={send}
      then={() => void client.invalidateQueries({ queryKey: ["dead-letters"] })}
      onClose={onClose}
    />
  );
}

const QUESTIONS = {
  drop: "They are hidden and will never run:",
  retry: "They run again, and their attempt counts are reset:",
  runs: "Their runs are retried. Runs that are still active, or that handled the failure, are left as they are. Failed for this reason:",
};
