/** Quarantined items (processing failed with an unexpected error) and the paths of their pages. */
import { useQuery } from "@tanstack/react-query";
import { api, page, type Schemas } from "../../api/client";

export type Quarantined = Schemas["Quarantined"];

const OFTEN = 3_000; // entries are retried automatically and then disappear
const SELDOM = 15_000; // no stream announces new entries
export const MOST = 1000; // the server lists no more

export function useQuarantine({ watched = false }: { watched?: boolean } = {}) {
  return useQuery({
    queryKey: ["quarantine"],
    queryFn: () => page(api.GET("/api/v1/quarantine")),
    refetchInterval: ({ state }) => (watched && state.data?.rows.length ? OFTEN : SELDOM),
  });
}

/** Query the names of workflow schedules by id; only if an entry is about a schedule. */
export function useScheduleNames(entries: Quarantined[]): Map<string, string> {
  const schedules = useQuery({
    queryKey: ["schedules", "names"],
    enabled: entries.some((entry) => entry.kind === "trigger"),
    queryFn: () => page(api.GET("/api/v1/schedules", { params: { query: { limit: 1000 } } })),
  });
  return new Map(schedules.data?.rows.filter((each) => each.starts === "run").map((each) => [each.id, each.name]));
}

/** Return the path of the page of a quarantined item, null if it has none. */
export function pageOf({ kind, key }: Quarantined, schedules: Map<string, string>): string | null {
  if (kind === "run" || kind === "job" || kind === "workflow") return `/${kind}s/${encodeURIComponent(key)}`;
  if (kind === "trigger") return schedules.has(key) ? `/schedules/${encodeURIComponent(schedules.get(key)!)}` : "/schedules";
  return kind === "schedule" ? "/schedules" : null;
}
