/** The context of a handler: its job, and methods that record steps, progress and log lines. */

import { encode, type Attempt } from "./attempt.js";
import { Backoff, type Connection } from "./connection.js";
import { NonRetryable, WorkerRequestError } from "./errors.js";
import type { LogSender } from "./logs.js";
import type { Logger } from "./options.js";
import { pause } from "./reports.js";

const TIMEOUT = 15_000; // milliseconds of one request
const MAX_NAME = 200; // characters

/** The services that the contexts of a worker share. */
export interface Services {
  readonly connection: Connection;
  readonly worker: string;
  readonly logs: LogSender;
  readonly logger: Logger;
}

/** The log of a job, which the API, the command line and the dashboard show. */
export interface JobLog {
  debug(message: string): void;
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

/** One attempt at one job. */
export class JobContext<Input = unknown> {
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  /** The number of this attempt; the first one is 1. */
  readonly attempt: number;
  readonly maxAttempts: number | undefined;
  /** Increases with each claim of the job: pass it to the systems you call, so that they can reject older attempts. */
  readonly fence: number | undefined;
  readonly input: Input;
  readonly meta: Readonly<Record<string, unknown>>;
  /** Aborted when the handler has to stop; its `reason` is a `Stopped`. Pass it to `fetch` and similar functions. */
  readonly signal: AbortSignal;
  /** When this attempt times out, if it has a time limit. */
  readonly deadline: Date | undefined;
  /** The results of the jobs before this one in a chain or a batch. */
  readonly parentResults: readonly unknown[];
  /** The log of the job. */
  readonly log: JobLog;

  readonly #attempt: Attempt;
  readonly #services: Services;
  readonly #recorded: ReadonlyMap<string, unknown>;
  readonly #calls = new Map<string, number>(); // number of calls of `step`, by name
  #progress: string | undefined; // the next report to send
  #sending: Promise<void> | undefined;
  #hasLines = false;

  /** Contexts are created by the worker. */
  constructor(attempt: Attempt, services: Services) {
    const { job } = attempt;
    this.id = job.id;
    this.type = job.type;
    this.queue = job.queue;
    this.attempt = job.attempt;
    this.maxAttempts = job.max_attempts;
    this.fence = job.fence;
    this.input = attempt.input as Input;
    this.meta = job.meta ?? {};
    this.signal = attempt.signal;
    this.deadline = job.timeout_ms === undefined ? undefined : new Date(Date.now() + job.timeout_ms);
    this.parentResults = job.parent_results ?? [];
    this.#attempt = attempt;
    this.#services = services;
    this.#recorded = new Map(job.steps?.map((step) => [step.name, step.value]));
    const line = (level: "debug" | "info" | "warning" | "error") => (message: string) => {
      this.#hasLines = true;
      services.logs.add(attempt, level, String(message));
    };
    this.log = { debug: line("debug"), info: line("info"), warn: line("warning"), error: line("error") };
  }

  /**
   * Call `work` once per job: its result is recorded before this returns, and a later attempt returns the recorded
   * result instead of calling it again.
   *
   * The result is converted to JSON and back, so that every attempt gets the same value: a Date becomes a string.
   * Calls with the same name are distinguished by their number.
   */
  async step<T>(name: string, work: () => T | Promise<T>): Promise<T> {
    if (typeof name !== "string" || name === "" || name.length > MAX_NAME) {
      throw new NonRetryable(`the name of a step is ${JSON.stringify(name)}: it must have 1 to ${MAX_NAME} characters`);
    }
    const number = (this.#calls.get(name) ?? 0) + 1;
    this.#calls.set(name, number);
    const place = number === 1 ? name : `${name}#${number}`;
    if (this.#recorded.has(place)) return this.#recorded.get(place) as T;
    this.signal.throwIfAborted();
    const value = encode(await work());
    await this.#record(place, value);
    return JSON.parse(value) as T;
  }

  /**
   * Report the progress of the job: a fraction from 0 to 1, and a message.
   *
   * Awaiting the promise is optional; it never rejects. Of several reports in a short time only the latest is sent.
   * Throws if the fraction is out of range.
   */
  progress(fraction: number, message?: string, data?: unknown): Promise<void> {
    if (!(fraction >= 0 && fraction <= 1)) {
      throw new NonRetryable(`progress is ${fraction}: it must be a number from 0 to 1`);
    }
    const { worker } = this.#services;
    this.#progress = JSON.stringify({ progress: fraction, message, data, worker_id: worker, fence: this.fence });
    this.#sending ??= this.#sendProgress();
    return this.#sending;
  }

  /** Wait until log lines and progress are sent, for the worker: the server accepts none after the job has ended. */
  async settled(): Promise<void> {
    if (this.#hasLines) await this.#services.logs.flush();
    await this.#sending;
  }

  /** Record a step. While the server is unavailable, retry as long as the job is held. */
  async #record(name: string, value: string): Promise<void> {
    const { connection, worker } = this.#services;
    const head = JSON.stringify({ worker_id: worker, fence: this.fence }).slice(0, -1);
    const body = `${head},"steps":[{"name":${JSON.stringify(name)},"value":${value}}]}`;
    const backoff = new Backoff();
    for (;;) {
      try {
        // Without the signal: the work is done, and its result is recorded even if the handler has to stop.
        await connection.send(`/jobs/${encodeURIComponent(this.id)}/steps`, body, { timeout: TIMEOUT });
        return;
      } catch (error) {
        if (error instanceof WorkerRequestError && error.status === 409) this.#attempt.stop("lost");
        this.signal.throwIfAborted();
        if (!(error instanceof WorkerRequestError)) throw error;
        if (!error.isTemporary) throw new NonRetryable(`step ${name} cannot be recorded: ${error.message}`);
        await pause(backoff.next(error), this.signal);
      }
    }
  }

  async #sendProgress(): Promise<void> {
    await Promise.resolve(); // so that reports of the same turn of the event loop become one
    while (this.#progress !== undefined && !this.signal.aborted) {
      const body = this.#progress;
      this.#progress = undefined;
      const path = `/jobs/${encodeURIComponent(this.id)}/progress`;
      try {
        await this.#services.connection.send(path, body, { method: "PUT", timeout: TIMEOUT });
      } catch (error) {
        if (error instanceof WorkerRequestError && error.status === 409) this.#attempt.stop("lost");
        this.#services.logger.debug(`the progress of job ${this.id} is not reported: ${(error as Error).message}`);
      }
    }
    this.#sending = undefined;
  }
}
