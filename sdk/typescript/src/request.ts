/**
 * Sends requests with `fetch`: addresses, keys, retries and errors.
 *
 * Only requests that are safe to repeat are retried: reads, and requests with an idempotency key.
 */

import { ApiError, errorOf, Unavailable, Unreachable, WindlassError } from "./errors.js";
import { Pages } from "./pages.js";
import { readEvents, type StreamEvent } from "./stream.js";

const PREFIX = "/api/v1";
const DEFAULT_URL = "http://127.0.0.1:8080";
const AGAIN: ReadonlySet<number> = new Set([0, 429, 502, 503, 504]); // statuses after which a request is repeated
const FIRST_PAUSE = 200; // milliseconds
const MAX_PAUSE = 10_000;
const MAX_PATIENCE = 60_000; // milliseconds; requests are not repeated after a longer Retry-After
const SILENCE = 60_000; // milliseconds; the server sends something on a stream every 15 s

/** The options of a client. Times are in milliseconds. */
export interface ClientOptions {
  /** The address of the server. Default: the environment variable WINDLASS_URL, then http://127.0.0.1:8080. */
  url?: string | undefined;
  /** The API key. Default: the environment variable WINDLASS_API_KEY. */
  key?: string | undefined;
  /** The org to act for, which only the operator's key needs. Default: the environment variable WINDLASS_ORG. */
  org?: string | undefined;
  /** The timeout of each attempt at a request. Default: 30,000. */
  timeout?: number | undefined;
  /** The maximum number of retries of a request that is safe to repeat. Default: 3. */
  retries?: number | undefined;
  /** The function that sends requests. Default: the global `fetch`. */
  fetch?: typeof fetch | undefined;
}

/** The options of one request. */
export interface RequestOptions {
  /** Aborts the request, an iteration over pages, or a stream. */
  signal?: AbortSignal | undefined;
  /** The timeout in milliseconds, instead of the client's `timeout`. */
  timeout?: number | undefined;
  /** Additional headers. */
  headers?: Readonly<Record<string, string>> | undefined;
}

/** One operation of the API. */
export interface Call {
  readonly method: string;
  /** The path below /api/v1, with the values of its parameters. */
  readonly path: string;
  /** The names of the parameters that go into the query; "all" for requests without a body. */
  readonly query: readonly string[] | "all";
}

type Parameters = object | undefined;
type Read<T> = (response: Response) => Promise<T>;

/** Sends the requests of a client. */
export class Transport {
  readonly url: string;
  readonly timeout: number;
  readonly retries: number;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #fetch: typeof fetch;

