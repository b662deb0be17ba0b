/** Hides children from callers that lack the scope. The server checks the scope, too. */
import type { ReactNode } from "react";
import { useMay, type Scope } from "../api/session";
import { Empty } from "./Feedback";

export function Allowed({ scope, children }: { scope: Scope; children: ReactNode }) {
  return useMay(scope) && children;
}

/** Shows a page, or a message to callers that lack the scope. */
export function AllowedPage({ scope, children }: { scope: Scope; children: ReactNode }) {
  return useMay(scope) ? children : <Empty title="Not allowed">You lack the scope {scope}. An admin of the organisation can give you a role that has it.</Empty>;
}
