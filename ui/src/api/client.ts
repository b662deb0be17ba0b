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

/** Call `listen` when the server refuses a request with 401 or 403. Return a function that removes the listener. */
export function onRefused(listen: () => void): () => void {
  listeners.add(listen);
  return () => void listeners.delete(listen);
}

/** Call the listeners after a 401 or 403: the session has ended, or its org or scopes are not those of this page. */
export function noteRefusal(status: number): void {
  if (status === 401 || status === 403) listeners.forEach((listen) => listen());
}

/** Send this org with every request: the server refuses it if another tab has switched the session to another org. */
export function actFor(name: string | null): void {
  org = name;
}

/** Return the headers of every request. The caller is identified by a cookie. */
export function headers(): Record<string, string> {
  return org === null ? {} : { "x-windlass-org": org };
}

export const api = createClient<paths, "application/json">({ baseUrl: location.origin });
api.use({
  onRequest({ request, schemaPath }) {
    if (schemaPath.startsWith("/auth/")) return request; // these routes are about the session itself, independent of its org
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

/** Return a page of a list. */
export async function page<T>(answer: Promise<{ data?: { data: T[]; next?: string | null } }>): Promise<Page<T>> {
  const found = await answer;
  return { rows: found.data?.data ?? [], next: found.data?.next ?? null };
}

export interface Page<T> {
  rows: T[];
  next: string | null;
}
