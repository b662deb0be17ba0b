import { expect, test } from "vitest";
import { append, type Section } from "./Stream";

const chunk = (section: number, number: number, data: unknown) => ({ section, number, attempt: section, at: "2026-01-01T00:00:00Z", data });

test("text is joined, other chunks are lines, and an attempt begins a section", () => {
  const chunks = [chunk(1, 1, "once "), chunk(1, 2, "upon\n"), chunk(1, 3, { tokens: 2 }), chunk(2, 1, "again")];
  expect(chunks.reduce(append, [] as Section[])).toEqual([
    { section: 1, attempt: 1, text: 'once upon\n{"tokens":2}\n' },
    { section: 2, attempt: 2, text: "again" },
  ]);
});

test("of a long section the end is shown", () => {
  const [section] = [chunk(1, 1, "a".repeat(200_000)), chunk(1, 2, "b")].reduce(append, [] as Section[]);
  expect(section?.text.length).toBe(200_000);
  expect(section?.text.endsWith("ab")).toBe(true);
});
