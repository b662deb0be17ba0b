/** The API client. Its types come from the OpenAPI document; error responses become a `Problem`. */
import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];
export type Run = Schemas["Run"];
export type RunDetail = Schemas["RunDetail"];
export type Task = Schemas["Task"];
export type AwaitedMessage = Schemas["AwaitedMessage"];
export type Graph = Schemas["Graph"];
export type Span = Schemas["Span"];
export type Attempt = Schemas["Attempt"];
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

const listeners = new Set<() => void>();
let org: string | null = null;

/** Call `listen` when the server refuses a request; returns a function that ends that. */
export function onRefused(listen: () => void): () => void {
  listeners.add(listen);
  return () => void listeners.delete(listen);
}

/** A session that has ended, or acts for another org or with other scopes than this page assumes. */
export function noteRefusal(status: number): void {
  if (status === 401 || status === 403) listeners.forEach((listen) => listen());
}

/** Name an org in every request: if another tab has switched to another one, the server refuses instead of mixing them up. */
export function actFor(name: string | null): void {
  org = name;
}

/** Headers of every request. Who sends it is in a cookie. */
export function headers(): Record<string, string> {
  return org === null ? {} : { "x-windlass-org": org };
}

export const api = createClient<paths, "application/json">({ baseUrl: location.origin });
api.use({
  onRequest({ request, schemaPath }) {
    if (schemaPath.startsWith("/auth/")) return request; // they are about the session itself, whatever its org
    for (const [name, value] of Object.entries(headers())) request.headers.set(name, value);
    return request;
  },
  async onResponse({ response }) {
    if (response.ok) return;
    noteRefusal(response.status);
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
