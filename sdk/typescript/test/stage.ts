/** A fake server of the worker protocol on the loopback interface, with the faults that a test injects. */

import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { Worker, type Handler, type WorkerOptions } from "../src/worker/index.js";

type Body = Record<string, unknown> & { jobs?: Report[] };
type Reply = (body: Body, response: ServerResponse) => unknown;

/** A report of an ack or a nack. */
export interface Report {
  job_id: string;
  fence?: number;
  result?: unknown;
  error?: { type?: string; code?: string; message: string; retryable?: boolean };
  requeue?: boolean;
  delay_ms?: number;
}

/** A server that hands out jobs and records what it receives. A reply of undefined closes the connection. */
export class Stage {
  readonly received: { path: string; body: Body }[] = [];
  readonly replies: Record<string, Reply> = {
    "/workers/fetch": (_body, response) => this.#handOut(response),
    "/workers/ack": (body) => ({ results: body.jobs?.map((job) => ({ job_id: job.job_id, state: "completed" })) }),
    "/workers/nack": (body) => ({ results: body.jobs?.map((job) => ({ job_id: job.job_id, state: "retryable" })) }),
    "/workers/heartbeat": (body) => ({ directive: "", jobs_extended: body.active_jobs, jobs_cancelled: [] }),
    "/workers/logs": (body) => ({ accepted: (body.lines as unknown[]).length }),
  };
  readonly logged: string[] = [];
  url = "";
  #jobs: object[] = [];
  #fence = 0;
  #waiting: ServerResponse | undefined;
  #watchers: (() => void)[] = [];

  /** Start a server. */
  static async open(t: TestContext): Promise<Stage> {
    const stage = new Stage();
    const server = createServer((request, response) => {
      let text = "";
      request.on("data", (part: Buffer) => (text += part.toString()));
      request.on("end", () =>
        stage.#answer((request.url ?? "").replace("/ojs/v1", ""), JSON.parse(text) as Body, response),
      );
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    stage.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    t.after(() => {
      server.closeAllConnections();
      server.close();
    });
    return stage;
  }

  /** Start a worker with one handler for all jobs of this server. */
  work(
    t: TestContext,
    handler: Handler<unknown>,
    options: WorkerOptions = {},
  ): { worker: Worker; ended: Promise<void> } {
    const log = (message: string): void => void this.logged.push(message);
    const logger = { debug: log, info: log, warn: log, error: log };
    const worker = new Worker({ url: this.url, id: "w1", logger, ...options }).handle("test", handler);
    const ended = worker.run();
    t.after(async () => await worker.stop({ grace: 0 }));
    return { worker, ended };
  }

  /** Add a job for the pending fetch, or for the next one. */
  submit(id: string, fields: object = {}): void {
    this.#jobs.push({
      id,
      type: "test",
      queue: "default",
      args: [{ id }],
      attempt: 1,
      fence: ++this.#fence,
      ...fields,
    });
    if (this.#waiting !== undefined) this.#handOut(this.#waiting);
  }

  /** Return the bodies of the requests received at a path. */
  at(path: string): Body[] {
    return this.received.filter((one) => one.path === path).map((one) => one.body);
  }

  /** Return all reports of a kind, in the order of their requests. */
  reports(kind: "ack" | "nack"): Report[] {
    return this.at(`/workers/${kind}`).flatMap((body) => body.jobs ?? []);
  }

  /** Wait until a condition holds; it is checked after each request. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise<void>((resolve) => this.#watchers.push(resolve));
  }

  /** Check the conditions of `until` again. */
  changed = (): void => {
    for (const watcher of this.#watchers.splice(0)) watcher();
  };

  #answer(path: string, body: Body, response: ServerResponse): void {
    this.received.push({ path, body });
    const answer = (this.replies[path] ?? (() => ({ recorded: 1 })))(body, response);
    if (answer === undefined) response.destroy();
    else if (answer !== response) send(response, 200, answer);
    this.changed();
  }

  #handOut(response: ServerResponse): ServerResponse {
    this.#waiting = response;
    if (this.#jobs.length > 0) {
      this.#waiting = undefined;
      send(response, 200, { jobs: this.#jobs.splice(0) });
    }
    return response;
  }
}

/** Answer with a document. */
export function send(response: ServerResponse, status: number, document: unknown): ServerResponse {
  return response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(document));
}

/** Reply with an error. */
export function refuse(status: number, code: string, message = "refused"): Reply {
  return (_body, response) => send(response, status, { error: { code, message, retryable: status >= 500 } });
}
