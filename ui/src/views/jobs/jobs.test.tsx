/** Jobs and dead letters: URLs, patterns, commands, phases. */
import { describe, expect, it } from "vitest";
import { command as steer, path, read as readGroup, which } from "../dead-letters/group";
import { folded } from "../job/Events";
import type { JobEvent } from "../job/queries";
import { rate } from "../queues/Queues";
import { command, query, read, write } from "./filters";
import { phase } from "./JobTable";

describe("filters of jobs", () => {
  const text = "status=failed&status=leased&type=mail&queue=default&tag=a+b&run=01890a5d-ac96-774b-bcce-b302099a8058";

  it("go into the address and come back", () => {
    expect(write(read(new URLSearchParams(text))).toString()).toBe(text);
  });

  it("find a part of a type, or what a pattern says", () => {
    expect(query(read(new URLSearchParams("type=a_b"))).type).toBe("%a\\_b%");
    expect(query(read(new URLSearchParams("type=billing.%25"))).type).toBe("billing.%");
    expect(query(read(new URLSearchParams("run=nonsense")))).toEqual({});
  });

  it("are a command that a shell takes as it is", () => {
    expect(command(read(new URLSearchParams(text)))).toBe("windlass jobs list --status failed --status leased --type '%mail%' --queue default --tag 'a b'");
  });
});

describe("a job that is pending", () => {
  const now = Date.parse("2030-01-01T12:00:00Z");
  const at = (run_at: string, attempt = 0) => phase({ status: "pending", run_at, attempt }, now);

  it("waits for a worker, for its time, or for its next attempt", () => {
    expect([at("2030-01-01T11:00:00Z"), at("2030-01-01T13:00:00Z"), at("2030-01-01T13:00:00Z", 2)]).toEqual(["pending", "scheduled", "backoff"]);
  });
});

describe("a group of dead letters", () => {
  const group = { type: "shop_mail.v1", queue: "default", error: "LookupError: it's <text>", of_runs: false, count: 3 };

  it("has an address of its own", () => {
    const { count: _, ...named } = group;
    expect(readGroup(new URLSearchParams(path(group).split("?")[1]))).toEqual(named);
    expect(readGroup(new URLSearchParams("type=a"))).toBeNull();
  });

  it("is quoted for the server and the shell", () => {
    expect(which(group)).toEqual({ type: "shop\\_mail.v1", queue: "default", error: "LookupError: it's <text>", of_runs: false });
    expect(steer(group, "retry")).toBe(`windlass dead-letters retry --type 'shop\\_mail.v1' --queue default --error 'LookupError: it'\\''s <text>'`);
  });
});

describe("repeated values", () => {
  it("are folded: heartbeats in a row", () => {
    const events = ["leased", "heartbeat", "heartbeat", "heartbeat", "succeeded"].map((event, n) => ({ id: String(n), event }) as JobEvent);
    expect(folded(events).map(({ event, times }) => [event.id, times])).toEqual([["0", 1], ["3", 3], ["4", 1]]);
  });

  it("are rounded: rates", () => {
    expect([0, 0.017, 3.21, 1234.5].map(rate)).toEqual(["–", "< 0.1", "3.2", "1,235"]);
  });
});
