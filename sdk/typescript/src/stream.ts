/** Server-sent events: parsing, and resuming after a lost connection. */

import { chunks, sleep } from "./request.js";

/** An event: `id` is the position to resume after, `event` the event type, `data` the decoded content. */
export interface StreamEvent<T = unknown> {
  readonly id: string;
  readonly event: string;
  readonly data: T;
}

/** How to connect to a stream. */
export interface StreamSource {
  /** Connect after the event with this id. Throw an `ApiError` if there is no stream. */
  connect(lastId: string | undefined, signal: AbortSignal): Promise<Response>;
  /** Return whether to connect again after this error of `connect`, or of reading its response. */
  mayResume(error: unknown): boolean;
  /** Return the error for connections that repeatedly end without an `end` event. */
  cutOff(): Error;
  readonly retries: number;
  /** Milliseconds without a byte after which a connection is considered lost. */
  readonly silence: number;
  readonly signal?: AbortSignal | undefined;
}

const END = "end"; // the last event of a stream that ends
const FIRST_PAUSE = 1000; // milliseconds before a new connection, unless the server sends another number

/** Yield events until the stream has ended. */
export async function* readEvents(source: StreamSource): AsyncGenerator<StreamEvent, void> {
  const parser = new EventParser();
  for (let failures = 0; ;) {
    const silent = new AbortController();
    const signal = source.signal === undefined ? silent.signal : AbortSignal.any([silent.signal, source.signal]);
    let error: unknown = source.cutOff();
    try {
      const response = await source.connect(parser.lastId, signal);
      if (response.status === 204 || response.body === null) return; // the stream has ended
      for await (const event of eventsOf(response.body, parser, source.silence, silent)) {
        failures = 0;
        yield event;
        if (event.event === END) return;
      }
    } catch (failure) {
      source.signal?.throwIfAborted();
      if (!source.mayResume(failure)) throw failure;
      error = failure;
    }
    if (++failures > source.retries + 1) throw error;
    parser.reset();
    await sleep(parser.pause, source.signal);
  }
}

async function* eventsOf(
  body: ReadableStream<Uint8Array>,
  parser: EventParser,
  silence: number,
  silent: AbortController,
): AsyncGenerator<StreamEvent, void> {
  const decoder = new TextDecoder();
  const watch = (): ReturnType<typeof setTimeout> => setTimeout(() => silent.abort(), silence);
  let timer = watch();
  try {
    for await (const chunk of chunks(body)) {
      clearTimeout(timer);
      yield* parser.feed(decoder.decode(chunk, { stream: true }));
      timer = watch();
    }
  } finally {
    clearTimeout(timer);
  }
}

/** Parses the text of a stream into events and keeps the position to resume from. */
export class EventParser {
  lastId: string | undefined;
  pause = FIRST_PAUSE;
  #rest = "";
  #id: string | undefined;
  #event = "";
  #data: string[] = [];

  /** Return the events that this chunk of text completes. */
  feed(text: string): StreamEvent[] {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? "";
    return lines.flatMap((line) => this.#line(line) ?? []);
  }

  /** Drop an incomplete event: its connection was lost. */
  reset(): void {
    this.#rest = this.#event = "";
    this.#data = [];
    this.#id = this.lastId;
  }

  #line(line: string): StreamEvent | undefined {
    if (line === "") return this.#finish();
    const [, name = "", value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#event = value;
    else if (name === "id") this.#id = value;
    else if (name === "retry" && /^\d+$/.test(value)) this.pause = Number(value);
    return undefined;
  }

  #finish(): StreamEvent | undefined {
    const [event, data] = [this.#event, this.#data];
    this.#event = "";
    this.#data = [];
    this.lastId = this.#id ?? this.lastId;
    if (data.length === 0) return undefined;
    return { id: this.lastId ?? "", event: event || "message", data: JSON.parse(data.join("\n")) as unknown };
  }
}
