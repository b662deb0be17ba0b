/**
 * Measures no-op jobs per second of one worker process over HTTP: `node dist/bench/noop.js [jobs] [concurrency]`.
 *
 * It needs a running server at WINDLASS_URL.
 */

import { Client } from "../src/index.js";
import { Worker } from "../src/worker/index.js";

const [jobs = 20_000, concurrency = 500] = process.argv.slice(2).map(Number);
const client = new Client();
const queue = `bench-${process.pid}`;
for (let left = jobs; left > 0; left -= 10_000) {
  const batch = Array.from({ length: Math.min(left, 10_000) }, () => ({ type: "bench.noop.v1", payload: {}, queue }));
  await client.jobs.submitMany({ jobs: batch });
}
let ended = 0;
const worker = new Worker({ queues: [queue], concurrency }).handle("bench.noop.v1", () => {
  if (++ended === jobs) void worker.stop();
  return null;
});
const [started, before] = [performance.now(), process.cpuUsage()];
await worker.run(); // until everything is reported
const seconds = (performance.now() - started) / 1000;
const { user, system } = process.cpuUsage(before);
const [rate, cpu] = [jobs / seconds, (user + system) / jobs];
process.stdout.write(
  `${jobs} jobs, concurrency ${concurrency}: ${rate.toFixed(0)} jobs/s, ${cpu.toFixed(0)} µs of CPU each\n`,
);
