/** The form of an approval, and the buttons for callers who may decide. */
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, fireEvent, render, screen, waitFor } from "@testing-library/react";
import { afterEach, describe, expect, it, vi } from "vitest";
import { api, Problem } from "../../api/client";
import { ApprovalTable } from "./Approvals";
import type { Approval } from "./queries";

afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const FORM = {
  properties: {
    amount: { type: "number", title: "Amount in EUR", default: 5 },
    note: { type: "string", description: "for the customer" },
    urgent: { type: "boolean" },
    method: { enum: ["card", "voucher"] },
    lines: { type: "array" },
  },
  required: ["amount"],
};

const approval = (more: Partial<Approval> = {}): Approval => ({
  id: "a1",
  run_id: "r1",
  workflow: "refund",
  task: "ok",
  state: "open",
  message: "Refund order 42?",
  form: null,
  roles: ["operator"],
  may_decide: true,
  requested_at: "2030-01-01T12:00:00Z",
  until: null,
  escalated_at: null,
  reminded_at: null,
  decided_at: null,
  by: null,
  values: null,
  comment: null,
  ...more,
});

const show = (more: Partial<Approval> = {}) =>
  render(
    <QueryClientProvider client={new QueryClient()}>
      <ApprovalTable rows={[approval(more)]} />
    </QueryClientProvider>,
  );

describe("an approval", () => {
  it("has buttons only for those who may decide", () => {
    show({ may_decide: false });
    expect(screen.queryByRole("button", { name: /Approve/ })).toBeNull();
    expect(screen.getByRole("link", { name: "ok" }).getAttribute("href")).toBe("/runs/r1?task=ok");
  });

  it("is approved with the values of the form and a comment", async () => {
    const post = vi.spyOn(api, "POST").mockResolvedValue({ data: { data: approval({ state: "approved" }) } } as never);
    show({ form: FORM });
    fireEvent.click(screen.getByRole("button", { name: "Approve ok of refund" }));
    fireEvent.change(screen.getByLabelText("Amount in EUR (required)"), { target: { value: "7" } });
    fireEvent.change(screen.getByLabelText("method"), { target: { value: '"voucher"' } });
    fireEvent.change(screen.getByLabelText("Comment"), { target: { value: "as agreed" } });
    fireEvent.click(screen.getByRole("button", { name: "Approve", hidden: true }));
    const body = { values: { amount: 7, urgent: false, method: "voucher" }, comment: "as agreed" };
    await waitFor(() => expect(post.mock.calls).toEqual([["/api/v1/approvals/{approval_id}/approve", { params: { path: { approval_id: "a1" } }, body }]]));
  });

  it("shows at its field what the server refuses", async () => {
    vi.spyOn(api, "POST").mockRejectedValue(new Problem(422, "Invalid", "-", [{ field: "values.amount", message: "7 is too much" }]));
    show({ form: FORM });
    fireEvent.click(screen.getByRole("button", { name: "Approve ok of refund" }));
    fireEvent.click(screen.getByRole("button", { name: "Approve", hidden: true }));
    expect(await screen.findByText("7 is too much")).toBeDefined();
  });

  it("is not sent without what is required", async () => {
    const post = vi.spyOn(api, "POST");
    show({ form: FORM });
    fireEvent.click(screen.getByRole("button", { name: "Approve ok of refund" }));
    fireEvent.change(screen.getByLabelText("Amount in EUR (required)"), { target: { value: "" } });
    fireEvent.click(screen.getByRole("button", { name: "Approve", hidden: true }));
    expect(await screen.findByText("is required")).toBeDefined();
    expect(post).not.toHaveBeenCalled();
  });

  it("is rejected without the form", () => {
    show({ form: FORM });
    fireEvent.click(screen.getByRole("button", { name: "Reject ok of refund" }));
    expect(screen.queryByLabelText("Amount in EUR (required)")).toBeNull();
    expect(screen.getByLabelText("Comment")).toBeDefined();
  });
});
