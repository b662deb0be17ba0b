import assert from "node:assert/strict";
import { test } from "node:test";
import * as windlass from "../src/index.js";
import {
  Client,
  Conflict,
  Forbidden,
  Invalid,
  NotFound,
  QuotaExceeded,
  RateLimited,
  Unauthorized,
  Unreachable,
} from "../src/index.js";
import { hangUp, json, problem, serve, type Answer } from "./loopback.js";

const found = json({ data: { id: "r1", status: "running" } });
const soon = { "Retry-After": "0" };

test("an operation returns the data of the answer", async (t) => {
  const { url, received } = await serve(t, found);
  const client = new Client({ url: `${url}/api/v1/`, key: "secret", org: "acme" });
  assert.deepEqual(await client.runs.get("r1"), { id: "r1", status: "running" });
  const [request] = received;
  assert.equal(`${request?.method} ${request?.url} ${request?.body}`, "GET /api/v1/runs/r1 ");
  assert.equal(request?.headers["x-api-key"], "secret");
  assert.equal(request?.headers["x-windlass-org"], "acme");
});

test("a parameter goes where the API expects it: into the query or into the body", async (t) => {
  const { url, received } = await serve(t, found, json({ data: [] }));
  const client = new Client({ url });
  await client.start("orders", { input: { order: 7 }, labels: { team: "a" }, wait: 5 });
  await client.runs.list({ status: ["failed", "timeout"], limit: 2 }).page();
  assert.equal(`${received[0]?.method} ${received[0]?.url}`, "POST /api/v1/workflows/orders/runs?wait=5");
  assert.deepEqual(JSON.parse(received[0]?.body ?? ""), { input: { order: 7 }, labels: { team: "a" } });
  assert.equal(received[1]?.url, "/api/v1/runs?status=failed&status=timeout&limit=2");
});

test("a value cannot reach beyond its place in a path", async (t) => {
  const { url, received } = await serve(t, found);
  await new Client({ url }).runs.get("../workflows?x=1#y");
  assert.equal(received[0]?.url, "/api/v1/runs/..%2Fworkflows%3Fx%3D1%23y");
  for (const name of ["", ".", ".."])
    assert.throws(() => new Client({ url }).runs.get(name), /runId is .*: it must be an id/);
});

test("a list is read page by page", async (t) => {
  const page: Answer = (response, { url }) => {
    const next = new URL(url, "http://127.0.0.1").searchParams.get("before");
    json(next === null ? { data: [{ id: 3 }, { id: 2 }], next: "2" } : { data: [{ id: 1 }], next: null })(response, {
      url,
    } as never);
  };
  const { url, received } = await serve(t, page);
  const runs = new Client({ url }).runs.list({ workflow: "orders" });
  assert.deepEqual(
    (await runs.all()).map((run) => Number(run.id)),
    [3, 2, 1],
  );
  assert.deepEqual(
    received.map((one) => one.url),
    ["/api/v1/runs?workflow=orders", "/api/v1/runs?workflow=orders&before=2"],
  );
  const first = await runs.page();
  assert.equal(first.next, "2");
  assert.equal((await runs.page(first.next)).next, undefined);
  assert.equal((await runs.all(1)).length, 1);
});

test("an answer without content, as text and in parts", async (t) => {
  const noContent: Answer = (response) => void response.writeHead(204).end();
  const plain: Answer = (response) =>
    void response.writeHead(200, { "Content-Type": "text/plain" }).end("first\nsecond\n");
  const { url, received } = await serve(t, noContent, plain, plain);
  const client = new Client({ url });
  assert.equal(await client.jobs.delete("j1"), undefined);
  assert.equal(await client.runs.logText("r1", { attempt: 2 }), "first\nsecond\n");
  const parts: Uint8Array[] = [];
  for await (const part of client.jobs.download("j1", "report.pdf")) parts.push(part);
  assert.equal(Buffer.concat(parts).toString(), "first\nsecond\n");
  assert.equal(received[0]?.method, "DELETE");
  assert.equal(received[1]?.url, "/api/v1/runs/r1/logs?attempt=2&format=text");
});

