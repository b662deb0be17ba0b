/** The filters of the job list: kept in the URL, converted to API parameters and to a command. */
import { useCallback } from "react";
import { useSearchParams } from "wouter";
import { isId, quoted } from "../../parts/words";

export interface Filters {
  status: string[];
  type: string;
  queue: string;
  tag: string;
  run: string;
}

export const STATES = ["pending", "leased", "succeeded", "failed", "cancelled"] as const;
const NAMES = ["type", "queue", "tag", "run"] as const;
export const NONE: Filters = { status: [], type: "", queue: "", tag: "", run: "" };

export function read(from: URLSearchParams): Filters {
  const named = Object.fromEntries(NAMES.map((name) => [name, from.get(name) ?? ""]));
  return { ...NONE, ...named, status: from.getAll("status") };
}

export function write(filters: Filters): URLSearchParams {
  const to = new URLSearchParams(filters.status.map((state) => ["status", state]));
  for (const name of NAMES) if (filters[name]) to.set(name, filters[name]);
  return to;
}

/** Return the filters as query parameters of the API. */
export function query(filters: Filters) {
  const { status, type, queue, tag, run } = filters;
  return {
    ...(status.length ? { status } : {}),
    ...(type ? { type: pattern(type) } : {}),
    ...(queue ? { queue } : {}),
    ...(tag ? { tag } : {}),
    ...(isId(run) ? { run } : {}),
  };
}

/** Return a pattern for a type. Text without % matches any part of a type. */
export function pattern(type: string): string {
  return type.includes("%") ? type : `%${exactly(type)}%`;
}

/** Return a pattern that matches exactly this text. */
export function exactly(text: string): string {
  return text.replaceAll(/[\\%_]/g, "\\$&");
}

/** Return the filters as a `windlass jobs list` command. */
export function command(filters: Filters): string {
  const words = ["windlass jobs list", ...filters.status.map((state) => `--status ${state}`)];
  if (filters.type) words.push(`--type ${quoted(pattern(filters.type))}`);
  if (filters.queue) words.push(`--queue ${quoted(filters.queue)}`);
  if (filters.tag) words.push(`--tag ${quoted(filters.tag)}`);
  return words.join(" ");
}

/** Return the filters as a URL of the API. */
export function address(filters: Filters): string {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query(filters))) for (const each of [value].flat()) asked.append(name, each);
  return `${location.origin}/api/v1/jobs${asked.size ? `?${asked}` : ""}`;
}

export function useFilters(): [Filters, (change: Partial<Filters>) => void] {
  const [params, setParams] = useSearchParams();
  const change = useCallback(
    (part: Partial<Filters>) => setParams(write({ ...read(new URLSearchParams(location.search)), ...part }), { replace: true }),
    [setParams],
  );
  return [read(params), change];
}
