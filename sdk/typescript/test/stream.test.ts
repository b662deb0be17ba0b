import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { Client, NotFound, Unavailable, type StreamEvent } from "../src/index.js";
import { EventParser } from "../src/stream.js";
import { events, hangUp, problem, serve, type Answer } from "./loopback.js";

const end = "event: end\ndata: {}";

async function read(stream: AsyncIterable<StreamEvent>): Promise<StreamEvent[]> {
  const all: StreamEvent[] = [];
  for await (const event of stream) all.push(event);
  return all;
}

async function streamOf(t: TestContext, ...answers: Answer[]) {
  const { url, received } = await serve(t, ...answers);
  return { client: new Client({ url, retries: 2 }), received };
}

test("a stream yields events until its end", async (t) => {
  const { client, received } = await streamOf(t, events(": hello", 'id: 5\nevent: line\ndata: {"a":\ndata: 1}', end));
  assert.deepEqual(await read(client.runs.followLogs("r1", { tail: 3 })), [
    { id: "5", event: "line", data: { a: 1 } },
    { id: "5", event: "end", data: {} },
  ]);
  assert.equal(received[0]?.url, "/api/v1/runs/r1/logs/stream?tail=3");
  assert.equal(received[0]?.headers.accept, "text/event-stream");
});

test("a lost connection is resumed after the last complete event", async (t) => {
  const half: Answer = (response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write("retry: 1\n\nid: 7\ndata: 1\n\nid: 8\ndata: 2\n", () => response.destroy());
  };
  const { client, received } = await streamOf(t, half, hangUp, problem(503, {}), events("id: 8\ndata: 2", end));
  const seen = await read(client.stream());
  assert.deepEqual(
    seen.map((event) => event.data),
    [1, 2, {}],
  );
  assert.deepEqual(
    received.map((one) => one.headers["last-event-id"]),
    [undefined, "7", "7", "7"],
  );
});

test("a stream that is lost again and again, or refused, is an error", async (t) => {
  const cut = await streamOf(t, events("retry: 1"));
  await assert.rejects(read(cut.client.stream()), Unavailable);
  assert.equal(cut.received.length, 4);
  const unknown = await streamOf(t, problem(404, { what: "run", key: "r1" }));
  await assert.rejects(read(unknown.client.runs.stream("r1")), NotFound);
  assert.equal(unknown.received.length, 1);
});

test("a stream of something that has ended is empty", async (t) => {
  const { client } = await streamOf(t, (response) => void response.writeHead(204).end());
  assert.deepEqual(await read(client.runs.stream("r1")), []);
});

test("a stream is aborted by its signal, and closed when its reader stops", async (t) => {
  let closed: () => void = () => undefined;
  const isClosed = new Promise<void>((resolve) => (closed = resolve));
  const open: Answer = (response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" }).write("data: 1\n\n");
    response.on("close", closed);
  };
  const { client } = await streamOf(t, open);
  for await (const event of client.stream()) {
    assert.equal(event.data, 1);
    break;
  }
  await isClosed;
  const controller = new AbortController();
  const reading = read(client.stream({}, { signal: controller.signal }));
  setTimeout(() => controller.abort(new Error("enough")), 50);
  await assert.rejects(reading, /enough/);
});

test("the parser accepts every line ending, wherever the text is cut", () => {
  const text = "id: 1\r\nevent: a\r\ndata: [1]\r\n\r\nid: 2\rdata:[2]\r\rid: 3\ndata: [3]\n\n";
  const whole = new EventParser().feed(`${text}\n`);
  assert.deepEqual(
    whole.map((event) => [event.id, event.event, event.data]),
    [
      ["1", "a", [1]],
      ["2", "message", [2]],
      ["3", "message", [3]],
    ],
  );
  const parser = new EventParser();
  assert.deepEqual([...text].flatMap((letter) => parser.feed(letter)).concat(parser.feed("\n")), whole);
});
