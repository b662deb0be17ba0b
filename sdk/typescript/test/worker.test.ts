import assert from "node:assert/strict";
import { test } from "node:test";
import { NonRetryable, RetryAfter, Stopped, Worker, type JobContext } from "../src/worker/index.js";
import { refuse, send, Stage } from "./stage.js";

const ids = (reports: { job_id: string }[] | undefined): string[] => (reports ?? []).map((one) => one.job_id);

async function stopped({ signal }: JobContext<unknown>): Promise<never> {
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
  throw signal.reason;
}

test("a fetch names the queues, the types and the free places, and waits for jobs", async (t) => {
  const stage = await Stage.open(t);
  stage.work(t, () => null, { queues: ["a", "b"], concurrency: 7, lease: 9000 });
  await stage.until(() => stage.at("/workers/fetch").length > 0);
  assert.deepEqual(stage.at("/workers/fetch")[0], {
    queues: ["a", "b"],
    types: ["test"],
    count: 7,
    worker_id: "w1",
    visibility_timeout_ms: 9000,
    wait_ms: 4500,
  });
});

test("outcomes that are ready together share a request, later ones join the next", async (t) => {
  const stage = await Stage.open(t);
  let answer: (() => void) | undefined;
  const usual = stage.replies["/workers/ack"];
  stage.replies["/workers/ack"] = (body, response) => {
    if (answer !== undefined) return usual?.(body, response);
    answer = () => send(response, 200, usual?.(body, response));
    return response; // held
  };
  for (const id of ["a", "b", "c"]) stage.submit(id);
  stage.work(t, (_context, input) => input);
  await stage.until(() => answer !== undefined);
  for (const id of ["d", "e"]) stage.submit(id);
  await stage.until(() => stage.at("/workers/fetch").length === 4);
  answer?.();
  await stage.until(() => stage.reports("ack").length === 5);
  assert.deepEqual(
    stage.at("/workers/ack").map((body) => ids(body.jobs)),
    [
      ["a", "b", "c"],
      ["d", "e"],
    ],
  );
  assert.deepEqual(stage.reports("ack")[0], { job_id: "a", fence: 1, result: { id: "a" } });
});

test("the error of a handler decides what becomes of its job", async (t) => {
  const stage = await Stage.open(t);
  const thrown: Record<string, () => unknown> = {
    plain: () => {
      throw new TypeError("broken");
    },
    final: () => {
      throw new NonRetryable("bad input", { type: "BadInput" });
    },
    later: () => {
      throw new RetryAfter(1500);
    },
    text: () => {
      throw "just text";
    }, // eslint-disable-line
    cycle: () => {
      const value: { own?: object } = {};
      value.own = value;
      return value;
    },
  };
  for (const id of Object.keys(thrown)) stage.submit(id);
  stage.work(t, (context) => thrown[context.id]?.());
  await stage.until(() => stage.reports("nack").length === 5);
  const reports = new Map(
    stage
      .reports("nack")
      .map(({ job_id, error, delay_ms }) => [job_id, [error?.type, error?.message, error?.retryable, delay_ms]]),
  );
  assert.deepEqual(reports.get("plain"), ["TypeError", "broken", undefined, undefined]);
  assert.deepEqual(reports.get("final"), ["BadInput", "bad input", false, undefined]);
  assert.deepEqual(reports.get("later"), ["RetryAfter", "retry later", undefined, 1500]);
  assert.deepEqual(reports.get("text"), ["Error", "just text", undefined, undefined]);
  assert.match(String(reports.get("cycle")), /^Invalid,the result cannot be encoded as JSON: .*,false,$/s);
});

test("a report without an answer is sent again, and a conflict then is no surprise", async (t) => {
  const stage = await Stage.open(t);
  const usual = stage.replies["/workers/ack"];
  stage.replies["/workers/ack"] = () => {
    if (stage.at("/workers/ack").length < 3) return undefined; // recorded, but the answer is lost
    stage.replies["/workers/ack"] = usual as never;
    return { results: [{ job_id: "a", error: { code: "conflict", message: "it has ended" } }] };
  };
  stage.submit("a");
  stage.work(t, () => 1, { concurrency: 1 });
  await stage.until(() => stage.reports("ack").length === 3);
  stage.submit("b");
  await stage.until(() => ids(stage.reports("ack")).includes("b"));
  assert.deepEqual(ids(stage.reports("ack")), ["a", "a", "a", "b"]);
});

