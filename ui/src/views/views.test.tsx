/** Components and helpers of several views: states, activities, the trigger form, filters, events, formatting. */
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, describe, expect, it } from "vitest";
import type { Activity, Attempt, RunDetail, Schemas, Span, Task } from "../api/client";
import { parseJson } from "../parts/Editor";
import { activityText, obstacle, stateOf } from "../parts/activity";
import { look, State } from "../parts/State";
import { countdown, moment, relative, span } from "../parts/words";
import { query, read, which, write } from "./runs/filters";
import { patched, pick, within } from "./run/queries";
import { became, ticks } from "./run/Timeline";
import { inputs, Trigger } from "./workflow/Trigger";

afterEach(cleanup);

describe("a state", () => {
  it("is shown as a colour, an icon and a word", () => {
    render(<State state="timeout" />);
    const shown = screen.getByText("timed out");
    expect(shown.className).toContain("tone-bad");
    expect(shown.querySelector("svg")).not.toBeNull();
  });

  it("that is unknown is shown as it is", () => {
    render(<State state="brand_new" />);
    expect(screen.getByText("brand new")).toBeDefined();
  });
});

describe("the activity of a task", () => {
  const now = Date.parse("2030-01-01T12:00:00Z");
  const task = (activity: Activity | null, until: string | null = null): Task => ({ status: "running", type: "job", activity, until, is_truncated: false, remark: "" });

  it.each<[Activity, string, string]>([
    ["held", "held", "idle"],
    ["waiting_for_tasks", "waiting for tasks", "idle"],
    ["queued", "queued", "idle"],
    ["no_worker", "no worker serves it", "wait"],
    ["queue_paused", "queue paused", "wait"],
    ["type_disabled", "job type disabled", "wait"],
    ["other_runtime", "served by another runtime", "wait"],
    ["backing_off", "backing off", "wait"],
    ["running", "running", "busy"],
    ["stopping", "stopping", "wait"],
    ["sleeping", "sleeping", "rest"],
    ["waiting_for_callback", "waiting for a callback", "wait"],
    ["waiting_for_message", "waiting for a message", "wait"],
    ["waiting_for_approval", "waiting for approval", "wait"],
    ["waiting_for_child", "waiting for its child run", "busy"],
  ])("%s reads '%s'", (activity, word, tone) => {
    const shown = look(stateOf(task(activity)));
    expect([shown.word, shown.tone]).toEqual([word, tone]);
  });

  it("says when a backoff and a sleep end", () => {
    expect(activityText(task("backing_off", "2030-01-01T12:00:12Z"), now)).toBe("backing off, next attempt in 12 s");
    expect(activityText(task("backing_off", "2030-01-01T11:59:59Z"), now)).toBe("backing off, next attempt now");
    const wakes = "2030-01-01T12:30:00Z";
    expect(activityText(task("sleeping", wakes), now)).toBe(`sleeping until ${moment(wakes, now)}`);
  });

  it("gives way to the status once the task has ended", () => {
    expect(stateOf({ ...task(null), status: "timeout" })).toBe("timeout");
  });

  it("names the obstacle in the server's words, if it has any", () => {
    expect(obstacle({ ...task("no_worker"), remark: "no worker serves a.v1 in queue attic" })).toBe("no worker serves a.v1 in queue attic");
    expect(obstacle(task("queue_paused"))).toBe("The queue is paused.");
    expect(obstacle(task("running"))).toBeNull();
  });
});

describe("the trigger form", () => {
  const tasks = { charge: { job: "a", input: { card: "{{trigger.body.card}}" } }, send: { if: "input.count > 1", job: "b" } };
  const workflow = { name: "order", enabled: true, tasks } as unknown as Schemas["WorkflowDetail"];

  it("asks for what the templates take, and shares one text with the JSON", () => {
    render(
      <QueryClientProvider client={new QueryClient()}>
        <Trigger workflow={workflow} />
      </QueryClientProvider>,
    );
    const json = screen.getByLabelText<HTMLTextAreaElement>("Input as JSON");
    fireEvent.change(screen.getByLabelText("card"), { target: { value: "visa" } });
    fireEvent.change(screen.getByLabelText("count"), { target: { value: "12" } });
    expect(JSON.parse(json.value)).toEqual({ card: "visa", count: 12 });

    fireEvent.change(json, { target: { value: '{"card": "amex", "gift": true}' } });
    expect(screen.getByLabelText<HTMLInputElement>("card").value).toBe("amex");
    expect(screen.getByLabelText<HTMLInputElement>("gift").checked).toBe(true);

    fireEvent.change(json, { target: { value: '{"card": ' } });
    expect(screen.getByText<HTMLButtonElement>("Start a run").disabled).toBe(true);
    expect(screen.queryByLabelText("card")).toBeNull();
  });

  it("finds the names in templates and expressions", () => {
    expect(inputs(tasks)).toEqual(["card", "count"]);
  });
});

