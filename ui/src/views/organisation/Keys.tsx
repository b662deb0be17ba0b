/** The API keys of the organisation: create, rotate and revoke them. A key is shown once. */
import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, page, type Schemas } from "../../api/client";
import { useSession } from "../../api/session";
import { Confirm } from "../../parts/Confirm";
import { Empty, Found } from "../../parts/Feedback";
import { State } from "../../parts/State";
import { ActionsHead, More, Table } from "../../parts/Table";
import { Ago, useNow } from "../../parts/Time";
import { NewKey, ShownOnce } from "./NewKey";
import { ofOrg, stateOfKey } from "./words";

type Key = Schemas["Key"];
type Created = Schemas["NewKey"];

export function Keys() {
  const client = useQueryClient();
  const { org } = useSession();
  const [creating, setCreating] = useState(false);
  const [created, setCreated] = useState<Created | null>(null);
  const keys = useInfiniteQuery({
    queryKey: ["keys"],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam }) => page(api.GET("/api/v1/keys", { params: { query: { limit: 100, ...(pageParam ? { before: pageParam } : {}) } } })),
    getNextPageParam: (last) => last.next,
  });
  const rows = keys.data?.pages.flatMap((each) => each.rows) ?? [];
  const fresh = () => void client.invalidateQueries({ queryKey: ["keys"] });
  return (
    <>
      <div className="actions page-actions">
        <button type="button" className="primary" onClick={() => setCreating(true)}>
          New key…
        </button>
      </div>
      <Found query={keys}>
        {() =>
          rows.length === 0 ? (
            <Empty title="No keys yet" commands={[ofOrg("windlass keys create --role developer --name ci --expires 90d", org)]}>
              Programs, and people without single sign-on, use a key to act for the organisation. Create one with “New key”, or from a terminal:
            </Empty>
          ) : (
            <Table
              label="Keys"
              head={
                <>
                  <th>Name</th>
                  <th>Role</th>
                  <th>State</th>
                  <th className="wide-only">Created</th>
                  <th>Last used</th>
                  <th>Expires</th>
                  <ActionsHead />
                </>
              }
            >
              {rows.map((key) => (
                <Row key={key.id} apiKey={key} fresh={fresh} onRotated={setCreated} />
              ))}
            </Table>
          )
        }
      </Found>
      <More query={keys} />
      {creating && <NewKey onCreated={setCreated} onDone={fresh} onClose={() => setCreating(false)} />}
      {created && <ShownOnce created={created} onClose={() => setCreated(null)} />}
    </>
  );
}

function Row({ apiKey, fresh, onRotated }: { apiKey: Key; fresh: () => void; onRotated: (created: Created) => void }) {
  const [open, setOpen] = useState<"rotate" | "revoke" | null>(null);
  const [atOnce, setAtOnce] = useState(false);
  const now = useNow();
  const { id, name } = apiKey;
  const path = { params: { path: { key: id } } };
  const asked = { onDone: fresh, onClose: () => setOpen(null) };
  const state = stateOfKey(apiKey, now);
  const old = apiKey.old_until && Date.parse(apiKey.old_until) > now ? apiKey.old_until : null;
  return (
    <tr>
      <td className="long-name">
        <strong>{name}</strong>
        {name !== id && <div className="dim mono">{id}</div>}
      </td>
      <td>
        <span title={apiKey.scopes.join(", ")}>{apiKey.role ?? apiKey.scopes.join(", ")}</span>
        {apiKey.label && <span className="tag">{apiKey.label}</span>}
      </td>
      <td>
        <State state={state} />
        {state === "valid" && old && (
          <div className="dim">
            old secret until <Ago when={old} />
          </div>
        )}
      </td>
      <td className="wide-only">
        <Ago when={apiKey.created_at} />
        <div className="dim long-name">by {apiKey.created_by}</div>
      </td>
      <td>{apiKey.last_used_at ? <Ago when={apiKey.last_used_at} /> : <span className="dim">never</span>}</td>
      <td>{apiKey.expires_at ? <Ago when={apiKey.expires_at} /> : <span className="dim">never</span>}</td>
      <td>
        {state !== "revoked" && (
          <div className="actions row-actions">
            {state === "valid" && (
              <button type="button" onClick={() => setOpen("rotate")} aria-label={`Rotate ${name}`}>
                Rotate…
              </button>
            )}
            <button type="button" className="danger" onClick={() => setOpen("revoke")} aria-label={`Revoke ${name}`}>
              Revoke…
            </button>
          </div>
        )}
        {open === "rotate" && (
          <Confirm
            title={`Rotate ${name}`}
            verb="Create a new secret"
            act={async () => onRotated(await data(api.POST("/api/v1/keys/{key}/rotate", { ...path, body: { at_once: atOnce } })))}
            {...asked}
          >
            <p>The key gets a new secret, which is shown once. The old one stays valid for 24 hours, so that its users can change over.</p>
            <label className="check">
              <input type="checkbox" checked={atOnce} onChange={(event) => setAtOnce(event.target.checked)} /> The old secret becomes invalid at once
            </label>
          </Confirm>
        )}
        {open === "revoke" && (
          <Confirm title={`Revoke ${name}`} verb="Revoke the key" keep="Keep the key" danger act={() => data(api.POST("/api/v1/keys/{key}/revoke", path))} {...asked}>
            <p>Programs that use it are refused from now on, and sessions that began with it end. A revoked key cannot be made valid again.</p>
          </Confirm>
        )}
      </td>
    </tr>
  );
}
