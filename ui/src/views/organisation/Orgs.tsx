/** All organisations of the installation, for its operator: create, disable and enable them, change their plans. */
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, page, type Schemas } from "../../api/client";
import { Confirm } from "../../parts/Confirm";
import { Found } from "../../parts/Feedback";
import { Field } from "../../parts/Field";
import { State } from "../../parts/State";
import { ActionsHead, More, Table } from "../../parts/Table";
import { Ago } from "../../parts/Time";

type Org = Schemas["Org"];

const UNLIMITED = "unlimited";

export function Orgs() {
  const client = useQueryClient();
  const [creating, setCreating] = useState(false);
  const orgs = useInfiniteQuery({
    queryKey: ["orgs"],
    initialPageParam: "",
    queryFn: ({ pageParam }) => page(api.GET("/api/v1/orgs", { params: { query: { limit: 100, after: pageParam } } })),
    getNextPageParam: (last) => last.next ?? undefined,
  });
  const rows = orgs.data?.pages.flatMap((each) => each.rows) ?? [];
  const fresh = () => {
    for (const key of ["orgs", "plans", "session"]) void client.invalidateQueries({ queryKey: [key] });
  };
  return (
    <>
      <div className="actions page-actions">
        <button type="button" className="primary" onClick={() => setCreating(true)}>
          New org…
        </button>
      </div>
      <Found query={orgs}>
        {() => (
          <Table
            label="Orgs"
            head={
              <>
                <th>Name</th>
                <th>Plan</th>
                <th>State</th>
                <th className="wide-only">Created</th>
                <ActionsHead />
              </>
            }
          >
            {rows.map((org) => (
              <Row key={org.name} org={org} fresh={fresh} />
            ))}
          </Table>
        )}
      </Found>
      <More query={orgs} />
      {creating && <NewOrg onDone={fresh} onClose={() => setCreating(false)} />}
    </>
  );
}

function Row({ org, fresh }: { org: Org; fresh: () => void }) {
  const [open, setOpen] = useState<"plan" | "disable" | "enable" | null>(null);
  const [plan, setPlan] = useState(org.plan);
  const { name } = org;
  const path = { params: { path: { name } } };
  const asked = { onDone: fresh, onClose: () => setOpen(null) };
  return (
    <tr>
      <td className="long-name">
        <strong>{name}</strong>
      </td>
      <td>{org.plan}</td>
      <td>
        <State state={org.disabled_at ? "disabled" : "enabled"} />
      </td>
      <td className="wide-only">
        <Ago when={org.created_at} />
      </td>
      <td>
        <div className="actions row-actions">
          <button type="button" onClick={() => (setPlan(org.plan), setOpen("plan"))} aria-label={`Change the plan of ${name}`}>
            Plan…
          </button>
          {name !== "default" && (
            <button type="button" className={org.disabled_at ? "" : "danger"} onClick={() => setOpen(org.disabled_at ? "enable" : "disable")} aria-label={`${org.disabled_at ? "Enable" : "Disable"} ${name}`}>
              {org.disabled_at ? "Enable…" : "Disable…"}
            </button>
          )}
        </div>
        {open === "plan" && (
          <Confirm
            title={`Plan of ${name}`}
            verb="Change the plan"
            fields={["plan"]}
            act={() => data(api.PUT("/api/v1/plans/{name}/orgs/{org}", { params: { path: { name: plan, org: name } } }))}
            {...asked}
          >
            <p>The change takes effect within seconds. What the org already has is kept, even where it exceeds the limits of the plan.</p>
            <PlanField plan={plan} change={setPlan} />
          </Confirm>
        )}
        {open === "disable" && (
          <Confirm title={`Disable ${name}`} verb="Disable the org" keep="Keep it enabled" danger act={() => data(api.POST("/api/v1/orgs/{name}/disable", path))} {...asked}>
            <p>Its keys and sessions are refused, its schedules start nothing, and its jobs wait until it is enabled again. Nothing is lost.</p>
          </Confirm>
        )}
        {open === "enable" && (
          <Confirm title={`Enable ${name}`} verb="Enable the org" act={() => data(api.POST("/api/v1/orgs/{name}/enable", path))} {...asked}>
            <p>Its keys are accepted again, and its schedules and jobs continue.</p>
          </Confirm>
        )}
      </td>
    </tr>
  );
}

function NewOrg({ onDone, onClose }: { onDone: () => void; onClose: () => void }) {
  const [name, setName] = useState("");
  const [plan, setPlan] = useState(UNLIMITED);
  return (
    <Confirm
      title="New org"
      verb="Create the org"
      disabled={!name.trim()}
      fields={["org", "name", "plan"]}
      act={() => data(api.POST("/api/v1/orgs", { body: { name: name.trim(), plan } }))}
      onDone={onDone}
      onClose={onClose}
    >
      <Field name="org" label="Name" hint="Lower-case letters, digits and hyphens.">
        {(input) => <input {...input} type="text" autoComplete="off" spellCheck={false} value={name} placeholder="acme" onChange={(event) => setName(event.target.value)} />}
      </Field>
      <PlanField plan={plan} change={setPlan} />
      <p className="dim">Once there is a second org, every request needs a key, even from this machine. Create a key for yourself first.</p>
    </Confirm>
  );
}

function PlanField({ plan, change }: { plan: string; change: (plan: string) => void }) {
  const plans = useQuery({ queryKey: ["plans"], queryFn: () => page(api.GET("/api/v1/plans")) });
  const names = plans.data?.rows.map((each) => each.name) ?? [];
  return (
    <Field name="plan" label="Plan">
      {(input) => (
        <select {...input} value={plan} onChange={(event) => change(event.target.value)}>
          {[...new Set([plan, ...names])].map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      )}
    </Field>
  );
}
