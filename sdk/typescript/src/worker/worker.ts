/**
 * A worker: fetches jobs over HTTP, runs their handlers and reports the outcomes.
 *
 * A job is held from its fetch until its outcome is reported; until then heartbeats extend its lease. Every request
 * about a job carries the fence of its claim, so a worker that has lost a job can no longer change it.
 */

import { WindlassError } from "../errors.js";
import { Attempt, failure, success, timedOut, type FetchedJob, type Outcome } from "./attempt.js";
import { Backoff, Connection } from "./connection.js";
import { JobContext, type Services } from "./context.js";
import { WorkerRequestError } from "./errors.js";
import { Heartbeat, type Directive } from "./heartbeat.js";
import { LogSender } from "./logs.js";
import { settingsOf, type WorkerOptions, type WorkerSettings } from "./options.js";
import { pause, Reports } from "./reports.js";

const LONG_POLL = 20_000; // milliseconds that the server may hold a fetch
const FETCH_TIMEOUT = 15_000; // milliseconds that the response may take beyond the long poll
const MAX_FETCH = 1000;
const MAX_TIMER = 2 ** 31 - 1; // milliseconds: a longer timer of Node fires immediately
const EMPTY_PAUSE = 200; // milliseconds to pause after an empty response that the server did not hold
const HANDLER_GRACE = 5_000; // milliseconds between the abort of a handler and the report that it did not stop
const REPORT_GRACE = 10_000; // milliseconds for the last reports
const BUSY_DELAY = 1_000; // milliseconds until a job that this worker cannot execute now is due again

/** Executes a job. The value that it returns becomes the result of the job. */
export type Handler<Input = unknown, Output = unknown> = (
  context: JobContext<Input>,
  input: Input,
) => Output | Promise<Output>;

/** The options of `Worker.stop`. */
export interface StopOptions {
  /** How long running handlers may continue, in milliseconds, instead of the worker's `grace`. */
  grace?: number;
}

/** A worker that fetches jobs from a server over HTTP. */
export class Worker {
  readonly #settings: WorkerSettings;
  readonly #connection: Connection;
  readonly #handlers = new Map<string, Handler>();
  readonly #held = new Map<string, Attempt>(); // until reported; heartbeats extend their leases
  readonly #running = new Map<string, Attempt>(); // attempts whose handlers have not returned
  readonly #reports: Reports;
  readonly #heartbeat: Heartbeat;
  readonly #services: Services;
  readonly #stopping = new AbortController(); // stop fetching
  readonly #hurry = new AbortController(); // return running jobs to their queues now
  #grace: number;
  #isQuiet = false;
  #hasFetched = false;
  #ended: Promise<void> | undefined;
  #wake: () => void = () => undefined;

