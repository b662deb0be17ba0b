/** Descriptions of roles, states of keys, limits and audit filters. */
import type { Schemas } from "../../api/client";
import { quoted } from "../../parts/words";

export type Role = Schemas["Role"];

export const MEANINGS: Record<Role, string> = {
  viewer: "sees everything but secrets",
  operator: "also starts runs and jobs, cancels, retries, pauses",
  developer: "also deploys workflows and runs workers",
  admin: "also manages keys, members and secrets",
};

export function stateOfKey(key: Pick<Schemas["Key"], "revoked_at" | "expires_at">, now: number): "valid" | "expired" | "revoked" {
  if (key.revoked_at) return "revoked";
  return key.expires_at && Date.parse(key.expires_at) <= now ? "expired" : "valid";
}

/** Return a command with the option that selects the org. */
export function ofOrg(command: string, org: string): string {
  return org === "default" ? command : `${command} --org ${quoted(org)}`;
}

export const FILTERS = ["actor", "action", "object"] as const;
export type Filters = Record<(typeof FILTERS)[number], string>;

export function readFilters(params: URLSearchParams): Filters {
  return Object.fromEntries(FILTERS.map((name) => [name, params.get(name) ?? ""])) as Filters;
}

/** Return the filters that are set, for the URL and for the API. */
export function setFilters(filters: Filters): Partial<Filters> {
  return Object.fromEntries(FILTERS.flatMap((name) => (filters[name].trim() ? [[name, filters[name].trim()]] : [])));
}

export const LIMITS = [
  { name: "executions_per_month", title: "Executions a month" },
  { name: "executions_at_once", title: "Concurrent executions" },
  { name: "runs_at_once", title: "Concurrent runs" },
  { name: "workflows", title: "Workflows" },
  { name: "steps_per_workflow", title: "Tasks per workflow" },
] as const;
export type LimitName = (typeof LIMITS)[number]["name"];

/** Parse a limit: null (no limit) if the text is empty, undefined if it is not a number. */
export function typedLimit(text: string): number | null | undefined {
  const plain = text.replaceAll(/[\s,]/g, "");
  if (plain === "") return null;
  const value = Number(plain);
  return /^\d+$/.test(plain) && Number.isSafeInteger(value) ? value : undefined;
}