  constructor(options: ClientOptions) {
    this.url = serverUrl(options.url || environment("WINDLASS_URL") || DEFAULT_URL);
    this.timeout = options.timeout ?? 30_000;
    this.retries = options.retries ?? 3;
    this.#headers = {
      ...header("key", "X-API-Key", options.key || environment("WINDLASS_API_KEY").split(",")[0]?.trim()),
      ...header("org", "X-Windlass-Org", options.org || environment("WINDLASS_ORG").trim()),
    };
    this.#fetch = options.fetch ?? ((...args) => globalThis.fetch(...args));
  }

  /** Send a request and return the `data` of the response. */
  async one<T>(call: Call, params?: Parameters, options: RequestOptions = {}): Promise<T> {
    return (await this.#perform<{ data: T }>(call, params, options, json)).data;
  }

  /** Send a request whose response has no content. */
  async none(call: Call, params?: Parameters, options: RequestOptions = {}): Promise<void> {
    await this.#perform(call, params, options, async (response) => await response.body?.cancel());
  }

  /** Send a request and return the response as a string. */
  async text(call: Call, params?: Parameters, options: RequestOptions = {}): Promise<string> {
    return await this.#perform(call, params, options, async (response) => await response.text());
  }

  /** Return a paginated list. `cursor` is the name of the parameter that receives `next`. */
  pages<T>(call: Call, cursor: string, params?: Parameters, options: RequestOptions = {}): Pages<T> {
    return new Pages<T>(async (position) => {
      const query = position === undefined ? params : { ...params, [cursor]: position };
      const answer = await this.#perform<{ data: T[]; next?: string | null }>(call, query, options, json);
      return { items: answer.data, next: answer.next ?? undefined };
    });
  }

  /** Yield the content of a file. */
  async *download(call: Call, params?: Parameters, options: RequestOptions = {}): AsyncGenerator<Uint8Array, void> {
    const body = await this.#perform(call, params, options, (response) => Promise.resolve(response.body));
    try {
      if (body !== null) yield* chunks(body);
    } catch (error) {
      options.signal?.throwIfAborted();
      throw this.#unreachable(error);
    }
  }

  /** Yield events until the stream has ended. A lost connection is reopened after the last event received. */
  stream(call: Call, params?: Parameters, options: RequestOptions = {}): AsyncGenerator<StreamEvent, void> {
    const headers = { Accept: "text/event-stream", "Cache-Control": "no-store", ...options.headers };
    return readEvents({
      retries: this.retries,
      silence: SILENCE,
      signal: options.signal,
      cutOff: () => new Unavailable(`${this.url} closed the stream repeatedly`, 0),
      connect: async (lastId, signal) => {
        const resumed = lastId === undefined ? {} : { "Last-Event-ID": lastId };
        const request = { ...options, signal, headers: { ...headers, ...resumed } };
        return await this.#send(call, params, request, (response) => Promise.resolve(response));
      },
      // A broken connection throws errors of the platform; an event that is not JSON throws a SyntaxError.
      mayResume: (error) => (error instanceof ApiError ? AGAIN.has(error.status) : !(error instanceof SyntaxError)),
    });
  }

  /** Send a request; repeat it after a failure if that is safe and may succeed. */
  async #perform<T>(call: Call, params: Parameters, options: RequestOptions, read: Read<T>): Promise<T> {
    const isRepeatable = call.method === "GET" || Boolean((params as { idempotency_key?: unknown })?.idempotency_key);
    for (let tries = 0, pause = FIRST_PAUSE; ; tries++, pause = Math.min(pause * 2, MAX_PAUSE)) {
      try {
        return await this.#send(call, params, options, read);
      } catch (error) {
        if (!(error instanceof ApiError) || !AGAIN.has(error.status)) throw error;
        // Jitter: clients that failed together do not retry together.
        const wait = error.retryAfter === undefined ? pause * (0.5 + Math.random() / 2) : error.retryAfter * 1000;
        if (tries >= this.retries || !isRepeatable || wait > MAX_PATIENCE) throw error;
        await sleep(wait, options.signal);
      }
    }
  }

  /** Send one request and read the response within the timeout; throw an `ApiError` if it is not a success. */
  async #send<T>(call: Call, params: Parameters, options: RequestOptions, read: Read<T>): Promise<T> {
    const [query, body] = split(call, params);
    const address = this.url + PREFIX + call.path + query;
    const limit = (options.timeout ?? this.timeout) + patience(params);
    // Not AbortSignal.timeout: the limit does not apply to the body of a stream or a download, which is read later.
    const expired = new AbortController();
    const timer = setTimeout(() => expired.abort(new Error(`no response within ${limit / 1000} s`)), limit);
    try {
      const response = await this.#fetch(address, {
        method: call.method,
        headers: {
          ...this.#headers,
          ...(body === undefined ? {} : { "Content-Type": "application/json" }),
          ...options.headers,
        },
        body: body ?? null,
        signal: options.signal === undefined ? expired.signal : AbortSignal.any([expired.signal, options.signal]),
      });
      if (response.ok) return await read(response);
      const seconds = response.headers.get("retry-after") ?? "";
      const retryAfter = /^\d+$/.test(seconds) ? Number(seconds) : undefined;
      throw errorOf(response.status, await response.text(), address, retryAfter);
    } catch (error) {
      if (error instanceof ApiError) throw error;
      options.signal?.throwIfAborted();
      throw this.#unreachable(expired.signal.aborted ? expired.signal.reason : error);
    } finally {
      clearTimeout(timer);
    }
  }

  #unreachable(error: unknown): Unreachable {
    const cause = error instanceof Error ? (error.cause ?? error) : error; // fetch puts the reason into `cause`
    const reason = cause instanceof Error ? cause.message || cause.name : String(cause);
    return new Unreachable(`cannot reach the server at ${this.url}: ${reason}`);
  }
}