test("a batch that is refused is sent one by one, and what is refused alone fails", async (t) => {
  const stage = await Stage.open(t);
  const usual = stage.replies["/workers/ack"];
  stage.replies["/workers/ack"] = (body, response) =>
    ids(body.jobs).includes("bad")
      ? refuse(422, "invalid_request", "result is too large")(body, response)
      : usual?.(body, response);
  for (const id of ["a", "bad", "b"]) stage.submit(id);
  stage.work(t, () => 1);
  await stage.until(() => stage.reports("nack").length === 1);
  assert.deepEqual(
    stage.at("/workers/ack").map((body) => ids(body.jobs)),
    [["a", "bad", "b"], ["a"], ["bad"], ["b"]],
  );
  const [report] = stage.reports("nack");
  assert.equal(report?.job_id, "bad");
  assert.deepEqual(report?.error, {
    type: "Invalid",
    message: "the server refused the result: result is too large",
    retryable: false,
  });
});

test("a job that a heartbeat does not extend is lost: its handler stops and nothing is reported", async (t) => {
  const stage = await Stage.open(t);
  stage.replies["/workers/heartbeat"] = () => ({ jobs_extended: [], jobs_cancelled: [] });
  const reasons: string[] = [];
  stage.work(
    t,
    async (context) => {
      if (context.id === "next") return 1;
      return await stopped(context).catch((error: Stopped) => reasons.push(error.reason));
    },
    { lease: 150, concurrency: 1 },
  );
  stage.submit("a");
  await stage.until(() => stage.at("/workers/fetch").length === 2); // its slot is free again
  stage.submit("next");
  await stage.until(() => stage.reports("ack").length > 0);
  assert.deepEqual(reasons, ["lost"]);
  assert.deepEqual(ids([...stage.reports("ack"), ...stage.reports("nack")]), ["next"]);
});

test("a lost job that comes back while its handler still runs here is given back", async (t) => {
  const stage = await Stage.open(t);
  stage.replies["/workers/heartbeat"] = () => ({ jobs_extended: [], jobs_cancelled: [] });
  let finish: () => void = () => undefined;
  const signals: AbortSignal[] = [];
  stage.work(
    t,
    async ({ signal }) => {
      signals.push(signal);
      signal.addEventListener("abort", stage.changed);
      await new Promise<void>((resolve) => (finish = resolve));
    },
    { lease: 150 },
  );
  stage.submit("a");
  await stage.until(() => signals[0]?.aborted === true);
  stage.submit("a");
  await stage.until(() => stage.reports("nack").length === 1);
  assert.deepEqual(stage.reports("nack"), [{ job_id: "a", fence: 2, requeue: true, delay_ms: 1000 }]);
  assert.equal(signals.length, 1);
  finish();
});

test("a lease that runs out while the server is silent is lost", async (t) => {
  const stage = await Stage.open(t);
  stage.replies["/workers/heartbeat"] = () => undefined;
  let reason = "";
  stage.work(
    t,
    async (context) => {
      await stopped(context).catch((error: Stopped) => (reason = error.reason));
      stage.changed();
    },
    { lease: 150 },
  );
  stage.submit("a");
  await stage.until(() => reason !== "");
  assert.equal(reason, "lost");
});

test("a cancelled job stops its handler and is reported as cancelled", async (t) => {
  const stage = await Stage.open(t);
  stage.replies["/workers/heartbeat"] = (body) => ({ jobs_extended: [], jobs_cancelled: body.active_jobs });
  stage.work(t, stopped, { lease: 150 });
  stage.submit("a");
  await stage.until(() => stage.reports("nack").length > 0);
  assert.equal(stage.reports("nack")[0]?.error?.code, "cancelled");
});

test("a job that came back while a heartbeat was on its way is not lost", async (t) => {
  const stage = await Stage.open(t);
  const resolve: (() => void)[] = [];
  let answer: (() => void) | undefined;
  stage.replies["/workers/heartbeat"] = (body, response) => {
    if ((body.active_jobs as string[]).length === 0 || answer !== undefined)
      return { jobs_extended: body.active_jobs, jobs_cancelled: [] };
    answer = () => send(response, 200, { jobs_extended: [], jobs_cancelled: [] }); // as it was when the job had ended
    return response;
  };
  const signals: AbortSignal[] = [];
  stage.work(
    t,
    async ({ signal }) => {
      signals.push(signal);
      await new Promise<void>((end) => resolve.push(end));
    },
    { lease: 300 },
  );
  stage.submit("a");
  await stage.until(() => answer !== undefined);
  resolve[0]?.();
  await stage.until(() => stage.reports("ack").length === 1);
  stage.submit("a");
  await stage.until(() => stage.at("/workers/fetch").length === 3);
  const before = stage.at("/workers/heartbeat").length;
  answer?.();
  await stage.until(() => stage.at("/workers/heartbeat").length > before);
  assert.deepEqual(
    signals.map((one) => one.aborted),
    [false, false],
  );
  resolve[1]?.();
  await stage.until(() => stage.reports("ack").length === 2);
  assert.deepEqual(
    stage.reports("ack").map((one) => one.fence),
    [1, 2],
  );
});

