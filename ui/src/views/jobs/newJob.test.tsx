/** The form that submits a job: made of the schema of its type, or as JSON. */
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, describe, expect, it, vi } from "vitest";
import { api, Problem } from "../../api/client";
import { JobForm } from "./NewJob";

afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const SCHEMA = { type: "object", properties: { sku: { type: "string" }, count: { type: "integer", default: 1 } }, required: ["sku"] };
const show = (schema: Record<string, unknown> | null, type = "shop.pack.v1") =>
  render(
    <QueryClientProvider client={new QueryClient()}>
      <JobForm type={type} setType={() => undefined} schema={schema} />
    </QueryClientProvider>,
  );
const submit = () => fireEvent.click(screen.getByRole("button", { name: "Submit" }));

describe("a new job", () => {
  it("has the fields of its type, and is sent with the options that were filled in", async () => {
    const post = vi.spyOn(api, "POST").mockRejectedValue(new Problem(422, "Invalid", "-", [{ field: "payload.sku", message: "is unknown" }, { field: "delay", message: "must be a duration" }]));
    show(SCHEMA);
    submit();
    expect(await screen.findByText("is required")).toBeDefined();
    expect(post).not.toHaveBeenCalled();
    fireEvent.change(screen.getByLabelText("sku (required)"), { target: { value: "a-1" } });
    fireEvent.change(screen.getByLabelText("Delay"), { target: { value: "soon" } });
    submit();
    await waitFor(() => expect(post.mock.calls).toEqual([["/api/v1/jobs", { body: { type: "shop.pack.v1", payload: { sku: "a-1", count: 1 }, delay: "soon" } }]]));
    expect(await screen.findByText("is unknown")).toBeDefined();
    expect(screen.getByText("must be a duration")).toBeDefined();
  });

  it("of a type without a schema has a payload of JSON", async () => {
    const post = vi.spyOn(api, "POST").mockRejectedValue(new Problem(503, "Unavailable", "the database is away"));
    show(null);
    fireEvent.change(screen.getByLabelText("Payload as JSON"), { target: { value: "{" } });
    submit();
    expect(await screen.findByText("must be JSON")).toBeDefined();
    fireEvent.change(screen.getByLabelText("Payload as JSON"), { target: { value: "[7]" } });
    submit();
    expect(await screen.findByText("the database is away")).toBeDefined();
    expect(post.mock.calls[0]).toEqual(["/api/v1/jobs", { body: { type: "shop.pack.v1", payload: [7] } }]);
  });

  it("needs a type", async () => {
    show(null, "");
    submit();
    expect(await screen.findByText("is required")).toBeDefined();
  });
});