describe("filters", () => {
  const text = "status=failed&status=timeout&label=team%3Dshop&workflow=order&text=a1&since=1h&retrying=true";

  it("go into the address and come back", () => {
    expect(write(read(new URLSearchParams(text))).toString()).toBe(text);
  });

  it("become parameters of the list and of the bulk operations", () => {
    const filters = read(new URLSearchParams(text));
    const now = Date.parse("2030-01-01T12:00:00Z");
    const inserted_after = "2030-01-01T11:00:00.000Z";
    expect(query(filters, now)).toEqual({ status: ["failed", "timeout"], label: ["team=shop"], workflow: "order", text: "a1", retrying: true, inserted_after });
    expect(which(filters, now)).toEqual({ status: ["failed", "timeout"], labels: { team: "shop" }, workflow: "order", text: "a1", retrying: true, inserted_after });
    expect(which(read(new URLSearchParams()), now)).toEqual({ all: true });
  });
});

describe("news of a run", () => {
  const run = { status: "running", tasks: { a: { status: "running" }, b: { status: "pending" } } } as unknown as RunDetail;

  it("recolours its task and leaves the others as they are", () => {
    const next = patched(run, { event: "success", run_status: "completed", task: "a", status: "success" });
    expect([next.status, next.tasks["a"]?.status]).toEqual(["completed", "success"]);
    expect(next.tasks["b"]).toBe(run.tasks["b"]);
  });

  it.each([
    ["queued", "running", "queued"],
    ["running", "running", "running"],
    ["retrying", "running", "backing_off"],
    ["sleeping", "sleeping", "sleeping"],
    ["waiting", "waiting", "waiting_for_callback"],
    ["failed", "failed", null],
  ] as const)("'%s' with the status %s sets the activity %s before the next answer", (event, status, activity) => {
    expect(patched(run, { event, task: "b", status }).tasks["b"]?.activity).toBe(activity);
  });

  it("about a task that is not there changes nothing", () => {
    expect(patched(run, { event: "success", task: "z", status: "success" })).toBe(run);
  });
});

describe("an attempt at a run", () => {
  const attempts = [
    { attempt: 1, status: "failed", began_at: "2030-01-01T12:00:00Z", ended_at: "2030-01-01T12:01:00Z" },
    { attempt: 2, status: "completed", began_at: "2030-01-01T13:00:00Z", ended_at: "2030-01-01T13:01:00Z" },
  ] as Attempt[];

  it("has what happened from its beginning to that of the next one", () => {
    const moments = ["2030-01-01T12:00:30Z", "2030-01-01T13:00:00Z"];
    expect(["1", "2", null].map((asked) => moments.map((at) => within(pick(attempts, asked), at)))).toEqual([
      [true, false],
      [false, true],
      [true, true],
    ]);
  });

  it("can be picked only where there are several, and only if there is such a one", () => {
    expect([pick(attempts.slice(0, 1), "1"), pick(attempts, "3"), pick(attempts, "x")]).toEqual([null, null, null]);
  });

  it("shows the final state of a task from its last span", () => {
    const span = { kind: "running", ended_at: "2030-01-01T12:00:30Z", failed: false } as Span;
    expect([became([]), became([{ ...span, failed: true }, span]), became([span, { ...span, failed: true }])]).toEqual([undefined, "success", "failed"]);
  });
});

describe("words", () => {
  it("tell spans as people do", () => {
    expect([0, 450, 3200, 42_000, 250_000, 7_500_000, 273_600_000, null].map((ms) => span(ms))).toEqual(["0 ms", "450 ms", "3.2 s", "42 s", "4m 10s", "2h 5m", "3d 4h", "–"]);
    expect(relative("2030-01-01T12:00:00Z", Date.parse("2030-01-01T12:03:10Z"))).toBe("3 min ago");
    expect(relative("2030-01-01T14:00:00Z", Date.parse("2030-01-01T12:00:00Z"))).toBe("in 2 h");
  });

  it("count down in whole seconds", () => {
    const now = Date.parse("2030-01-01T12:00:00.400Z");
    expect(["2030-01-01T12:00:00Z", "2030-01-01T12:00:03Z", "2030-01-01T12:04:10Z"].map((when) => countdown(when, now))).toEqual(["now", "in 3 s", "in 4m 10s"]);
  });

  it("mark a scale with few round numbers", () => {
    for (const whole of [3, 90, 2200, 61_000, 5_400_000, 9e9]) expect(ticks(whole).length).toBeLessThanOrEqual(8);
    expect(ticks(2200)).toEqual([0, 500, 1000, 1500, 2000]);
  });

  it("say where a JSON text is wrong", () => {
    expect(parseJson('{"a": 1}')).toEqual({ value: { a: 1 }, mistake: null });
    expect(parseJson('{\n  "a": 1,\n}').mistake?.line).toBe(3);
    expect(parseJson(" ").mistake?.message).toContain("empty");
  });
});