test("a time limit stops the handler, and the attempt fails whatever it returns", async (t) => {
  const stage = await Stage.open(t);
  stage.work(t, async (context) => await stopped(context).catch((error: Stopped) => error.reason));
  stage.submit("a", { timeout_ms: 20 });
  await stage.until(() => stage.reports("nack").length > 0);
  assert.equal(stage.reports("nack")[0]?.error?.code, "timeout");
  assert.equal(stage.reports("ack").length, 0);
});

test("stopping lets handlers finish, and gives back what does not", async (t) => {
  const stage = await Stage.open(t);
  let finish: () => void = () => undefined;
  const { worker, ended } = stage.work(
    t,
    async (context) => {
      if (context.id === "quick") return await new Promise<void>((resolve) => (finish = resolve));
      if (context.id === "polite") return await stopped(context);
      return await new Promise<void>(() => undefined);
    },
    { grace: 300 },
  );
  for (const id of ["quick", "polite", "stubborn"]) stage.submit(id);
  await stage.until(() => stage.at("/workers/fetch").length === 2);
  const stopping = worker.stop();
  finish();
  await stopping;
  await ended;
  assert.deepEqual(ids(stage.reports("ack")), ["quick"]);
  assert.deepEqual(
    stage.reports("nack").map((one) => [one.job_id, one.requeue]),
    [
      ["polite", true],
      ["stubborn", true],
    ],
  );
  assert.equal(stage.at("/workers/heartbeat").at(-1)?.state, "stopped");
});

test("a second stop gives back at once", async (t) => {
  const stage = await Stage.open(t);
  const { worker } = stage.work(t, async () => await new Promise<void>(() => undefined), { grace: 3_600_000 });
  stage.submit("a");
  await stage.until(() => stage.at("/workers/fetch").length === 2);
  void worker.stop();
  await worker.stop({ grace: 0 });
  assert.deepEqual(stage.reports("nack"), [{ job_id: "a", fence: 1, requeue: true }]);
});

test("directives of the server: quiet fetches no more, terminate stops", async (t) => {
  const stage = await Stage.open(t);
  let directive = "quiet";
  stage.replies["/workers/heartbeat"] = (body) => ({ directive, jobs_extended: body.active_jobs, jobs_cancelled: [] });
  const { ended } = stage.work(t, () => null, { lease: 150 });
  await stage.until(() => stage.at("/workers/heartbeat").length > 0);
  stage.submit("a"); // for the fetch that waits
  await stage.until(() => stage.reports("ack").length === 1 && stage.at("/workers/heartbeat").length > 3);
  assert.equal(stage.at("/workers/fetch").length, 1);
  directive = "";
  await stage.until(() => stage.at("/workers/fetch").length === 2);
  directive = "terminate";
  await ended;
});

test("a server that cannot answer is tried again; one that refuses the first fetch ends the worker", async (t) => {
  const stage = await Stage.open(t);
  const usual = stage.replies["/workers/fetch"];
  stage.replies["/workers/fetch"] = (body, response) =>
    stage.at("/workers/fetch").length < 3 ? refuse(503, "unavailable")(body, response) : usual?.(body, response);
  stage.submit("a");
  stage.work(t, () => null);
  await stage.until(() => stage.reports("ack").length === 1);

  const strict = await Stage.open(t);
  strict.replies["/workers/fetch"] = refuse(401, "unauthorized", "the key is unknown");
  await assert.rejects(strict.work(t, () => null).ended, {
    name: "WorkerRequestError",
    status: 401,
    message: "the key is unknown",
  });
});

test("a step is recorded before it returns, and not done again", async (t) => {
  const stage = await Stage.open(t);
  const calls: string[] = [];
  let failures = 2;
  stage.replies["/jobs/a/steps"] = (body, response) =>
    failures-- > 0 ? refuse(503, "unavailable")(body, response) : { recorded: 1 };
  stage.submit("a", { steps: [{ name: "pack", value: 1 }] });
  stage.work(t, async (context) => [
    await context.step("pack", () => calls.push("pack")),
    await context.step("pack", () => calls.push("pack#2")),
    await context.step("at", () => new Date(0)),
    await context.step("nothing", () => undefined),
  ]);
  await stage.until(() => stage.reports("ack").length === 1);
  assert.deepEqual(stage.reports("ack")[0]?.result, [1, 1, "1970-01-01T00:00:00.000Z", null]);
  assert.deepEqual(calls, ["pack#2"]);
  const sent = stage.at("/jobs/a/steps");
  assert.deepEqual(sent[0], { worker_id: "w1", fence: 1, steps: [{ name: "pack#2", value: 1 }] });
  assert.equal(sent.length, 5);
});

