/** A group of dead letters as a URL, as API parameters and as a command. */
import type { Schemas } from "../../api/client";
import { quoted } from "../../parts/words";
import { exactly } from "../jobs/filters";

export type Group = Schemas["DeadLetterGroup"];
export type Named = Pick<Group, "type" | "queue" | "error" | "of_runs">;

export function path(group: Named): string {
  const { type, queue, error, of_runs } = group;
  return `/dead-letters?${new URLSearchParams({ type, queue, error, of_runs: String(of_runs) })}`;
}

export function read(from: URLSearchParams): Named | null {
  const [type, queue, error] = [from.get("type"), from.get("queue"), from.get("error")];
  if (type === null || queue === null || error === null) return null;
  return { type, queue, error, of_runs: from.get("of_runs") === "true" };
}

/** Return the API parameters of a group. The type is escaped, because the server expects a pattern. */
export function which({ type, queue, error, of_runs }: Named) {
  return { type: exactly(type), queue, error, of_runs };
}

export function command(group: Named, act: string): string {
  return `windlass dead-letters ${act} --type ${quoted(exactly(group.type))} --queue ${quoted(group.queue)} --error ${quoted(group.error)}`;
}

export function curl(group: Named, act: string): string {
  return `curl -X POST -H 'content-type: application/json' -d ${quoted(JSON.stringify(which(group)))} ${location.origin}/api/v1/dead-letters/${act}`;
}