  constructor(options: WorkerOptions = {}) {
    const settings = settingsOf(options);
    this.#settings = settings;
    this.#grace = settings.grace;
    this.#connection = new Connection(settings.url, settings.key);
    this.#reports = new Reports(this.#connection, settings.id, settings.logger, (attempt) => this.#release(attempt));
    this.#heartbeat = new Heartbeat(this.#connection, settings, this.#held, (directive) => this.#follow(directive));
    const logs = new LogSender(this.#connection, settings.id, settings.logger);
    this.#services = { connection: this.#connection, worker: settings.id, logs, logger: settings.logger };
  }

  /** The id of this worker on the server. */
  get id(): string {
    return this.#settings.id;
  }

  /** Register the handler of a job type. */
  handle<Input = unknown, Output = unknown>(type: string, handler: Handler<Input, Output>): this {
    if (this.#handlers.has(type)) throw new WindlassError(`${type} already has a handler`);
    if (this.#ended !== undefined) throw new WindlassError("the worker is already running: register all handlers before `run`");
    this.#handlers.set(type, handler as Handler);
    return this;
  }

  /**
   * Run until the worker is stopped.
   *
   * With `signals`, SIGTERM and SIGINT stop it: the first signal lets running handlers finish, the second returns their
   * jobs to the queue immediately. Rejects if the server refuses the first fetch, for example because of a wrong key.
   */
  async run({ signals = false }: { signals?: boolean } = {}): Promise<void> {
    if (this.#handlers.size === 0) throw new WindlassError("the worker has no handlers: set one with `handle`");
    if (this.#ended !== undefined) throw new WindlassError("the worker has already run: create a new one");
    const onSignal = (): void => void this.stop(this.#stopping.signal.aborted ? { grace: 0 } : {});
    if (signals) process.on("SIGTERM", onSignal).on("SIGINT", onSignal);
    this.#ended = this.#run();
    try {
      await this.#ended;
    } finally {
      if (signals) process.off("SIGTERM", onSignal).off("SIGINT", onSignal);
    }
  }

  /**
   * Stop fetching, let running handlers finish for at most `grace`, then abort them and return their jobs to the queue
   * without charging an attempt. Resolves when the worker has stopped. A second call with `grace: 0` returns them
   * immediately.
   */
  async stop({ grace }: StopOptions = {}): Promise<void> {
    this.#grace = grace ?? this.#grace;
    this.#stopping.abort();
    if (this.#grace === 0) this.#hurry.abort();
    await this.#ended?.catch(() => undefined); // `run` rejects with the error
  }

  async #run(): Promise<void> {
    const keepAlive = setInterval(() => undefined, 2 ** 30); // a handler that waits for its signal does not
    this.#heartbeat.start();
    try {
      await this.#fetchJobs();
    } finally {
      await this.#drain();
      this.#connection.close();
      clearInterval(keepAlive);
    }
  }

  // Fetching

  async #fetchJobs(): Promise<void> {
    const backoff = new Backoff();
    while (!this.#stopping.signal.aborted) {
      const free = this.#isQuiet ? 0 : this.#free();
      if (free <= 0) {
        await this.#awakened();
        continue;
      }
      try {
        const started = performance.now();
        const jobs = await this.#fetch(Math.min(free, MAX_FETCH));
        backoff.reset();
        this.#hasFetched = true;
        // A server that is stopping responds immediately, without jobs.
        const isEarly = jobs.length === 0 && performance.now() - started < EMPTY_PAUSE;
        if (isEarly) await pause(EMPTY_PAUSE, this.#stopping.signal);
      } catch (error) {
        if (this.#stopping.signal.aborted) return;
        const isTemporary = error instanceof WorkerRequestError && error.isTemporary;
        if (!isTemporary && !this.#hasFetched) throw error;
        this.#settings.logger.warn(`fetching jobs failed: ${(error as Error).message}`);
        await pause(backoff.next(error), this.#stopping.signal);
      }
    }
  }

  /** Return the number of jobs to fetch. Unreported outcomes reduce it once there are more than `concurrency`. */
  #free(): number {
    const { concurrency } = this.#settings;
    return concurrency - Math.max(this.#running.size, this.#held.size - concurrency);
  }

  async #fetch(count: number): Promise<FetchedJob[]> {
    const { id, queues, lease } = this.#settings;
    // Shorter than the lease: when this process hangs, its fetch must have ended before its jobs are due again.
    const wait = Math.min(LONG_POLL, Math.floor(lease / 2));
    const body = JSON.stringify({
      queues,
      types: [...this.#handlers.keys()],
      count,
      worker_id: id,
      visibility_timeout_ms: lease,
      wait_ms: wait,
    });
    const leaseEnd = performance.now() + lease;
    const sending = { timeout: wait + FETCH_TIMEOUT, signal: this.#stopping.signal };
    const { jobs } = await this.#connection.send<{ jobs: FetchedJob[] }>("/workers/fetch", body, sending);
    // The lease began when the server claimed the job, which may be long after the request was sent.
    const end = Math.max(leaseEnd, performance.now() + lease / 2);
    for (const job of jobs) this.#take(new Attempt(job, end));
    return jobs;
  }

  #take(attempt: Attempt): void {
    const { id, type } = attempt.job;
    const handler = this.#handlers.get(type);
    if (this.#stopping.signal.aborted || handler === undefined || this.#running.has(id)) {
      // A handler of an earlier claim that did not stop may still run here: the job must not run twice concurrently.
      if (handler === undefined) this.#settings.logger.warn(`job ${id} is returned to its queue: there is no handler for ${type}`);
      attempt.isDecided = true;
      this.#held.set(id, attempt);
      this.#reports.add(attempt, { kind: "requeue", delay: BUSY_DELAY });
      return;
    }
    this.#held.set(id, attempt);
    this.#running.set(id, attempt);
    void this.#execute(attempt, handler);
  }

  // Running

  async #execute(attempt: Attempt, handler: Handler): Promise<void> {
    const limit = attempt.job.timeout_ms;
    const timer = limit === undefined ? undefined : setTimeout(() => this.#expire(attempt), Math.min(limit, MAX_TIMER));
    let context: JobContext | undefined;
    let outcome: Outcome;
    try {
      context = new JobContext(attempt, this.#services);
      const result = await handler(context, context.input);
      outcome = attempt.stopReason === "timeout" ? timedOut() : success(result);
    } catch (error) {
      outcome = failure(error, attempt.stopReason);
    }
    clearTimeout(timer);
    await context?.settled();
    this.#running.delete(attempt.job.id);
    this.#decide(attempt, outcome);
    this.#wake();
  }

  /** Report an outcome, unless another one was reported before or the job is lost. */
  #decide(attempt: Attempt, outcome: Outcome): void {
    if (attempt.isDecided) return;
    attempt.isDecided = true;
    const { id, type, attempt: number } = attempt.job;
    if (outcome.kind === "nack") {
      this.#settings.logger.warn(`job ${id} (${type}) attempt ${number}: ${outcome.error.message}`);
    }
    if (attempt.stopReason === "lost") this.#release(attempt);
    else this.#reports.add(attempt, outcome);
  }

  #expire(attempt: Attempt): void {
    attempt.stop("timeout");
    if (attempt.stopReason !== "timeout") return;
    const overdue = setTimeout(() => {
      if (this.#running.get(attempt.job.id) !== attempt) return;
      this.#settings.logger.warn(
        `the handler of job ${attempt.job.id} (${attempt.job.type}) did not stop after its timeout`,
      );
      this.#decide(attempt, timedOut());
    }, HANDLER_GRACE);
    overdue.unref();
  }

  #release(attempt: Attempt): void {
    if (this.#held.get(attempt.job.id) === attempt) this.#held.delete(attempt.job.id);
    this.#wake();
  }

  // Stopping

  #follow(directive: Directive): void {
    this.#isQuiet = directive === "quiet";
    if (directive === "terminate") void this.stop();
    this.#wake();
  }

  async #drain(): Promise<void> {
    this.#stopping.abort();
    this.#heartbeat.state = "quiet";
    await this.#finished(this.#grace, this.#hurry.signal);
    for (const attempt of this.#running.values()) attempt.stop("drain");
    await new Promise((resolve) => setImmediate(resolve)); // enough for handlers that stop immediately
    await this.#finished(Math.min(this.#grace, HANDLER_GRACE), this.#hurry.signal);
    const late = setTimeout(() => this.#reports.abandon(), REPORT_GRACE);
    const flushed = new AbortController();
    void this.#services.logs.flush().then(() => flushed.abort());
    await pause(REPORT_GRACE / 2, AbortSignal.any([flushed.signal, this.#hurry.signal]));
    for (const attempt of this.#running.values()) this.#decide(attempt, { kind: "requeue" });
    await this.#reports.idle();
    clearTimeout(late);
    await this.#heartbeat.stop();
  }

  /** Wait until no handler is running, at most for `grace` milliseconds or until `hurry` is aborted. */
  async #finished(grace: number, hurry: AbortSignal): Promise<void> {
    const late = AbortSignal.any([hurry, AbortSignal.timeout(grace)]);
    while (this.#running.size > 0 && !late.aborted) await this.#awakened(late);
  }

  /** Wait until a handler or a report has ended, or until the signal is aborted; by default that of stopping. */
  async #awakened(signal: AbortSignal = this.#stopping.signal): Promise<void> {
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const end = (): void => {
        signal.removeEventListener("abort", end);
        this.#wake = () => undefined;
        resolve();
      };
      this.#wake = end;
      signal.addEventListener("abort", end);
    });
  }
}
