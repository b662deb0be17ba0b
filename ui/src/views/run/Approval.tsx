/** The open approval of a task, in its panel. */
import { Decide } from "../approvals/Decide";
import { useApprovalsOfRun } from "../approvals/queries";

export function TaskApproval({ run, name }: { run: string; name: string }) {
  const approvals = useApprovalsOfRun(run);
  const approval = approvals.data?.rows.find((each) => each.task === name);
  if (approval?.state !== "open") return null;
  return (
    <section>
      <h3>Waiting for a decision</h3>
      <p className="approval-message">{approval.message}</p>
      {approval.may_decide ? <Decide approval={approval} /> : <p className="dim">You cannot decide this approval: it requires one of the roles {approval.roles.join(", ")}, or a higher role.</p>}
    </section>
  );
}
