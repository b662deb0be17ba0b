/** The options of a worker. */

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { WindlassError } from "../errors.js";
import { environment, serverUrl } from "../request.js";

/** Receives the log of the worker itself. `console` is a `Logger`. */
export interface Logger {
  debug(message: string): void;
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

/** The options of a worker. Times are in milliseconds. */
export interface WorkerOptions {
  /** The address of the server. Default: the environment variable WINDLASS_URL, then http://127.0.0.1:8080. */
  url?: string | undefined;
  /** A key with the scope `work`. Default: the environment variable WINDLASS_API_KEY. */
  key?: string | undefined;
  /** The queues to fetch from. Default: `["default"]`. */
  queues?: readonly string[] | undefined;
  /** The maximum number of handlers that run concurrently. Default: 10. */
  concurrency?: number | undefined;
  /** How long a job stays leased to this worker without a heartbeat; there are three per lease. Default: 30,000. */
  lease?: number | undefined;
  /** How long running handlers may continue after `stop`. Default: 30,000. */
  grace?: number | undefined;
  /** The id of this worker. Default: the name of the host, the id of the process and a random part. */
  id?: string | undefined;
  /** Receives the log of the worker itself. Default: warnings and errors go to the console. */
  logger?: Logger | undefined;
}

/** The options with defaults applied. */
export interface WorkerSettings {
  readonly url: string;
  readonly key: string | undefined;
  readonly queues: readonly string[];
  readonly concurrency: number;
  readonly lease: number;
  readonly grace: number;
  readonly id: string;
  readonly logger: Logger;
}

const QUIET: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: (message) => console.warn(`windlass: ${message}`),
  error: (message) => console.error(`windlass: ${message}`),
};

/** Return the options with defaults applied; throw a `WindlassError` that names an invalid option. */
export function settingsOf(options: WorkerOptions): WorkerSettings {
  const queues = options.queues ?? ["default"];
  if (queues.length === 0) throw new WindlassError("queues is empty: name at least one queue");
  const key = options.key || environment("WINDLASS_API_KEY").split(",")[0]?.trim() || undefined;
  if (key !== undefined && !/^[\x20-\x7e]+$/.test(key))
    throw new WindlassError("key has characters that are not allowed in a header");
  return {
    url: serverUrl(options.url || environment("WINDLASS_URL") || "http://127.0.0.1:8080"),
    key,
    queues,
    concurrency: within("concurrency", options.concurrency ?? 10, 1, 10_000),
    lease: within("lease", options.lease ?? 30_000, 100, 7 * 86_400_000),
    grace: within("grace", options.grace ?? 30_000, 0, 7 * 86_400_000),
    id: options.id ?? `${hostname()}-${process.pid}-${randomUUID().slice(0, 8)}`,
    logger: options.logger ?? QUIET,
  };
}

function within(name: string, value: number, least: number, most: number): number {
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  throw new WindlassError(`${name} is ${value}: it must be an integer from ${least} to ${most}`);
}
