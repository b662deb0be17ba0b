/** The dialog that reruns a run: a form for an input that has a schema, else JSON; what is sent, and when. */
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, fireEvent, render, screen, waitFor } from "@testing-library/react";
import type { Middleware } from "openapi-fetch";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { api, type RunDetail } from "../../api/client";
import type { Schema } from "../../parts/schema/schema";
import { Rerun } from "./Rerun";

const sent: unknown[] = [];
/** Answers in place of a server. */
const answering: Middleware = {
  async onRequest({ request }) {
    sent.push(await request.json());
    return new Response(JSON.stringify({ data: {} }), { headers: { "Content-Type": "application/json" } });
  },
};

beforeEach(() => {
  sent.length = 0;
  api.use(answering);
});
afterEach(() => {
  cleanup();
  api.eject(answering);
});

const SCHEMA: Schema = { type: "object", properties: { order: { type: "integer" }, express: { type: "boolean" } }, required: ["order"] };
const RUN = {
  id: "r1",
  workflow: "order",
  version: 3,
  input: { order: 7 },
  tasks: { pick: { status: "completed" }, send: { status: "failed" }, undo: { status: "pending", compensates: "pick" } },
} as unknown as RunDetail;

/** Render the dialog; return a function that returns whether it was closed. */
function show(input: Schema | undefined): () => boolean {
  const onClose = vi.fn();
  const client = new QueryClient();
  client.setQueryData(["version", "order", 3], { definition: { name: "order", input } });
  render(
    <QueryClientProvider client={client}>
      <Rerun run={RUN} onClose={onClose} />
    </QueryClientProvider>,
  );
  return () => onClose.mock.calls.length > 0;
}

const submit = (name: string) => fireEvent.click(screen.getByRole("button", { name, hidden: true }));

describe("the dialog that reruns a run", () => {
  it("begins with the task that failed, and sends no input that was not changed", async () => {
    const closed = show(SCHEMA);
    expect((screen.getByLabelText("From") as HTMLSelectElement).value).toBe("send");
    expect([...screen.getByLabelText("From").querySelectorAll("option")].map((option) => option.textContent)).toEqual(["pick", "send"]);
    submit("Rerun");
    await waitFor(() => expect(closed()).toBe(true));
    expect(sent).toEqual([{ from: "send" }]);
  });

  it("has a form for an input with a schema, checks it, and sends what was changed", async () => {
    const closed = show(SCHEMA);
    const order = screen.getByLabelText("order (required)") as HTMLInputElement;
    expect(order.value).toBe("7");
    fireEvent.change(order, { target: { value: "" } });
    submit("Rerun with this input");
    expect(screen.getByRole("alert", { hidden: true }).textContent).toBe("is required");
    expect(sent).toEqual([]);
    fireEvent.change(order, { target: { value: "8" } });
    fireEvent.click(screen.getByLabelText("express"));
    submit("Rerun with this input");
    await waitFor(() => expect(closed()).toBe(true));
    expect(sent).toEqual([{ from: "send", input: { order: 8, express: true } }]);
  });

  it("edits an input without a schema as JSON", async () => {
    const closed = show(undefined);
    const text = screen.getByLabelText("Input of the run");
    fireEvent.change(text, { target: { value: "{" } });
    expect((screen.getByRole("button", { name: "Rerun with this input", hidden: true }) as HTMLButtonElement).disabled).toBe(true);
    fireEvent.change(text, { target: { value: '{"order": 9}' } });
    submit("Rerun with this input");
    await waitFor(() => expect(closed()).toBe(true));
    expect(sent).toEqual([{ from: "send", input: { order: 9 } }]);
  });
});
