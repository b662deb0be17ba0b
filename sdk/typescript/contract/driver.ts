/** The driver of the contract suite: a worker with the handlers that the suite expects in every language. */

import { appendFileSync, existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { NonRetryable, RetryAfter, Stopped, Worker, type JobContext } from "../src/worker/index.js";

const { env } = process;
const number = (name: string, usual: number): number => Number(env[name] ?? usual);

function trace(line: string): void {
  if (env.CONTRACT_TRACE) appendFileSync(env.CONTRACT_TRACE, `${line}\n`);
}

/** Wait until a file exists, ignoring the signal. */
async function exists(path: string): Promise<void> {
  while (!existsSync(path)) await sleep(20);
}

async function untilStopped({ signal }: JobContext): Promise<Stopped> {
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve());
  });
  return signal.reason as Stopped;
}

const stderr = (message: string): void => void process.stderr.write(`${message}\n`);
const worker = new Worker({
  url: env.WINDLASS_URL,
  key: env.WINDLASS_KEY,
  queues: [env.CONTRACT_QUEUE ?? "default"],
  concurrency: number("CONTRACT_CONCURRENCY", 8),
  lease: number("CONTRACT_LEASE_MS", 2000),
  grace: number("CONTRACT_GRACE_MS", 10_000),
  id: env.CONTRACT_WORKER,
  logger: { debug: stderr, info: stderr, warn: stderr, error: stderr },
});

/** Register a handler that traces its start. */
function handle<Input>(name: string, handler: (context: JobContext<Input>, input: Input) => unknown): void {
  worker.handle<Input, unknown>(`contract.${name}.v1`, (context, input) => {
    trace(`start ${context.type} ${context.id} ${context.attempt}`);
    return handler(context, input);
  });
}

async function untilFile(context: JobContext<{ until: string }>, { until }: { until: string }): Promise<object> {
  trace(`hanging ${context.id}`);
  await exists(until);
  trace(`done ${context.id}`);
  return { done: true };
}

handle("echo", (_context, input) => input);
handle<{ times: number }>("fail", ({ attempt }, { times }) => {
  if (attempt <= times) throw new Error("planned failure");
  return { attempt };
});
handle("fatal", () => {
  throw new NonRetryable("bad input", { type: "BadInput" });
});
handle<{ ms: number }>("retry_after", ({ attempt }, { ms }) => {
  if (attempt === 1) throw new RetryAfter(ms);
  return { attempt };
});
handle("hang", async (context) => {
  trace(`hanging ${context.id}`);
  const stopped = await untilStopped(context);
  trace(`stopped ${context.id} ${stopped.reason}`);
  throw stopped;
});
handle("stubborn", untilFile);
handle("wait", untilFile);
handle<{ die?: boolean }>("steps", async (context, { die }) => {
  const step = (name: string, value: number): Promise<number> =>
    context.step(name, () => {
      trace(`step ${name}`);
      return value;
    });
  const [a, b] = [await step("a", 1), await step("b", 2)];
  if (die && context.attempt === 1) process.kill(process.pid, "SIGKILL");
  return { sum: a + b + (await step("c", 3)) };
});
handle<{ lines: number; message: string }>("talk", (context, { lines, message }) => {
  for (let line = 1; line <= lines; line++) context.log.info(`${message} ${line}`);
  void context.progress(0.5, "half");
  return null;
});
handle<{ size: number }>("large", (_context, { size }) => ({ text: "x".repeat(size) }));
handle("context", ({ type, attempt, queue, id }) => ({ type, attempt, queue, id }));
worker.handle("contract.noop.v1", () => null);

const ended = worker.run({ signals: true });
process.once("SIGTERM", () => process.stdout.write("draining\n")); // after the worker's own listener
process.stdout.write("ready\n");
await ended;
process.exit(0); // a handler that ignored its signal may still run
