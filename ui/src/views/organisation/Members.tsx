/** The members of the organisation: people who may log in to its dashboard with a verified email address. */
import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, page, type Schemas } from "../../api/client";
import { useSession } from "../../api/session";
import { Confirm } from "../../parts/Confirm";
import { Empty, Found } from "../../parts/Feedback";
import { Field } from "../../parts/Field";
import { ActionsHead, More, Table } from "../../parts/Table";
import { Ago } from "../../parts/Time";
import { RoleField, useRoles } from "./RoleField";
import { ofOrg } from "./words";

type Member = Schemas["Member"];

export function Members() {
  const client = useQueryClient();
  const { org } = useSession();
  const [adding, setAdding] = useState(false);
  const members = useInfiniteQuery({
    queryKey: ["members"],
    initialPageParam: "",
    queryFn: ({ pageParam }) => page(api.GET("/api/v1/members", { params: { query: { limit: 100, after: pageParam } } })),
    getNextPageParam: (last) => last.next ?? undefined,
  });
  const rows = members.data?.pages.flatMap((each) => each.rows) ?? [];
  const fresh = () => void client.invalidateQueries({ queryKey: ["members"] });
  return (
    <>
      <div className="actions page-actions">
        <button type="button" className="primary" onClick={() => setAdding(true)}>
          Add a member…
        </button>
      </div>
      <Found query={members}>
        {() =>
          rows.length === 0 ? (
            <Empty title="No members yet" commands={[ofOrg("windlass members add alice@example.com --role operator", org)]}>
              Members log in with single sign-on (OpenID Connect), which the operator of the installation sets up. Add them by the address that they log in with:
            </Empty>
          ) : (
            <Table
              label="Members"
              head={
                <>
                  <th>Address</th>
                  <th>Role</th>
                  <th className="wide-only">Added</th>
                  <ActionsHead />
                </>
              }
            >
              {rows.map((member) => (
                <Row key={member.email} member={member} fresh={fresh} />
              ))}
            </Table>
          )
        }
      </Found>
      <More query={members} />
      {adding && <RoleDialog onDone={fresh} onClose={() => setAdding(false)} />}
    </>
  );
}

function Row({ member, fresh }: { member: Member; fresh: () => void }) {
  const [open, setOpen] = useState<"role" | "remove" | null>(null);
  const asked = { onDone: fresh, onClose: () => setOpen(null) };
  const { email } = member;
  return (
    <tr>
      <td className="long-name">
        <strong>{email}</strong>
      </td>
      <td>{member.role}</td>
      <td className="wide-only">
        <Ago when={member.created_at} />
        <div className="dim long-name">by {member.created_by}</div>
      </td>
      <td>
        <div className="actions row-actions">
          <button type="button" onClick={() => setOpen("role")} aria-label={`Change the role of ${email}`}>
            Change role…
          </button>
          <button type="button" className="danger" onClick={() => setOpen("remove")} aria-label={`Remove ${email}`}>
            Remove…
          </button>
        </div>
        {open === "role" && <RoleDialog member={member} {...asked} />}
        {open === "remove" && (
          <Confirm title={`Remove ${email}`} verb="Remove the member" keep="Keep the member" danger act={() => api.DELETE("/api/v1/members/{email}", { params: { path: { email } } })} {...asked}>
            <p>The member loses access to the organisation at once, in all sessions.</p>
          </Confirm>
        )}
      </td>
    </tr>
  );
}

/** Adds a member, or changes the role of one. */
function RoleDialog({ member, onDone, onClose }: { member?: Member; onDone: () => void; onClose: () => void }) {
  const [roles, first] = useRoles(member?.role);
  const [email, setEmail] = useState(member?.email ?? "");
  const [role, setRole] = useState(first);
  const put = () => data(api.PUT("/api/v1/members/{email}", { params: { path: { email: email.trim() } }, body: { role } }));
  return (
    <Confirm
      title={member ? `Role of ${member.email}` : "Add a member"}
      verb={member ? "Change the role" : "Add the member"}
      disabled={!email.trim()}
      fields={["email", "role"]}
      act={put}
      onDone={onDone}
      onClose={onClose}
    >
      {!member && (
        <Field name="email" label="Address">
          {(input) => <input {...input} type="text" inputMode="email" autoComplete="off" value={email} placeholder="alice@example.com" onChange={(event) => setEmail(event.target.value)} />}
        </Field>
      )}
      <RoleField roles={roles} role={role} change={setRole} />
    </Confirm>
  );
}
