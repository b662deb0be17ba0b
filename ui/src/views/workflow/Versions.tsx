/** The deployed versions, newest first, and what each changed. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useSearchParams } from "wouter";
import { api, data, page, type Schemas } from "../../api/client";
import { Diff } from "../../parts/Diff";
import { Found } from "../../parts/Feedback";
import { Ago } from "../../parts/Time";
import { plural } from "../../parts/words";

export function Versions({ workflow }: { workflow: Schemas["WorkflowDetail"] }) {
  const [search, setSearch] = useSearchParams();
  const to = Number(search.get("to")) || workflow.version;
  const from = Number(search.get("from")) || Math.max(1, to - 1);
  const versions = useInfiniteQuery({
    queryKey: ["workflows", "versions", workflow.name, workflow.version],
    initialPageParam: null as number | null,
    queryFn: ({ pageParam }) =>
      page(api.GET("/api/v1/workflows/{ref}/versions", { params: { path: { ref: workflow.name }, query: { limit: 50, ...(pageParam ? { before: pageParam } : {}) } } })),
    getNextPageParam: (last) => (last.next === null ? undefined : Number(last.next)),
  });
  const diff = useQuery({
    queryKey: ["workflows", "diff", workflow.name, from, to],
    staleTime: Infinity,
    enabled: from !== to,
    queryFn: () => data(api.GET("/api/v1/workflows/{ref}/diff", { params: { path: { ref: workflow.name }, query: { from, to } } })),
  });
  const rows = versions.data?.pages.flatMap((each) => each.rows) ?? [];
  const choose = (part: { from?: number; to?: number }) => setSearch({ from: String(part.from ?? from), to: String(part.to ?? to) }, { replace: true });
  return (
    <div className="two narrow-first">
      <section>
        <h2>Versions</h2>
        <Found query={versions}>
          {() => (
            <ul className="plain-list">
              {rows.map((version) => (
                <li key={version.version}>
                  <button
                    type="button"
                    className="row-button"
                    aria-pressed={version.version === to}
                    onClick={() => choose({ to: version.version, from: Math.max(1, version.version - 1) })}
                  >
                    <strong>v{version.version}</strong>
                    {version.live && <span className="tag">live</span>}
                    <span className="dim">{plural(version.task_count, "task")}</span>
                    <Ago when={version.inserted_at} />
                  </button>
                </li>
              ))}
            </ul>
          )}
        </Found>
        {versions.hasNextPage && (
          <button type="button" className="more" onClick={() => void versions.fetchNextPage()}>
            Show more
          </button>
        )}
      </section>
      <section>
        <h2>
          <label>
            From{" "}
            <select value={from} onChange={(event) => choose({ from: Number(event.target.value) })}>
              {rows.map((version) => (
                <option key={version.version} value={version.version}>
                  v{version.version}
                </option>
              ))}
            </select>
          </label>{" "}
          to v{to}
        </h2>
        {from === to ? <p className="dim">This is the first version: there is nothing to compare it with.</p> : <Found query={diff}>{({ lines }) => <Diff lines={lines} />}</Found>}
      </section>
    </div>
  );
}
