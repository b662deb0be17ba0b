/** The number of approvals that the caller may decide, in the menu. */
import { MOST, useDecidable } from "./queries";

export function Badge() {
  const number = useDecidable();
  if (number === 0) return null;
  return (
    <span className="badge">
      {number < MOST ? number : `${MOST}+`}
      <span className="hidden"> to decide</span>
    </span>
  );
}