test("a refusal becomes an error with the fields of its problem document", async (t) => {
  const cases = [
    [404, { what: "run", key: "r1", hint: "runs are kept for 30 days" }, NotFound],
    [409, {}, Conflict],
    [401, {}, Unauthorized],
    [403, { scope: "start" }, Forbidden],
    [422, { errors: [{ field: "input.order", message: "must be an integer" }] }, Invalid],
    [429, {}, RateLimited],
    [402, { code: "workflows", limit: 3, used: 3 }, QuotaExceeded],
  ] as const;
  for (const [status, fields, kind] of cases) {
    const { url } = await serve(t, problem(status, fields));
    await assert.rejects(new Client({ url, retries: 0 }).runs.get("r1"), (error) => {
      assert.ok(error instanceof kind);
      assert.equal(error.constructor, kind);
      assert.equal(error.name, kind.name);
      assert.equal(error.status, status);
      assert.equal(error.message, "refused");
      const { errors, ...plain } = { errors: undefined, ...fields };
      for (const [name, value] of Object.entries(plain)) assert.equal(error[name as keyof typeof error], value, name);
      assert.equal(error.field, errors?.[0].field);
      return true;
    });
  }
});

test("an answer that is not one of Windlass is named with its address", async (t) => {
  const page: Answer = (response) =>
    void response.writeHead(200, { "Content-Type": "text/html" }).end("<h1>hello</h1>");
  const { url } = await serve(t, page);
  await assert.rejects(
    new Client({ url, retries: 0 }).stats(),
    /\/api\/v1\/stats answered 200, .*check the address: <h1>hello/,
  );
});

test("a read is repeated until it succeeds", async (t) => {
  const { url, received } = await serve(t, hangUp, problem(503, {}, soon), problem(429, {}, soon), found);
  assert.equal((await new Client({ url }).runs.get("r1")).id, "r1");
  assert.equal(received.length, 4);
});

test("a read is not repeated more often than `retries`, nor after a refusal", async (t) => {
  const busy = await serve(t, problem(503, {}, soon));
  await assert.rejects(new Client({ url: busy.url, retries: 2 }).runs.get("r1"), windlass.Unavailable);
  assert.equal(busy.received.length, 3);
  const refusing = await serve(t, problem(404, { what: "run", key: "r1" }));
  await assert.rejects(new Client({ url: refusing.url }).runs.get("r1"), NotFound);
  assert.equal(refusing.received.length, 1);
  const patient = await serve(t, problem(503, {}, { "Retry-After": "3600" }));
  await assert.rejects(new Client({ url: patient.url }).runs.get("r1"), { retryAfter: 3600 });
  assert.equal(patient.received.length, 1);
});

test("a write is repeated only with an idempotency key", async (t) => {
  const one = await serve(t, problem(503, {}, soon), found);
  await assert.rejects(new Client({ url: one.url }).start("orders"), windlass.Unavailable);
  assert.equal(one.received.length, 1);
  const other = await serve(t, problem(503, {}, soon), found);
  await new Client({ url: other.url }).start("orders", { idempotency_key: "order-7" });
  assert.equal(other.received.length, 2);
});

test("a server that does not answer in time, or not at all, is unreachable", async (t) => {
  const silent = await serve(t, () => undefined);
  const client = new Client({ url: silent.url, timeout: 50, retries: 0 });
  await assert.rejects(
    client.stats(),
    (error) => error instanceof Unreachable && /no response within 0.05 s/.test(error.message),
  );
  const closed = await serve(t, hangUp);
  await assert.rejects(new Client({ url: closed.url, retries: 0 }).stats(), /cannot reach the server at http:\/\/127/);
});

test("a request is aborted by its signal, also while it waits for the next try", async (t) => {
  const { url } = await serve(t, problem(503, {}, { "Retry-After": "30" }));
  const controller = new AbortController();
  const answer = new Client({ url }).stats({ signal: controller.signal });
  setTimeout(() => controller.abort(new Error("enough")), 20);
  await assert.rejects(answer, /enough/);
});

test("waiting for a run ends with the run", async (t) => {
  const ended = json({ data: { id: "r1", status: "completed" } });
  const { url, received } = await serve(t, found, ended, found);
  const client = new Client({ url });
  assert.equal((await client.runs.wait("r1")).status, "completed");
  assert.equal(received.length, 2);
  await assert.rejects(client.runs.wait("r1", { timeout: 1 }), /run r1 is still running after 1 ms, and continues/);
});

test("a client is refused what cannot be an address or a key", () => {
  for (const url of ["127.0.0.1", "ftp://a", "http://a?x=1"])
    assert.throws(() => new Client({ url }), /url is .*: it must look like/);
  assert.throws(() => new Client({ key: "näh" }), /key has characters that are not allowed in a header/);
});
