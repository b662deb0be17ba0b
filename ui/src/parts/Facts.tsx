/** A list of names and values, in a row or in a column. */
import type { ReactNode } from "react";

export function Facts({ tall = false, children }: { tall?: boolean; children: ReactNode }) {
  return <dl className={tall ? "facts tall" : "facts"}>{children}</dl>;
}

export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
