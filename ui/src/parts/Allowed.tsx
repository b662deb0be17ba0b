/** What a caller without the scope does not see. The server checks it too. */
import type { ReactNode } from "react";
import { useMay, type Scope } from "../api/session";
import { Empty } from "./Feedback";

export function Allowed({ scope, children }: { scope: Scope; children: ReactNode }) {
  return useMay(scope) && children;
}

/** A whole page, or a message for a caller without the scope. */
export function AllowedPage({ scope, children }: { scope: Scope; children: ReactNode }) {
  return useMay(scope) ? children : <Empty title="Not allowed">You lack the scope {scope}. An admin of the organisation can give you a role that has it.</Empty>;
}
