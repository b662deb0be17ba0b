/** A parser for server-sent events that are read with fetch, because EventSource cannot send headers. */
export interface Message {
  id: string;
  event: string;
  data: string;
}

/** Parses chunks of text into complete messages. */
export class Parser {
  #rest = "";
  last = ""; // the last event id; it can change without a message
  #event = "";
  #data: string[] = [];
  retry: number | null = null;

  feed(text: string): Message[] {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? "";
    const found: Message[] = [];
    for (const line of lines) {
      if (line === "") {
        if (this.#data.length) found.push({ id: this.last, event: this.#event || "message", data: this.#data.join("\n") });
        this.#event = "";
        this.#data = [];
      } else this.#field(line);
    }
    return found;
  }

  #field(line: string) {
    const colon = line.indexOf(":");
    if (colon === 0) return; // a comment, which keeps the connection open
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#event = value;
    else if (name === "id") this.last = value;
    else if (name === "retry" && /^\d+$/.test(value)) this.retry = Number(value);
  }
}
