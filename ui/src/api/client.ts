/** The API client. Its types come from the OpenAPI document; error responses become a `Problem`. */
import createClient from "openapi-fetch";
import { useSyncExternalStore } from "react";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];
export type Run = Schemas["Run"];
export type RunDetail = Schemas["RunDetail"];
export type Task = Schemas["Task"];
export type Graph = Schemas["Graph"];
export type Span = Schemas["Span"];
export type Attempt = Schemas["Attempt"];
export type RunState = Schemas["RunState"];
export type TaskStatus = Schemas["TaskStatus"];
export type Activity = Schemas["Activity"];

export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    detail: string,
    readonly errors: { field: string; message: string }[] = [],
  ) {
    super(detail);
  }
}

const KEY = "windlass.key";
const listeners = new Set<() => void>();
let refused = false; // the server answered 401

/** The API key, kept in this browser. */
export const key = {
  get: () => localStorage.getItem(KEY) ?? "",
  set(value: string) {
    localStorage.setItem(KEY, value);
    setRefused(false);
  },
};

/** Take the key from the fragment of a link that `windlass up --allow-commands` prints; browsers do not send fragments. */
export function keyFromLink(at: Location = location): void {
  const found = new URLSearchParams(at.hash.slice(1)).get("key");
  if (!found) return;
  key.set(found);
  history.replaceState(null, "", at.pathname + at.search);
}

export function useRefused(): boolean {
  return useSyncExternalStore(
    (listen) => (listeners.add(listen), () => listeners.delete(listen)),
    () => refused,
  );
}

function setRefused(value: boolean) {
  if (refused === value) return;
  refused = value;
  listeners.forEach((listen) => listen());
}

/** Headers of every request. */
export function credentials(): Record<string, string> {
  return key.get() ? { "x-api-key": key.get() } : {};
}

export const api = createClient<paths, "application/json">({ baseUrl: location.origin });
api.use({
  onRequest({ request }) {
    for (const [name, value] of Object.entries(credentials())) request.headers.set(name, value);
    return request;
  },
  async onResponse({ response }) {
    if (response.status === 401) setRefused(true);
    if (response.ok) return;
    throw await problem(response);
  },
  onError() {
    throw new Problem(0, "No response", "the server did not respond; check that it is running");
  },
});

export async function problem(response: Response): Promise<Problem> {
  try {
    const document = await response.json();
    return new Problem(response.status, document.title ?? "Error", document.detail ?? response.statusText, document.errors ?? []);
  } catch {
    return new Problem(response.status, response.statusText || "Error", `the server returned status ${response.status}`);
  }
}

/** Return the data of a successful response. */
export async function data<T>(answer: Promise<{ data?: { data: T } }>): Promise<T> {
  const found = await answer;
  if (found.data === undefined) throw new Problem(0, "Empty", "the server sent an empty response");
  return found.data.data;
}

/** A page of a list. */
export async function page<T>(answer: Promise<{ data?: { data: T[]; next?: string | null } }>): Promise<Page<T>> {
  const found = await answer;
  return { rows: found.data?.data ?? [], next: found.data?.next ?? null };
}

export interface Page<T> {
  rows: T[];
  next: string | null;
}