test("a step that is refused because of the fence stops the handler", async (t) => {
  const stage = await Stage.open(t);
  stage.replies["/jobs/a/steps"] = refuse(409, "conflict");
  let error: unknown;
  stage.work(
    t,
    async (context) =>
      await context
        .step("pack", () => 1)
        .catch((thrown: unknown) => {
          error = thrown;
          stage.changed();
        }),
  );
  stage.submit("a");
  await stage.until(() => error !== undefined);
  assert.ok(error instanceof Stopped && error.reason === "lost");
  assert.equal(stage.reports("ack").length, 0);
});

test("log lines and progress arrive before the outcome of their job", async (t) => {
  const stage = await Stage.open(t);
  stage.submit("a");
  stage.work(t, (context) => {
    context.log.info("first");
    context.log.warn("second");
    void context.progress(0.1);
    void context.progress(0.5, "half");
  });
  await stage.until(() => stage.reports("ack").length === 1);
  const paths = stage.received.map((one) => one.path).filter((path) => !/fetch|heartbeat/.test(path));
  assert.deepEqual(paths.slice(0, 2).sort(), ["/jobs/a/progress", "/workers/logs"]);
  assert.equal(paths[2], "/workers/ack");
  const lines = stage.at("/workers/logs")[0]?.lines as Record<string, unknown>[];
  assert.deepEqual(
    lines.map(({ job_id, fence, level, message }) => [job_id, fence, level, message]),
    [
      ["a", 1, "info", "first"],
      ["a", 1, "warning", "second"],
    ],
  );
  assert.deepEqual(stage.at("/jobs/a/progress")[0], { progress: 0.5, message: "half", worker_id: "w1", fence: 1 });
});

test("a log line that is refused is named in the log of the worker, and the job ends as usual", async (t) => {
  const stage = await Stage.open(t);
  const error = { code: "invalid_request", message: "lines[1].level is wrong", retryable: false };
  stage.replies["/workers/logs"] = () => ({ accepted: 1, refused: [{ index: 1, error }] });
  stage.submit("a");
  stage.work(t, (context) => {
    context.log.info("first");
    context.log.info("second");
  });
  await stage.until(() => stage.reports("ack").length === 1);
  assert.ok(stage.logged.includes("1 log lines of jobs were refused: lines[1].level is wrong"), stage.logged.join());
  assert.equal(stage.at("/workers/logs").length, 1);
});

test("long log lines are cut, and many of them are sent in several requests", async (t) => {
  const stage = await Stage.open(t);
  stage.submit("a");
  stage.work(t, (context) => {
    for (let n = 0; n < 300; n++) context.log.info("\u0001".repeat(20_000));
  });
  await stage.until(() => stage.reports("ack").length === 1);
  const requests = stage.at("/workers/logs").map(({ lines }) => lines as { message: string }[]);
  assert.ok(requests.length > 1);
  assert.ok(requests.every((lines) => JSON.stringify(lines).length < 5_000_000));
  assert.deepEqual(new Set(requests.flat().map(({ message }) => message.length)), new Set([8192]));
  assert.equal(requests.flat().length, 300);
});

test("a job that cannot be read fails alone", async (t) => {
  const stage = await Stage.open(t);
  stage.submit("strange", { args: undefined, steps: 7 });
  stage.submit("good");
  stage.work(t, (context) => context.id);
  await stage.until(() => stage.reports("ack").length + stage.reports("nack").length === 2);
  assert.deepEqual(ids(stage.reports("ack")), ["good"]);
  assert.deepEqual(ids(stage.reports("nack")), ["strange"]);
});

test("a worker is refused options that it cannot work with", async () => {
  assert.throws(() => new Worker({ queues: [] }), /queues is empty: name at least one queue/);
  assert.throws(() => new Worker({ concurrency: 0 }), /concurrency is 0: it must be an integer from 1 to 10000/);
  assert.throws(() => new Worker({ lease: 5 }), /lease is 5: it must be/);
  assert.throws(() => new Worker().handle("a", () => 1).handle("a", () => 1), /a already has a handler/);
  await assert.rejects(new Worker().run(), /the worker has no handlers/);
});
