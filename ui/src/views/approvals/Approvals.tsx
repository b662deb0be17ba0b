/** The approvals of the org, open and decided. */
import { Link, useSearchParams } from "wouter";
import { Empty, Found } from "../../parts/Feedback";
import { ListHead } from "../../parts/ListHead";
import { State } from "../../parts/State";
import { ActionsHead, More, Table } from "../../parts/Table";
import { Ago } from "../../parts/Time";
import { Decide } from "./Decide";
import { useApprovals, type Approval } from "./queries";

const STATES = ["open", "approved", "rejected", "expired", "cancelled", "all"];

export default function Approvals() {
  const [search, setSearch] = useSearchParams();
  const state = STATES.find((each) => each === search.get("state")) ?? "open";
  const approvals = useApprovals(state);
  const filter = state === "all" ? "" : `?state=${state}`;
  return (
    <section className="view">
      <ListHead title="Approvals" command={`windlass approvals list${state === "all" ? "" : ` --state ${state}`}`} url={`${location.origin}/api/v1/approvals${filter}`}>
        <select aria-label="State" value={state} onChange={(event) => setSearch({ state: event.target.value })}>
          {STATES.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </ListHead>
      <Found query={approvals}>
        {({ pages }) => {
          const rows = pages.flatMap((each) => each.rows);
          return rows.length === 0 ? (
            <Empty title={state === "open" ? "No open approvals" : "No matching approvals"} commands={["windlass approvals list"]}>
              A task with <code>approve</code> waits here until a person approves or rejects.
            </Empty>
          ) : (
            <>
              <ApprovalTable rows={rows} />
              <More query={approvals} />
            </>
          );
        }}
      </Found>
    </section>
  );
}

export function ApprovalTable({ rows }: { rows: Approval[] }) {
  return (
    <Table
      label="Approvals"
      head={
        <>
          <th>State</th>
          <th>Message</th>
          <th>Task</th>
          <th className="wide-only">Requested</th>
          <th className="wide-only">Until</th>
          <th className="wide-only">Decided by</th>
          <ActionsHead />
        </>
      }
    >
      {rows.map((approval) => (
        <tr key={approval.id}>
          <td className="nowrap">
            <State state={approval.state} />
          </td>
          <td className="clipped">
            <div className="approval-message">{approval.message}</div>
            {approval.comment && <div className="dim">{approval.comment}</div>}
          </td>
          <td>
            <Link href={`/runs/${approval.run_id}?task=${encodeURIComponent(approval.task)}`}>{approval.task}</Link>{" "}
            <span className="dim">
              of <Link href={`/workflows/${encodeURIComponent(approval.workflow)}`}>{approval.workflow}</Link>
            </span>
          </td>
          <td className="wide-only">
            <Ago when={approval.requested_at} />
          </td>
          <td className="wide-only">
            <Ago when={approval.until} />
          </td>
          <td className="wide-only">{approval.by ?? (approval.state === "open" ? <span className="dim">{approval.roles.join(", ")}</span> : "–")}</td>
          <td>
            <Decide approval={approval} />
          </td>
        </tr>
      ))}
    </Table>
  );
}
