/** HTTP servers on the loopback interface, with the responses that a test defines. */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

/** A request, as the server received it. */
export interface Received {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

/** Answers one request. */
export type Answer = (response: ServerResponse, request: Received) => void;

/** Serve these answers in turn, repeating the last one; return the address and the requests received. */
export async function serve(t: TestContext, ...answers: Answer[]): Promise<{ url: string; received: Received[] }> {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const { method = "", url = "", headers } = request;
      received.push({ method, url, headers, body: Buffer.concat(parts).toString() });
      const answer = answers[Math.min(received.length, answers.length) - 1];
      answer?.(response, received.at(-1) as Received);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received };
}

/** Answer with a JSON document. */
export function json(document: unknown, status = 200, headers: Record<string, string> = {}): Answer {
  return (response) => {
    response.writeHead(status, { "Content-Type": "application/json", ...headers });
    response.end(JSON.stringify(document));
  };
}

/** Answer with a problem document. */
export function problem(status: number, fields: Record<string, unknown>, headers?: Record<string, string>): Answer {
  return json({ type: "about:blank", title: "Problem", status, detail: "refused", ...fields }, status, headers);
}

/** Close the connection without an answer. */
export const hangUp: Answer = (response) => response.destroy();

/** Send events, then close the connection. */
export function events(...blocks: string[]): Answer {
  return (response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.end(blocks.map((block) => `${block}\n\n`).join(""));
  };
}
