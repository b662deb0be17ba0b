/**
 * Extends the leases of all held jobs, on its own timer.
 *
 * A handler that blocks the event loop also blocks this timer: work that computes for longer than a third of the lease
 * belongs in a worker thread.
 */

import type { Attempt } from "./attempt.js";
import type { Connection } from "./connection.js";
import type { WorkerSettings } from "./options.js";

const LEAST_PAUSE = 50; // milliseconds between two heartbeats
const LEAST_TIMEOUT = 1_000; // milliseconds

/** A directive of the server: `quiet` stops fetching for now, `terminate` stops the worker. */
export type Directive = "" | "quiet" | "terminate";

interface Answer {
  directive?: Directive;
  jobs_extended: string[];
  jobs_cancelled: string[];
}

/** Sends heartbeats. `onDirective` is called with the directive of each response. */
export class Heartbeat {
  state: "running" | "quiet" | "stopped" = "running";
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(
    private readonly connection: Connection,
    private readonly settings: WorkerSettings,
    private readonly held: ReadonlyMap<string, Attempt>,
    private readonly onDirective: (directive: Directive) => void,
  ) {}

  start(): void {
    this.#schedule(this.settings.lease / 3);
  }

  /** Stop, and report to the server that this worker has stopped. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    this.state = "stopped";
    await this.#send().catch(() => undefined); // the server also notices when heartbeats stop
  }

  #schedule(delay: number): void {
    this.#timer = setTimeout(() => void this.#beat(), Math.max(delay, LEAST_PAUSE));
    this.#timer.unref();
  }

  async #beat(): Promise<void> {
    const started = performance.now();
    let interval = this.settings.lease / 3;
    try {
      await this.#send();
    } catch (error) {
      this.settings.logger.warn(`the heartbeat failed: ${(error as Error).message}`);
      interval = this.settings.lease / 10; // retry soon, before the leases expire
    }
    this.#expire();
    if (!this.#isStopped) this.#schedule(interval - (performance.now() - started));
  }

  async #send(): Promise<void> {
    const { id, lease } = this.settings;
    const attempts = [...this.held.values()].filter((one) => one.stopReason !== "lost");
    const body = JSON.stringify({
      worker_id: id,
      state: this.state,
      active_jobs: attempts.map((one) => one.job.id),
      visibility_timeout_ms: lease,
    });
    const sentAt = performance.now();
    const sending = { timeout: Math.max(lease / 3, LEAST_TIMEOUT) };
    const answer = await this.connection.send<Answer>("/workers/heartbeat", body, sending);
    const [extended, cancelled] = [new Set(answer.jobs_extended), new Set(answer.jobs_cancelled)];
    // Attempts, not ids: a job may have ended and been fetched again by this worker while the request was in flight.
    for (const attempt of attempts) {
      if (cancelled.has(attempt.job.id)) attempt.stop("cancelled");
      else if (extended.has(attempt.job.id)) attempt.leaseEnd = sentAt + lease;
      else if (!attempt.isDecided) attempt.stop("lost"); // a decided one may have ended with its report
    }
    this.onDirective(answer.directive ?? "");
  }

  /** Stop the attempts whose leases have expired while the server could not be reached. */
  #expire(): void {
    const now = performance.now();
    for (const attempt of this.held.values()) {
      if (attempt.leaseEnd < now && !attempt.isDecided) attempt.stop("lost");
    }
  }
}
