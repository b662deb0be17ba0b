/**
 * The errors that the client and the worker throw.
 *
 *     WindlassError
 *       ApiError           the server refused a request; `status` and the fields of its problem document
 *         Invalid          a field is wrong                          413, 415, 422
 *         NotFound         no such job, run, workflow, ...           404
 *         Conflict         not possible in the current state         409
 *         Gone             it existed and has ended                  410
 *         Unauthorized     no valid key                              401, 421
 *         Forbidden        the key lacks a scope                     403
 *         RateLimited      too many requests                         429
 *           QuotaExceeded  the plan of the org does not allow this   402, 429
 *         Unavailable      the same request may succeed later        502, 503, 504; or not a Windlass response
 *           Unreachable    there was no response; `status` is 0
 *       WaitTimeout        a run did not end in time
 */

/** The base class of all errors of this package. */
export class WindlassError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** A wrong field, and what is wrong with it. */
export interface FieldError {
  field: string;
  message: string;
}

/** A problem document (RFC 9457) as the server sends it. */
export interface ProblemDocument {
  type?: string;
  title?: string;
  status?: number;
  detail?: string;
  what?: string | null;
  key?: string | null;
  hint?: string | null;
  scope?: string | null;
  field?: string | null;
  code?: string | null;
  limit?: number | null;
  used?: number | null;
  resets_at?: string | null;
  errors?: FieldError[] | null;
}

/** The error of a request that the server refused. Programs should read the fields; the message is for people. */
export class ApiError extends WindlassError {
  /** The HTTP status; 0 if there was no response. */
  readonly status: number;
  /** The kind of the object that does not exist: job, run, workflow, ... */
  readonly what: string | undefined;
  /** The id or name of the object that does not exist, as requested. */
  readonly key: string | undefined;
  /** The first invalid field. */
  readonly field: string | undefined;
  /** How to fix the problem, if known. */
  readonly hint: string | undefined;
  /** The scope that the key lacks. */
  readonly scope: string | undefined;
  /** All invalid fields. */
  readonly errors: readonly FieldError[];
  /** Seconds after which the same request may succeed, if the server sent them. */
  readonly retryAfter: number | undefined;

  constructor(message: string, status: number, problem: ProblemDocument = {}, retryAfter?: number) {
    super(message);
    this.status = status;
    this.what = problem.what ?? undefined;
    this.key = problem.key ?? undefined;
    this.errors = problem.errors ?? [];
    this.field = problem.field ?? this.errors[0]?.field;
    this.hint = problem.hint ?? undefined;
    this.scope = problem.scope ?? undefined;
    this.retryAfter = retryAfter;
  }
}

/** An argument or a document is invalid: `field` is the first invalid field, `errors` lists all of them. */
export class Invalid extends ApiError {}

/** There is no such object: `what` and `key` name it. */
export class NotFound extends ApiError {}

/** The object exists, but its current state does not allow the operation. */
export class Conflict extends ApiError {}

/** The object existed and has ended. */
export class Gone extends ApiError {}

/** No valid key was sent. */
export class Unauthorized extends ApiError {}

/** The key lacks a scope, which `scope` names. */
export class Forbidden extends ApiError {}

/** Too many requests: try again after `retryAfter` seconds. */
export class RateLimited extends ApiError {}

/** A limit of the org's plan does not allow the request, at least not now. */
export class QuotaExceeded extends RateLimited {
  /** The name of the limit: executions_per_month, runs_at_once, ... */
  readonly code: string;
  /** The value of the limit. */
  readonly limit: number;
  /** The current usage that counts against the limit. */
  readonly used: number;
  /** When the count is reset, as an ISO time. */
  readonly resetsAt: string | undefined;

  constructor(message: string, status: number, problem: ProblemDocument, retryAfter?: number) {
    super(message, status, problem, retryAfter);
    this.code = problem.code ?? "";
    this.limit = problem.limit ?? 0;
    this.used = problem.used ?? 0;
    this.resetsAt = problem.resets_at ?? undefined;
  }
}

/** The server or its database cannot be used now: the same request may succeed later. */
export class Unavailable extends ApiError {}

/** The server did not respond. */
export class Unreachable extends Unavailable {
  constructor(message: string) {
    super(message, 0);
  }
}

/** A run did not end in time. The run continues. */
export class WaitTimeout extends WindlassError {}

const SHOWN = 200; // characters of a response without a problem document that the error contains
const CLASSES: Readonly<Record<number, typeof ApiError>> = {
  401: Unauthorized,
  403: Forbidden,
  404: NotFound,
  409: Conflict,
  410: Gone,
  413: Invalid,
  415: Invalid,
  421: Unauthorized,
  422: Invalid,
  429: RateLimited,
  502: Unavailable,
  503: Unavailable,
  504: Unavailable,
};

/** Return the error for a response that is not a success. `text` is its body. */
export function errorOf(status: number, text: string, address: string, retryAfter?: number): ApiError {
  const problem = parseProblem(text);
  if (problem?.detail === undefined) {
    const body = text.trim() ? `: ${text.trim().slice(0, SHOWN)}` : "";
    const reason = `${address} answered ${status}, which is not a response of Windlass: check the address`;
    return new Unavailable(reason + body, status, {}, retryAfter);
  }
  if (typeof problem.code === "string" && typeof problem.limit === "number") {
    return new QuotaExceeded(problem.detail, status, problem, retryAfter);
  }
  return new (CLASSES[status] ?? ApiError)(problem.detail, status, problem, retryAfter);
}

function parseProblem(text: string): ProblemDocument | undefined {
  try {
    const document: unknown = JSON.parse(text);
    const isProblem = typeof document === "object" && document !== null && "detail" in document;
    return isProblem && typeof document.detail === "string" ? (document as ProblemDocument) : undefined;
  } catch {
    return undefined;
  }
}
