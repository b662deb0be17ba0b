/** Cancel or retry every run that matches the filters. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../../api/client";
import { Batches, type Part } from "../../parts/Batches";
import { which, type Filters } from "./filters";

export function Bulk({ act, filters, onClose }: { act: "cancel" | "retry"; filters: Filters; onClose: () => void }) {
  const client = useQueryClient();
  const [now] = useState(() => Date.now());
  const send = (part: Part) => {
    const body = { ...which(filters, now), ...part };
    return act === "cancel" ? data(api.POST("/api/v1/runs/cancel", { body })) : data(api.POST("/api/v1/runs/retry", { body }));
  };
  const words = act === "cancel" ? { verb: "Cancel", past: "cancelled" } : { verb: "Retry", past: "retried" };
  return (
    <Batches
      title={`${words.verb} all matching runs`}
      question={act === "cancel" ? "Active runs that match the filters:" : "Failed and timed out runs that match the filters:"}
      noun="run"
      {...words}
      danger={act === "cancel"}
      send={send}
      then={() => void client.invalidateQueries({ queryKey: ["runs"] })}
      onClose={onClose}
    />
  );
}
