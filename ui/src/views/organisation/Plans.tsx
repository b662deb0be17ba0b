/** Plans, the limits of the organisations that have them. For the operator of the installation. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, page, type Schemas } from "../../api/client";
import { Confirm } from "../../parts/Confirm";
import { Found } from "../../parts/Feedback";
import { Field } from "../../parts/Field";
import { ActionsHead, Table } from "../../parts/Table";
import { count } from "../../parts/words";
import { LIMITS, typedLimit, type LimitName } from "./words";

type Plan = Schemas["Plan"];

const UNLIMITED = "unlimited"; // cannot be changed

export function Plans() {
  const client = useQueryClient();
  const [creating, setCreating] = useState(false);
  const plans = useQuery({ queryKey: ["plans"], queryFn: () => page(api.GET("/api/v1/plans")) });
  const fresh = () => void client.invalidateQueries({ queryKey: ["plans"] });
  return (
    <>
      <div className="actions page-actions">
        <button type="button" className="primary" onClick={() => setCreating(true)}>
          New plan…
        </button>
      </div>
      <Found query={plans}>
        {({ rows }) => (
          <Table
            label="Plans"
            head={
              <>
                <th>Name</th>
                {LIMITS.map(({ name, title }) => (
                  <th key={name} className="num">
                    {title}
                  </th>
                ))}
                <th>Schedules</th>
                <th className="num">Orgs</th>
                <ActionsHead />
              </>
            }
          >
            {rows.map((plan) => (
              <Row key={plan.name} plan={plan} fresh={fresh} />
            ))}
          </Table>
        )}
      </Found>
      {creating && <Limits taken={plans.data?.rows.map((each) => each.name) ?? []} onDone={fresh} onClose={() => setCreating(false)} />}
    </>
  );
}

function Row({ plan, fresh }: { plan: Plan; fresh: () => void }) {
  const [open, setOpen] = useState<"edit" | "delete" | null>(null);
  const { name } = plan;
  const asked = { onDone: fresh, onClose: () => setOpen(null) };
  return (
    <tr>
      <td>
        <strong>{name}</strong>
      </td>
      {LIMITS.map((limit) => (
        <td key={limit.name} className="num">
          {plan[limit.name] === null ? <span className="dim">no limit</span> : count(plan[limit.name]!)}
        </td>
      ))}
      <td>{plan.schedules ? "yes" : "no"}</td>
      <td className="num">{count(plan.orgs)}</td>
      <td>
        {name !== UNLIMITED && (
          <div className="actions row-actions">
            <button type="button" onClick={() => setOpen("edit")} aria-label={`Edit ${name}`}>
              Edit…
            </button>
            <button
              type="button"
              className="danger"
              disabled={plan.orgs > 0}
              title={plan.orgs > 0 ? "An org has this plan" : undefined}
              onClick={() => setOpen("delete")}
              aria-label={`Delete ${name}`}
            >
              Delete…
            </button>
          </div>
        )}
        {open === "edit" && <Limits plan={plan} {...asked} />}
        {open === "delete" && (
          <Confirm title={`Delete ${name}`} verb="Delete the plan" keep="Keep the plan" danger act={() => api.DELETE("/api/v1/plans/{name}", { params: { path: { name } } })} {...asked}>
            <p>No org has this plan. A deleted plan cannot be restored.</p>
          </Confirm>
        )}
      </td>
    </tr>
  );
}

/** Creates a plan, or changes the limits of an existing plan. */
function Limits({ plan, taken = [], onDone, onClose }: { plan?: Plan; taken?: string[]; onDone: () => void; onClose: () => void }) {
  const [name, setName] = useState(plan?.name ?? "");
  const [texts, setTexts] = useState(() => Object.fromEntries(LIMITS.map((limit) => [limit.name, plan?.[limit.name]?.toString() ?? ""])) as Record<LimitName, string>);
  const [schedules, setSchedules] = useState(plan?.schedules ?? true);
  const exists = taken.includes(name.trim()); // the request would change the limits of the existing plan
  const wrong = LIMITS.some((limit) => typedLimit(texts[limit.name]) === undefined);
  const put = () => {
    const limits = Object.fromEntries(LIMITS.map((limit) => [limit.name, typedLimit(texts[limit.name]) ?? null])) as Record<LimitName, number | null>;
    return data(api.PUT("/api/v1/plans/{name}", { params: { path: { name: name.trim() } }, body: { ...limits, schedules } }));
  };
  return (
    <Confirm
      title={plan ? `Limits of ${plan.name}` : "New plan"}
      verb={plan ? "Change the limits" : "Create the plan"}
      disabled={!name.trim() || exists || wrong}
      fields={["name", ...LIMITS.map((limit) => limit.name)]}
      act={put}
      onDone={onDone}
      onClose={onClose}
    >
      {!plan && (
        <Field name="name" label="Name" hint={exists && `Plan ${name.trim()} already exists: edit it, or choose another name.`}>
          {(input) => <input {...input} type="text" autoComplete="off" spellCheck={false} value={name} placeholder="team" onChange={(event) => setName(event.target.value)} />}
        </Field>
      )}
      {LIMITS.map((limit) => (
        <Field key={limit.name} name={limit.name} label={limit.title} hint={typedLimit(texts[limit.name]) === undefined ? "Enter a whole number, or nothing for no limit." : undefined}>
          {(input) => (
            <input {...input} type="text" inputMode="numeric" autoComplete="off" value={texts[limit.name]} placeholder="no limit" onChange={(event) => setTexts({ ...texts, [limit.name]: event.target.value })} />
          )}
        </Field>
      ))}
      <label className="check">
        <input type="checkbox" checked={schedules} onChange={(event) => setSchedules(event.target.checked)} /> Workflows may have schedules
      </label>
    </Confirm>
  );
}
