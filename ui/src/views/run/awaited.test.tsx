/** The message that a task waits for, and the form that sends it. */
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, describe, expect, it } from "vitest";
import type { AwaitedMessage, RunDetail } from "../../api/client";
import { Awaited } from "./Awaited";

afterEach(cleanup);

const show = (message: Partial<AwaitedMessage>) =>
  render(
    <QueryClientProvider client={new QueryClient()}>
      <Awaited run={{ id: "r1" } as RunDetail} message={{ name: "paid", key: null, count: 1, received: 0, ...message }} />
    </QueryClientProvider>,
  );

describe("a task that waits for a message", () => {
  it("names the event, its key and how many have arrived", () => {
    const { container } = show({ key: "42", count: 3, received: 1 });
    expect(container.querySelector("p")?.textContent).toBe("event paid, key 42 (1 of 3 received)");
  });

  it("has a form that sends the signal with a payload that must be JSON", () => {
    show({});
    fireEvent.click(screen.getByRole("button", { name: "Send the signal…" }));
    const send = screen.getByRole("button", { name: "Send", hidden: true }) as HTMLButtonElement;
    expect(send.disabled).toBe(false);
    fireEvent.change(screen.getByLabelText("Payload"), { target: { value: "{" } });
    expect(send.disabled).toBe(true);
  });
});