/** A group of operations that share a transport. */
export class Group {
  protected readonly transport: Transport;

  constructor(transport: Transport) {
    this.transport = transport;
  }
}

/** Escape a value so that it is a single segment of a path; throw if that is impossible. */
export function segment(name: string, value: string | number): string {
  const text = String(value);
  if (text === "" || text === "." || text === "..") {
    throw new WindlassError(`${name} is ${JSON.stringify(text)}: it must be an id or a name`);
  }
  return encodeURIComponent(text);
}

/** Wait, or reject as soon as the signal is aborted. */
export async function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", abort, { once: true });
  });
}

/** Return the address of a server without the path of the API. */
export function serverUrl(url: string): string {
  const text = url.trim().replace(/\/+$/, "");
  const parts = URL.canParse(text) ? new URL(text) : undefined;
  if (parts === undefined || !/^https?:$/.test(parts.protocol) || parts.search || parts.hash) {
    throw new WindlassError(`url is ${JSON.stringify(url)}: it must look like http://127.0.0.1:8080`);
  }
  return text.replace(/\/api\/v1$/, "");
}

/** Return an environment variable; the empty string if it is not set, as in browsers. */
export function environment(name: string): string {
  try {
    const scope = globalThis as { process?: { env?: Record<string, string | undefined> } };
    return scope.process?.env?.[name] ?? "";
  } catch {
    return ""; // Deno without the permission to read it
  }
}

/** Yield the chunks of a body. Safari cannot iterate over a `ReadableStream`. */
export async function* chunks(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  const reader = body.getReader();
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value;
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function header(field: string, name: string, value: string | undefined): Record<string, string> {
  if (!value) return {};
  if (!/^[\x20-\x7e]+$/.test(value)) throw new WindlassError(`${field} has characters that are not allowed in a header`);
  return { [name]: value };
}

/** Return the query and the body. An object with a `toJSON` method, such as a `WorkflowBuilder`, is converted first. */
function split(call: Call, params: Parameters): [query: string, body: string | undefined] {
  const values = Object.entries(plain(params));
  const inQuery = (name: string): boolean => call.query === "all" || call.query.includes(name);
  const query = new URLSearchParams();
  for (const [name, value] of values) {
    if (!inQuery(name)) continue;
    for (const item of Array.isArray(value) ? (value as unknown[]) : [value as unknown]) {
      if (item === undefined || item === null) continue;
      query.append(name, item instanceof Date ? item.toISOString() : String(item));
    }
  }
  const text = query.toString() && `?${query.toString()}`;
  if (call.query === "all") return [text, undefined];
  return [text, JSON.stringify(Object.fromEntries(values.filter(([name]) => !inQuery(name))))];
}

function plain(params: Parameters): object {
  const source = params as { toJSON?: () => object } | undefined;
  return typeof source?.toJSON === "function" ? source.toJSON() : (source ?? {});
}

/** Return the time to add to the timeout, in milliseconds: a start may wait for the end of its run. */
function patience(params: Parameters): number {
  const wait = (params as { wait?: unknown } | undefined)?.wait;
  return typeof wait === "number" ? wait * 1000 : 0;
}

async function json<T extends { data: unknown }>(response: Response): Promise<T> {
  const text = await response.text();
  try {
    const answer: unknown = JSON.parse(text);
    if (typeof answer === "object" && answer !== null && "data" in answer) return answer as T;
  } catch {
    // not a response of Windlass
  }
  throw errorOf(response.status, text, response.url);
}
