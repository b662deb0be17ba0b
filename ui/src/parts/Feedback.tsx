/** Loading, error and empty states. */
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Problem } from "../api/client";
import { Command } from "./Copy";

export function Trouble({ error }: { error: unknown }) {
  const problem = error instanceof Problem ? error : new Problem(0, "Error", String(error));
  const fields = problem.errors.filter((each) => each.field !== "body" || problem.errors.length > 1);
  return (
    <div className="trouble" role="alert">
      <strong>{problem.title}</strong>
      {fields.length > 0 ? (
        <ul>
          {fields.map((each) => (
            <li key={each.field + each.message}>
              <code>{each.field}</code> {each.message}
            </li>
          ))}
        </ul>
      ) : (
        <p>{problem.message}</p>
      )}
    </div>
  );
}

export function Empty({ title, children, commands = [] }: { title: string; children?: ReactNode; commands?: string[] }) {
  return (
    <div className="empty">
      <h2>{title}</h2>
      {children && <p>{children}</p>}
      {commands.map((text) => (
        <Command key={text} text={text} />
      ))}
    </div>
  );
}

/** Show the data of a query, or that it is loading, or its error. */
export function Found<T>({ query, children }: { query: UseQueryResult<T>; children: (found: T) => ReactNode }) {
  if (query.data !== undefined) return <>{children(query.data)}</>;
  if (query.error) return <Trouble error={query.error} />;
  return (
    <div className="loading" role="status">
      loading
    </div>
  );
}
