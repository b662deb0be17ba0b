/** The decision that a task waits for, in its panel. */
import { Decide } from "../approvals/Decide";
import { useApprovalsOfRun } from "../approvals/queries";

export function TaskApproval({ run, name }: { run: string; name: string }) {
  const approvals = useApprovalsOfRun(run);
  const approval = approvals.data?.rows.find((each) => each.task === name);
  if (approval?.state !== "open") return null;
  return (
    <section>
      <h3>Waits for a decision</h3>
      <p className="approval-message">{approval.message}</p>
      {approval.may_decide ? <Decide approval={approval} /> : <p className="dim">You may not decide: it needs one of the roles {approval.roles.join(", ")}, or one above.</p>}
    </section>
  );
}
