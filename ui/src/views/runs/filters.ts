/** The filters of the run list: kept in the URL and in local storage, converted to API parameters and to a command. */
import { useCallback, useEffect } from "react";
import { useSearchParams } from "wouter";

export interface Filters {
  status: string[];
  workflow: string;
  label: string[];
  text: string;
  since: string; // a span such as 24h, or nothing
  retrying: boolean;
}

export const STATES = ["pending", "running", "completed", "failed", "cancelled", "timeout"] as const;
export const SPANS: Record<string, number> = { "15m": 900_000, "1h": 3_600_000, "24h": 86_400_000, "7d": 604_800_000, "30d": 2_592_000_000 };
const PLACE = "windlass.runs";

export function read(from: URLSearchParams): Filters {
  return {
    status: from.getAll("status"),
    workflow: from.get("workflow") ?? "",
    label: from.getAll("label"),
    text: from.get("text") ?? "",
    since: from.get("since") ?? "",
    retrying: from.get("retrying") === "true",
  };
}

export function write(filters: Filters): URLSearchParams {
  const to = new URLSearchParams();
  for (const state of filters.status) to.append("status", state);
  for (const label of filters.label) to.append("label", label);
  if (filters.workflow) to.set("workflow", filters.workflow);
  if (filters.text) to.set("text", filters.text);
  if (filters.since) to.set("since", filters.since);
  if (filters.retrying) to.set("retrying", "true");
  return to;
}

/** Return the filters as query parameters of the API. */
export function query(filters: Filters, now: number) {
  const span = SPANS[filters.since];
  return {
    ...(filters.status.length ? { status: filters.status } : {}),
    ...(filters.label.length ? { label: filters.label } : {}),
    ...(filters.workflow ? { workflow: filters.workflow } : {}),
    ...(filters.text ? { text: filters.text } : {}),
    ...(filters.retrying ? { retrying: true } : {}),
    ...(span ? { inserted_after: new Date(now - span).toISOString() } : {}),
  };
}

/** Return the filters as a body for bulk operations, which require an explicit `all` if there is no filter. */
export function which(filters: Filters, now: number) {
  const { label, ...asked } = query(filters, now);
  const labels = Object.fromEntries((label ?? []).map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]));
  const found = { ...asked, ...(label ? { labels } : {}) };
  return Object.keys(found).length ? found : { all: true };
}

/** Return the filters as a `windlass runs list` command. */
export function command(filters: Filters): string {
  const words = ["windlass runs list"];
  for (const state of filters.status) words.push(`--state ${state}`);
  if (filters.workflow) words.push(`--workflow ${filters.workflow}`);
  for (const label of filters.label) words.push(`--label ${label}`);
  return words.join(" ");
}

export function useFilters(): [Filters, (change: Partial<Filters>) => void] {
  const [params, setParams] = useSearchParams();
  const bare = params.size === 0;
  useEffect(() => {
    const kept = localStorage.getItem(PLACE);
    if (bare && kept) setParams(new URLSearchParams(kept), { replace: true });
    // only when the page is opened without filters, so that the last filter can be removed
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, []);
  const change = useCallback(
    (part: Partial<Filters>) => {
      const next = write({ ...read(new URLSearchParams(location.search)), ...part });
      localStorage.setItem(PLACE, next.toString());
      setParams(next, { replace: true });
    },
    [setParams],
  );
  return [read(params), change];
}
