/** The errors that a handler throws to control the outcome of its job, and the reason of its signal. */

import { WindlassError } from "../errors.js";

/** Why a handler has to stop: the job was cancelled, its lease was lost, the attempt timed out, or the worker stops. */
export type StopReason = "cancelled" | "lost" | "timeout" | "drain";

const TEXTS: Readonly<Record<StopReason, string>> = {
  cancelled: "the job was cancelled",
  lost: "the lease of the job was lost: another worker may have it",
  timeout: "the time limit of the attempt has expired",
  drain: "the worker is stopping",
};

/** The `reason` of a handler's signal. */
export class Stopped extends WindlassError {
  /** Why the handler has to stop. */
  readonly reason: StopReason;

  constructor(reason: StopReason) {
    super(TEXTS[reason]);
    this.reason = reason;
  }
}

/** Thrown by a handler: fail the job now, even if attempts are left. */
export class NonRetryable extends WindlassError {
  /** The type of the error, as recorded with the job. */
  readonly type: string;

  constructor(message: string, options: ErrorOptions & { type?: string } = {}) {
    super(message, options);
    this.type = options.type ?? new.target.name;
  }
}

/** Thrown by a handler: this attempt failed, try again after `delay` instead of the backoff of the job. */
export class RetryAfter extends WindlassError {
  /** The time until the next attempt, in milliseconds. */
  readonly delay: number;

  constructor(delay: number, message = "retry later", options?: ErrorOptions) {
    super(message, options);
    if (!(delay >= 0 && delay < Infinity)) throw new RangeError(`delay is ${delay}: it must be 0 or more milliseconds`);
    this.delay = delay;
  }
}

/** The server refused a request of a worker, or did not respond: then `status` is 0. */
export class WorkerRequestError extends WindlassError {
  readonly status: number;
  /** The code of the error: conflict, not_found, invalid_request, ... */
  readonly code: string;
  /** Seconds after which to try again, if the server sent them. */
  readonly retryAfter: number | undefined;

  constructor(message: string, status: number, code = "", retryAfter?: number) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }

  /** Whether the same request may succeed later. */
  get isTemporary(): boolean {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}
