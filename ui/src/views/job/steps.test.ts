/** Descriptions of recorded steps, and jobs without a due time. */
import { describe, expect, it } from "vitest";
import { awaited } from "./Steps";
import { waitsForEver } from "./queries";

describe("a step that waits", () => {
  it("names the message", () => {
    expect(awaited({ message: "paid", key: null })).toBe("signal paid");
    expect(awaited({ message: "paid", key: "42" })).toBe("event paid with key 42");
    expect(awaited({ message: "paid", key: "" })).toBe("event paid");
  });
});

describe("a job that is due when something happens", () => {
  it("has no time", () => {
    expect(waitsForEver({ status: "pending", run_at: "9999-12-31T23:59:59.999999Z" })).toBe(true);
    expect(waitsForEver({ status: "pending", run_at: "2030-01-01T00:00:00Z" })).toBe(false);
    expect(waitsForEver({ status: "succeeded", run_at: "9999-12-31T23:59:59.999999Z" })).toBe(false);
  });
});
