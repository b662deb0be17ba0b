/** A table that scrolls sideways on narrow screens, and the button for its next page. */
import type { ReactNode } from "react";

export function Table({ label, head, children }: { label: string; head: ReactNode; children: ReactNode }) {
  return (
    <div className="table" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>{head}</tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

/** The heading of a column of buttons. */
export function ActionsHead() {
  return (
    <th>
      <span className="hidden">Actions</span>
    </th>
  );
}

interface Pages {
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => Promise<unknown>;
}

export function More({ query }: { query: Pages }) {
  if (!query.hasNextPage) return null;
  return (
    <button type="button" className="more" disabled={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
      {query.isFetchingNextPage ? "loading" : "Show more"}
    </button>
  );
}
