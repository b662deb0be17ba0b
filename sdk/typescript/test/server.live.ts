/** The client and the worker against a Windlass server at WINDLASS_URL, which tests/sdk/test_typescript.py starts. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Client, Invalid, job, NotFound, ref, workflow } from "../src/index.js";
import { Stopped, Worker } from "../src/worker/index.js";

const client = new Client();
const worker = new Worker({ queues: ["live"], lease: 2000, grace: 5000 });
const stops: string[] = [];
let ended: Promise<void>;

before(() => {
  worker.handle<{ order: number }, { items: number[] }>("live.pick.v1", async (context, { order }) => {
    context.log.info(`picking order ${order}`);
    await context.progress(0.5, "half");
    return { items: [order, order + 1] };
  });
  worker.handle<number[]>("live.pack.v1", (_context, items) => items.length);
  worker.handle("live.hang.v1", async ({ signal }) => {
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    stops.push((signal.reason as Stopped).reason);
    throw signal.reason;
  });
  worker.handle<undefined>("live.steps.v1", async (context) => {
    const first = await context.step("first", () => `attempt ${context.attempt}`);
    if (context.attempt === 1) throw new Error("once");
    return [first, await context.step("second", () => `attempt ${context.attempt}`)];
  });
  ended = worker.run();
});

after(async () => {
  await worker.stop();
  await ended;
});

async function jobThatEnds(id: string) {
  for await (const _event of client.jobs.stream(id)); // until it has ended
  return await client.jobs.get(id);
}

test("a workflow that is built and deployed here runs on this worker", async () => {
  const options = { queue: "live" };
  const orders = workflow("orders", { input: { type: "object", required: ["order"] } })
    .step("pick", job("live.pick.v1", { order: ref.input("order") }), options)
    .step("pack", job("live.pack.v1", ref.output("pick", "items")), options);
  assert.equal((await client.workflows.deploy(orders)).version, 1);
  const started = await client.start("orders", { input: { order: 7 }, idempotency_key: "order-7" });
  const events: string[] = [];
  for await (const event of client.runs.stream(started.run_id)) events.push(event.event);
  assert.equal(events.at(-1), "end");
  assert.equal((await client.runs.wait(started.run_id)).status, "completed");
  assert.equal(await client.runs.output(started.run_id), 2);
  const tasks = await client.tasks.list(started.run_id).all();
  assert.deepEqual(
    tasks.map((task) => [task.name, task.status]),
    [
      ["pick", "success"],
      ["pack", "success"],
    ],
  );
  assert.equal(
    (await client.start("orders", { input: { order: 7 }, idempotency_key: "order-7" })).run_id,
    started.run_id,
  );
  assert.deepEqual(
    (await client.runs.list({ workflow: "orders", limit: 1 }).all()).map((run) => run.id),
    [started.run_id],
  );
});

test("refusals of the server have the types and the fields of this package", async () => {
  await assert.rejects(
    client.workflows.deploy({ name: "bad", tasks: [{ name: "a" }, { name: "b", needs: "c" }] }),
    (error) => {
      assert.ok(error instanceof Invalid);
      assert.ok(error.errors.length >= 2);
      return true;
    },
  );
  const missing = client.runs.get("01890a5d-ac96-774b-bcce-b302099a8057");
  await assert.rejects(missing, (error) => error instanceof NotFound && error.what === "run");
});

test("a job has the lines, the progress and the result that its handler gave", async () => {
  const { id } = await client.jobs.submit({ type: "live.pick.v1", payload: { order: 1 }, queue: "live" });
  const ended = await jobThatEnds(id);
  assert.equal(ended.status, "succeeded");
  assert.deepEqual(ended.result, { items: [1, 2] });
  assert.equal(ended.progress?.message, "half");
  assert.deepEqual(
    (await client.jobs.logs(id).all()).map((line) => line.message),
    ["picking order 1"],
  );
});

test("a recorded step is not done again after a failure", async () => {
  const retry = { kind: "constant", base: 0 } as const;
  const { id } = await client.jobs.submit({ type: "live.steps.v1", queue: "live", retry });
  assert.deepEqual((await jobThatEnds(id)).result, ["attempt 1", "attempt 2"]);
  assert.deepEqual(
    (await client.jobs.steps(id).all()).map((step) => step.name),
    ["first", "second"],
  );
});

test("a cancelled job stops its handler", async () => {
  const { id } = await client.jobs.submit({ type: "live.hang.v1", queue: "live" });
  while ((await client.jobs.get(id)).status !== "leased");
  await client.jobs.cancel(id);
  assert.equal((await jobThatEnds(id)).status, "cancelled");
  while (stops.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  assert.deepEqual(stops, ["cancelled"]);
});
