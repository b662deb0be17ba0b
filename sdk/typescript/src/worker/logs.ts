/** Sends the log lines of handlers in batches. */

import type { Attempt } from "./attempt.js";
import type { Connection } from "./connection.js";
import type { Logger } from "./options.js";

const MAX_LINES = 1000; // in a request
const MAX_BYTES = 4 * 1024 * 1024; // of lines in a request; the server accepts twice as much
const MAX_LENGTH = 8192; // characters of a message that the server keeps
const MAX_WAITING = 10_000; // lines; beyond that, the oldest are dropped
const LINGER = 100; // milliseconds that a line waits for others
const TIMEOUT = 10_000; // milliseconds

/** The response to a request: the server refuses only the invalid lines. */
interface Answer {
  refused?: { index: number; error: { message: string } }[];
}

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

  /** Queue a line, to be sent with others. */
  add(attempt: Attempt, level: Level, message: string): void {
    const { id, fence } = attempt.job;
    this.#waiting.push(JSON.stringify({ job_id: id, fence, at: new Date().toISOString(), level, message: message.slice(0, MAX_LENGTH) }));
    if (this.#waiting.length >= MAX_LINES) void this.flush();
    else this.#timer ??= setTimeout(() => void this.flush(), LINGER);
  }

  /** Send all lines now. A job must not end before its lines are sent: the server drops later ones. */
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
      this.logger.warn(`${excess} log lines of jobs were dropped: they are logged faster than the server accepts them`);
    }
    while (this.#waiting.length > 0) {
      const lines = this.#waiting.splice(0, this.#count());
      const body = `{"worker_id":${JSON.stringify(this.worker)},"lines":[${lines.join(",")}]}`;
      try {
        const { refused = [] } = await this.connection.send<Answer>("/workers/logs", body, { timeout: TIMEOUT });
        const [first] = refused;
        if (first !== undefined) {
          this.logger.warn(`${refused.length} log lines of jobs were refused: ${first.error.message}`);
        }
      } catch (error) {
        // Lines that cannot be sent must not delay the outcomes of jobs.
        this.logger.warn(`${lines.length} log lines of jobs are lost: ${(error as Error).message}`);
      }
    }
  }

  /** Return the number of lines for the next request. */
  #count(): number {
    let bytes = 0;
    let count = 0;
    for (const line of this.#waiting) {
      bytes += Buffer.byteLength(line);
      if (count === MAX_LINES || (count > 0 && bytes > MAX_BYTES)) break;
      count++;
    }
    return count;
  }
}
