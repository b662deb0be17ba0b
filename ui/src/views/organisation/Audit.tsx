/** The audit log: actor, action and object of each change, newest first. */
import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useSearchParams } from "wouter";
import { api, page, type Schemas } from "../../api/client";
import { Empty, Found, Trouble } from "../../parts/Feedback";
import { Json } from "../../parts/Json";
import { More, Table } from "../../parts/Table";
import { Ago } from "../../parts/Time";
import { Typed } from "../../parts/Typed";
import { readFilters, setFilters, type Filters } from "./words";

const NONE: Filters = { actor: "", action: "", object: "" };

export function Audit() {
  const [params, setParams] = useSearchParams();
  const filters = readFilters(params);
  const chosen = setFilters(filters);
  const change = (part: Partial<Filters>) => setParams(setFilters({ ...readFilters(new URLSearchParams(location.search)), ...part }), { replace: true });
  const entries = useInfiniteQuery({
    queryKey: ["audit", chosen],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam }) => page(api.GET("/api/v1/audit", { params: { query: { ...chosen, limit: 50, ...(pageParam ? { before: pageParam } : {}) } } })),
    getNextPageParam: (last) => last.next,
    placeholderData: keepPreviousData,
  });
  const rows = entries.data?.pages.flatMap((each) => each.rows) ?? [];
  const any = Object.keys(chosen).length > 0;
  return (
    <>
      <div className="filters" role="group" aria-label="Filters">
        <Typed label="Actor" hint="actor: key:ci" value={filters.actor} apply={(actor) => change({ actor })} />
        <Typed label="Action" hint="action: key. …" value={filters.action} apply={(action) => change({ action })} />
        <Typed label="Object" hint="object: ci" value={filters.object} apply={(object) => change({ object })} />
        {any && (
          <button type="button" className="link" onClick={() => change(NONE)}>
            clear
          </button>
        )}
      </div>
      {entries.error && entries.data && <Trouble error={entries.error} />}
      <Found query={entries}>
        {() =>
          rows.length === 0 ? (
            any ? (
              <Empty title="No matching entries">Actors and objects must match exactly; actions match by prefix: key. or run.cancel. Remove a filter to see more.</Empty>
            ) : (
              <Empty title="The audit log is empty">Actions that change something are recorded here: deploying, cancelling, pausing, keys, members, secrets.</Empty>
            )
          ) : (
            <Table
              label="Audit log"
              head={
                <>
                  <th>Time</th>
                  <th>Actor</th>
                  <th>Action</th>
                  <th>Object</th>
                  <th>
                    <span className="hidden">Data</span>
                  </th>
                </>
              }
            >
              {rows.map((entry) => (
                <Row key={`${entry.at} ${entry.id}`} entry={entry} />
              ))}
            </Table>
          )
        }
      </Found>
      <More query={entries} />
    </>
  );
}

function Row({ entry }: { entry: Schemas["AuditEntry"] }) {
  const [open, setOpen] = useState(false);
  const hasData = Object.keys(entry.data).length > 0;
  return (
    <>
      <tr>
        <td>
          <Ago when={entry.at} />
        </td>
        <td className="long-name">{entry.actor}</td>
        <td>
          <code>{entry.action}</code>
        </td>
        <td className="long-name">{entry.object ?? <span className="dim">–</span>}</td>
        <td>
          {hasData && (
            <div className="actions row-actions">
              <button type="button" aria-expanded={open} aria-label={`Data of ${entry.action} ${entry.object ?? ""}`} onClick={() => setOpen(!open)}>
                {open ? "Hide" : "Show"}
              </button>
            </div>
          )}
        </td>
      </tr>
      {open && (
        <tr>
          <td colSpan={5}>
            <Json value={entry.data} label={`data of ${entry.action}`} />
          </td>
        </tr>
      )}
    </>
  );
}
