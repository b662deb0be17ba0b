/**
 * Reports the outcomes of attempts in batches.
 *
 * At most one request of each kind is in flight; outcomes that are ready meanwhile go into the next one. A batch
 * without a response is sent again, so an outcome may be reported twice: the server refuses the second report, because
 * the claim with that fence has ended.
 */

import type { Attempt, Outcome } from "./attempt.js";
import { Backoff, type Connection } from "./connection.js";
import { WorkerRequestError } from "./errors.js";
import type { Logger } from "./options.js";

const MAX_JOBS = 1000; // in a request
const MAX_BYTES = 1_000_000; // in a request, unless one outcome alone has more
const TIMEOUT = 30_000; // milliseconds

interface Report {
  readonly attempt: Attempt;
  readonly text: string;
}

interface Answer {
  results: { job_id: string; error?: { code: string; message: string } }[];
}

/** Sends acks and nacks. `onReported` is called when a report has been answered or abandoned. */
export class Reports {
  readonly #acks: Lane;
  readonly #nacks: Lane;

  constructor(connection: Connection, worker: string, logger: Logger, onReported: (attempt: Attempt) => void) {
    const refused = (attempt: Attempt, error: Error): void => {
      // The outcome itself is the problem, for example a result that is too large: a retry would return the same.
      const message = `the server refused the result: ${error.message}`;
      this.add(attempt, { kind: "nack", error: { type: "Invalid", message, retryable: false } });
    };
    this.#acks = new Lane(connection, worker, logger, "/workers/ack", onReported, refused);
    this.#nacks = new Lane(connection, worker, logger, "/workers/nack", onReported);
  }

  /** Send an outcome in the next batch. */
  add(attempt: Attempt, outcome: Outcome): void {
    const { id, fence } = attempt.job;
    const head = `{"job_id":${JSON.stringify(id)}${fence === undefined ? "" : `,"fence":${fence}`}`;
    if (outcome.kind === "ack") {
      this.#acks.add({ attempt, text: `${head},"result":${outcome.result}}` });
      return;
    }
    const fields: object = outcome.kind === "requeue" ? { requeue: true } : { error: outcome.error };
    const delay = outcome.delay === undefined ? {} : { delay_ms: Math.round(outcome.delay) };
    this.#nacks.add({ attempt, text: `${head},${JSON.stringify({ ...fields, ...delay }).slice(1)}` });
  }

  /** Wait until all reports have been answered or abandoned. */
  async idle(): Promise<void> {
    while (this.#acks.isBusy || this.#nacks.isBusy) {
      await Promise.all([this.#acks.idle(), this.#nacks.idle()]);
    }
  }

  /** Abandon the reports that are not answered yet: the leases of their jobs expire. */
  abandon(): void {
    this.#acks.abandon();
    this.#nacks.abandon();
  }
}

/** Batches the reports of one kind. */
class Lane {
  #waiting: Report[] = [];
  #sending: Promise<void> | undefined;
  readonly #abandoned = new AbortController();

  constructor(
    private readonly connection: Connection,
    private readonly worker: string,
    private readonly logger: Logger,
    private readonly path: string,
    private readonly onReported: (attempt: Attempt) => void,
    private readonly onRefused?: (attempt: Attempt, error: Error) => void,
  ) {}

  get isBusy(): boolean {
    return this.#sending !== undefined;
  }

  add(report: Report): void {
    this.#waiting.push(report);
    this.#sending ??= this.#run();
  }

  async idle(): Promise<void> {
    await this.#sending;
  }

  abandon(): void {
    this.#abandoned.abort();
  }

  async #run(): Promise<void> {
    // Wait for the next turn of the event loop, so that handlers that end in this turn share a request.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#waiting.length > 0) await this.#deliver(this.#take());
    this.#sending = undefined;
  }

  #take(): Report[] {
    let [count, bytes] = [0, 0];
    for (const { text } of this.#waiting) {
      bytes += text.length;
      if (count === MAX_JOBS || (count > 0 && bytes > MAX_BYTES)) break;
      count++;
    }
    return this.#waiting.splice(0, count);
  }

  /** Send a batch, and retry until it is answered. */
  async #deliver(batch: Report[]): Promise<void> {
    const body = `{"worker_id":${JSON.stringify(this.worker)},"jobs":[${batch.map((one) => one.text).join(",")}]}`;
    const backoff = new Backoff();
    for (let isRepeated = false; ; isRepeated = true) {
      try {
        const signal = this.#abandoned.signal;
        const answer = await this.connection.send<Answer>(this.path, body, { timeout: TIMEOUT, signal });
        this.#settle(batch, answer, isRepeated);
        return;
      } catch (error) {
        if (this.#abandoned.signal.aborted) return this.#giveUp(batch, "the worker has stopped");
        if (!(error instanceof WorkerRequestError) || !error.isTemporary)
          return await this.#split(batch, error as Error);
        this.logger.warn(`outcomes of ${batch.length} jobs are not reported yet: ${error.message}`);
        await pause(backoff.next(error), this.#abandoned.signal);
      }
    }
  }

  #settle(batch: Report[], answer: Answer, isRepeated: boolean): void {
    for (const [index, { attempt }] of batch.entries()) {
      const error = answer.results[index]?.error;
      if (error !== undefined) this.#refused(attempt, error, isRepeated);
      else this.onReported(attempt);
    }
  }

  #refused(attempt: Attempt, error: { code: string; message: string }, isRepeated: boolean): void {
    if (error.code !== "conflict" && error.code !== "not_found" && this.onRefused !== undefined) {
      this.onRefused(attempt, new Error(error.message));
      return;
    }
    const isExpected = isRepeated || attempt.stopReason !== undefined; // recorded already, or lost or cancelled before
    const text = `the outcome of job ${attempt.job.id} was refused: ${error.message}`;
    if (isExpected) this.logger.debug(text);
    else this.logger.warn(text);
    this.onReported(attempt);
  }

  /** Send each report of a refused batch alone, so that an invalid one does not block the others. */
  async #split(batch: Report[], error: Error): Promise<void> {
    const [first] = batch;
    if (batch.length === 1 && first !== undefined) {
      if (this.onRefused !== undefined) this.onRefused(first.attempt, error);
      else this.#giveUp(batch, error.message);
      return;
    }
    for (const report of batch) await this.#deliver([report]);
  }

  #giveUp(batch: Report[], reason: string): void {
    for (const { attempt } of batch) {
      this.logger.error(`the outcome of job ${attempt.job.id} is not reported: ${reason}`);
      this.onReported(attempt);
    }
  }
}

/** Wait, or return as soon as the signal is aborted. */
export async function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    signal.addEventListener("abort", end);
  });
}
