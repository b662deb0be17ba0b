/** An attempt at a job by this worker, and the types that describe it in the worker protocol. */

import { NonRetryable, RetryAfter, Stopped, type StopReason } from "./errors.js";

/** A job as a fetch returns it. */
export interface FetchedJob {
  id: string;
  type: string;
  queue: string;
  args?: unknown[];
  attempt: number;
  max_attempts?: number;
  fence?: number;
  meta?: Record<string, unknown>;
  tags?: string[];
  timeout_ms?: number;
  steps?: { name: string; value: unknown }[];
  parent_results?: unknown[];
  workflow_id?: string;
}

/** The error of an attempt as it is reported. */
export interface ReportedError {
  type?: string;
  code?: string;
  message: string;
  retryable?: boolean;
  details?: unknown;
}

/** The outcome of an attempt. `result` is encoded as JSON. */
export type Outcome =
  | { readonly kind: "ack"; readonly result: string }
  | { readonly kind: "nack"; readonly error: ReportedError; readonly delay?: number }
  | { readonly kind: "requeue"; readonly delay?: number };

/** One attempt at one job. */
export class Attempt {
  readonly job: FetchedJob;
  /** When the lease expires unless it is extended, on the clock of `performance.now()`. */
  leaseEnd: number;
  /** Why the handler has to stop; undefined while it may continue. */
  stopReason: StopReason | undefined;
  /** Whether the outcome is decided: whatever the handler does afterwards is ignored. */
  isDecided = false;
  readonly #controller = new AbortController();

  constructor(job: FetchedJob, leaseEnd: number) {
    this.job = job;
    this.leaseEnd = leaseEnd;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Abort the signal of the handler, unless it was already aborted for another reason. */
  stop(reason: StopReason): void {
    if (this.stopReason !== undefined) return;
    this.stopReason = reason;
    this.#controller.abort(new Stopped(reason));
  }

  /** The input of the job: the first of its arguments if there is exactly one, else all of them. */
  get input(): unknown {
    const { args } = this.job;
    return args?.length === 1 ? args[0] : args;
  }
}

/** Return a value as JSON. `undefined` is null, as in arrays. */
export function encode(value: unknown): string {
  return JSON.stringify(value) ?? "null";
}

/** Return the outcome of a handler that returned this value. */
export function success(result: unknown): Outcome {
  try {
    return { kind: "ack", result: encode(result) };
  } catch (error) {
    // The work was done; a retry would return the same result.
    const message = `the result cannot be encoded as JSON: ${(error as Error).message}`;
    return { kind: "nack", error: { type: "Invalid", message, retryable: false } };
  }
}

/** Return the outcome of a handler that threw this error. */
export function failure(error: unknown, reason: StopReason | undefined): Outcome {
  if (reason === "drain") return { kind: "requeue" };
  if (reason === "timeout") return timedOut();
  const described = describe(error);
  if (reason === "cancelled") return { kind: "nack", error: { ...described, code: "cancelled" } };
  if (error instanceof NonRetryable) {
    return { kind: "nack", error: { ...described, type: error.type, retryable: false } };
  }
  return { kind: "nack", error: described, ...(error instanceof RetryAfter ? { delay: error.delay } : {}) };
}

/** Return the outcome of an attempt that timed out. */
export function timedOut(): Outcome {
  return { kind: "nack", error: { type: "TimeoutError", code: "timeout", message: new Stopped("timeout").message } };
}

function describe(error: unknown): ReportedError {
  if (!(error instanceof Error)) return { type: "Error", message: String(error) || "the handler failed" };
  const { name, message, stack } = error;
  return { type: name, message: message || name, ...(stack === undefined ? {} : { details: { stack } }) };
}
