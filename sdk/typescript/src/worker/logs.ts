/** Sends the log lines of handlers in batches. */

import type { Attempt } from "./attempt.js";
import type { Connection } from "./connection.js";
import type { Logger } from "./options.js";

const MAX_LINES = 1000; // in a request
const MAX_WAITING = 10_000; // lines; with more than that, the oldest are dropped
const LINGER = 100; // milliseconds that a line waits for others
const TIMEOUT = 10_000; // milliseconds

type Level = "debug" | "info" | "warning" | "error";

/** Collects the lines of all attempts of a worker. */
export class LogSender {
  #waiting: string[] = [];
  #sending: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly connection: Connection,
    private readonly worker: string,
    private readonly logger: Logger,
  ) {}

  /** Send a line a moment later. */
  add(attempt: Attempt, level: Level, message: string): void {
    const { id, fence } = attempt.job;
    this.#waiting.push(JSON.stringify({ job_id: id, fence, at: new Date().toISOString(), level, message }));
    if (this.#waiting.length >= MAX_LINES) void this.flush();
    else this.#timer ??= setTimeout(() => void this.flush(), LINGER);
  }

  /** Send all lines now. A job must not end before its lines are sent: later ones are dropped by the server. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#sending = this.#sending.then(async () => await this.#send());
    await this.#sending;
  }

  async #send(): Promise<void> {
    const excess = this.#waiting.length - MAX_WAITING;
    if (excess > 0) {
      this.#waiting.splice(0, excess);
      this.logger.warn(`${excess} log lines of jobs were dropped: they come faster than the server takes them`);
    }
    while (this.#waiting.length > 0) {
      const lines = this.#waiting.splice(0, MAX_LINES);
      const body = `{"worker_id":${JSON.stringify(this.worker)},"lines":[${lines.join(",")}]}`;
      try {
        await this.connection.send("/workers/logs", body, { timeout: TIMEOUT });
      } catch (error) {
        // Lines do not hold back the outcomes of jobs.
        this.logger.warn(`${lines.length} log lines of jobs are lost: ${(error as Error).message}`);
      }
    }
  }
}
