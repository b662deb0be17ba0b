import { describe, expect, it } from "vitest";
import { Parser } from "./sse";

describe("server-sent events", () => {
  it("are found whatever the pieces they come in", () => {
    const text = 'retry: 2000\nid: 7\nevent: task\ndata: {"a":1}\n\n: still here\nid: 9\n\ndata: one\ndata: two\r\n\r\n';
    for (const size of [1, 2, 7, 1000]) {
      const parser = new Parser();
      const found = [];
      for (let at = 0; at < text.length; at += size) found.push(...parser.feed(text.slice(at, at + size)));
      expect(found).toEqual([
        { id: "7", event: "task", data: '{"a":1}' },
        { id: "9", event: "message", data: "one\ntwo" },
      ]);
      expect(parser.retry).toBe(2000);
    }
  });

  it("move the place to go on even without a message", () => {
    const parser = new Parser();
    expect(parser.feed(": still here\nid: 12\n\n")).toEqual([]);
    expect(parser.last).toBe("12");
  });
});
