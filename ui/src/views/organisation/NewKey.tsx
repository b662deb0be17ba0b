/** Creates a key, and shows a new key once: the server stores only its hash. */
import { useState } from "react";
import { api, data, type Schemas } from "../../api/client";
import { Confirm } from "../../parts/Confirm";
import { Command } from "../../parts/Copy";
import { Dialog } from "../../parts/Dialog";
import { Field } from "../../parts/Field";
import { RoleField, useRoles } from "./RoleField";

const EXPIRIES: [string, string][] = [
  ["7d", "in 7 days"],
  ["30d", "in 30 days"],
  ["90d", "in 90 days"],
  ["365d", "in a year"],
  ["", "never"],
];

interface Props {
  onCreated: (created: Schemas["NewKey"]) => void;
  onDone: () => void;
  onClose: () => void;
}

export function NewKey({ onCreated, onDone, onClose }: Props) {
  const [roles, first] = useRoles("developer");
  const [role, setRole] = useState(first);
  const [name, setName] = useState("");
  const [expires, setExpires] = useState("90d");
  const create = async () => {
    const body = { role, ...(name.trim() ? { name: name.trim() } : {}), ...(expires ? { expires } : {}) };
    onCreated(await data(api.POST("/api/v1/keys", { body })));
  };
  return (
    <Confirm title="New key" verb="Create the key" fields={["name", "role", "expires"]} act={create} onDone={onDone} onClose={onClose}>
      <Field name="name" label="Name" hint="Shown in event trails and in the audit log.">
        {(input) => <input {...input} type="text" autoComplete="off" maxLength={100} value={name} placeholder="ci" onChange={(event) => setName(event.target.value)} />}
      </Field>
      <RoleField roles={roles} role={role} change={setRole} />
      <Field name="expires" label="Expires">
        {(input) => (
          <select {...input} value={expires} onChange={(event) => setExpires(event.target.value)}>
            {EXPIRIES.map(([value, words]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </select>
        )}
      </Field>
    </Confirm>
  );
}

export function ShownOnce({ created, onClose }: { created: Schemas["NewKey"]; onClose: () => void }) {
  return (
    <Dialog title={`Key ${created.name}`} onClose={onClose} firm>
      <p className="reason">Copy it now and keep it safe: it is shown only this once.</p>
      <Command text={created.key} />
      <p className="dim">
        Programs send it as <code>Authorization: Bearer KEY</code>; the command line reads it from <code>WINDLASS_API_KEY</code>.
      </p>
      <div className="actions">
        <button type="button" className="primary" onClick={onClose}>
          Done
        </button>
      </div>
    </Dialog>
  );
}
