/** Secrets of the organisation. Their values can be set but not read, neither here nor over the API. */
import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, page, type Schemas } from "../../api/client";
import { useSession } from "../../api/session";
import { Confirm } from "../../parts/Confirm";
import { Empty, Found } from "../../parts/Feedback";
import { Field } from "../../parts/Field";
import { ActionsHead, More, Table } from "../../parts/Table";
import { Ago } from "../../parts/Time";
import { count } from "../../parts/words";
import { ofOrg } from "./words";

type Secret = Schemas["Secret"];

export function Secrets() {
  const client = useQueryClient();
  const { org } = useSession();
  const [setting, setSetting] = useState(false);
  const secrets = useInfiniteQuery({
    queryKey: ["secrets"],
    initialPageParam: "",
    queryFn: ({ pageParam }) => page(api.GET("/api/v1/secrets", { params: { query: { limit: 100, after: pageParam } } })),
    getNextPageParam: (last) => last.next ?? undefined,
  });
  const rows = secrets.data?.pages.flatMap((each) => each.rows) ?? [];
  const fresh = () => void client.invalidateQueries({ queryKey: ["secrets"] });
  return (
    <>
      <div className="actions page-actions">
        <button type="button" className="primary" onClick={() => setSetting(true)}>
          New secret…
        </button>
      </div>
      <Found query={secrets}>
        {() =>
          rows.length === 0 ? (
            <Empty title="No secrets yet" commands={[ofOrg("windlass secrets set STRIPE_KEY", org), "{{secrets.STRIPE_KEY}}"]}>
              Tokens and passwords belong here and not in workflows. Set one with “New secret” or from a terminal, then use it in HTTP tasks and in the environment of commands by its name:
            </Empty>
          ) : (
            <Table
              label="Secrets"
              head={
                <>
                  <th>Name</th>
                  <th className="num">Version</th>
                  <th>Set</th>
                  <th className="wide-only">By</th>
                  <ActionsHead />
                </>
              }
            >
              {rows.map((secret) => (
                <Row key={secret.name} secret={secret} fresh={fresh} />
              ))}
            </Table>
          )
        }
      </Found>
      <More query={secrets} />
      {setting && <SetSecret onDone={fresh} onClose={() => setSetting(false)} />}
    </>
  );
}

function Row({ secret, fresh }: { secret: Secret; fresh: () => void }) {
  const [open, setOpen] = useState<"set" | "delete" | null>(null);
  const asked = { onDone: fresh, onClose: () => setOpen(null) };
  const { name } = secret;
  return (
    <tr>
      <td className="long-name">
        <code>{name}</code>
      </td>
      <td className="num">{count(secret.version)}</td>
      <td>
        <Ago when={secret.updated_at} />
      </td>
      <td className="wide-only long-name">{secret.updated_by}</td>
      <td>
        <div className="actions row-actions">
          <button type="button" onClick={() => setOpen("set")} aria-label={`Set a new value of ${name}`}>
            New value…
          </button>
          <button type="button" className="danger" onClick={() => setOpen("delete")} aria-label={`Delete ${name}`}>
            Delete…
          </button>
        </div>
        {open === "set" && <SetSecret name={name} {...asked} />}
        {open === "delete" && (
          <Confirm title={`Delete ${name}`} verb="Delete the secret" keep="Keep the secret" danger act={() => api.DELETE("/api/v1/secrets/{name}", { params: { path: { name } } })} {...asked}>
            <p>Tasks that use it fail from now on, without a retry.</p>
          </Confirm>
        )}
      </td>
    </tr>
  );
}

function SetSecret({ name: known, onDone, onClose }: { name?: string; onDone: () => void; onClose: () => void }) {
  const [name, setName] = useState(known ?? "");
  const [value, setValue] = useState("");
  const put = () => data(api.PUT("/api/v1/secrets/{name}", { params: { path: { name: name.trim() } }, body: { value } }));
  return (
    <Confirm
      title={known ? `New value of ${known}` : "New secret"}
      verb="Set the secret"
      disabled={!name.trim() || !value}
      fields={["name", "value"]}
      act={put}
      onDone={onDone}
      onClose={onClose}
    >
      {!known && (
        <Field name="name" label="Name">
          {(input) => <input {...input} type="text" autoComplete="off" spellCheck={false} value={name} placeholder="STRIPE_KEY" onChange={(event) => setName(event.target.value)} />}
        </Field>
      )}
      <Field name="value" label="Value" hint="Stored encrypted, and never shown again. Attempts that start from now on use it.">
        {(input) => <textarea {...input} className="masked" rows={3} autoComplete="off" spellCheck={false} value={value} onChange={(event) => setValue(event.target.value)} />}
      </Field>
    </Confirm>
  );
}
