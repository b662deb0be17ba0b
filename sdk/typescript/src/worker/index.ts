/** A worker for Node that fetches jobs from a Windlass server over HTTP. */

export { JobContext, type JobLog } from "./context.js";
export { NonRetryable, RetryAfter, Stopped, WorkerRequestError, type StopReason } from "./errors.js";
export { type Logger, type WorkerOptions } from "./options.js";
export { Worker, type Handler, type StopOptions } from "./worker.js";
