/** The client of a Windlass server, for Node, Deno, Bun and browsers. */

import { WaitTimeout } from "./errors.js";
import { Operations, Runs, type RunDetail } from "./generated/operations.js";
import { sleep, Transport, type ClientOptions, type RequestOptions } from "./request.js";

const FIRST_LOOK = 100; // milliseconds between the first two polls of a run that is waited for
const LAST_LOOK = 2000;
const ENDED: ReadonlySet<string> = new Set(["completed", "failed", "cancelled", "timeout"]);

/** The operations of `client.runs`, including `wait`. */
export class RunOperations extends Runs {
  /**
   * Wait until a run has ended, and return it.
   *
   * Throws `WaitTimeout` after `timeout` milliseconds; the run continues.
   */
  async wait(runId: string, { timeout = Infinity, signal }: Omit<RequestOptions, "headers"> = {}): Promise<RunDetail> {
    const end = performance.now() + timeout;
    for (let pause = FIRST_LOOK; ; pause = Math.min(pause * 1.5, LAST_LOOK)) {
      const run = await this.get(runId, { signal });
      if (ENDED.has(run.status)) return run;
      const left = end - performance.now();
      if (left <= 0) throw new WaitTimeout(`run ${runId} is still ${run.status} after ${timeout} ms, and continues`);
      await sleep(Math.min(pause, left), signal);
    }
  }
}

/**
 * A client of the API. It does not have to be closed.
 *
 *     const client = new Client({ url: "https://windlass.example.com", key: "..." });
 *     const run = await client.start("orders", { input: { order: 7 } });
 */
export class Client extends Operations {
  override readonly runs: RunOperations;

  constructor(options: ClientOptions = {}) {
    super(new Transport(options));
    this.runs = new RunOperations(this.transport);
  }
}
