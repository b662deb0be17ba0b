/** Runs, newest first: filters, pages, bulk cancel and retry. */
import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, page } from "../../api/client";
import { useLive } from "../../api/live";
import { Allowed } from "../../parts/Allowed";
import { Empty, Found, Trouble } from "../../parts/Feedback";
import { ListHead } from "../../parts/ListHead";
import { Menu } from "../../parts/Menu";
import { Bulk } from "./Bulk";
import { FilterBar } from "./FilterBar";
import { command, query, useFilters, write } from "./filters";
import { RunTable } from "./RunTable";

const PAGE = 50;

export default function Runs() {
  const [filters, change] = useFilters();
  const [bulk, setBulk] = useState<"cancel" | "retry" | null>(null);
  useLive("/api/v1/stream?kind=run", [["runs"]], undefined, 1000);
  const asked = write(filters).toString();
  const runs = useInfiniteQuery({
    queryKey: ["runs", asked],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam }) =>
      page(
        api.GET("/api/v1/runs", {
          params: { query: { ...query(filters, Date.now()), limit: PAGE, ...(pageParam ? { before: pageParam } : {}) } },
        }),
      ),
    getNextPageParam: (last) => last.next,
    placeholderData: keepPreviousData,
  });
  const workflows = useQuery({ queryKey: ["workflows", "names"], queryFn: () => page(api.GET("/api/v1/workflows", { params: { query: { limit: 1000 } } })), staleTime: 30_000 });
  const rows = runs.data?.pages.flatMap((each) => each.rows) ?? [];
  const url = `${location.origin}/api/v1/runs?${new URLSearchParams(asked)}`;
  return (
    <section className="view">
      <ListHead title="Runs" command={command(filters)} url={url}>
        <Allowed scope="operate">
          <Menu label="All matching">
            <button type="button" className="item" onClick={() => setBulk("cancel")}>
              Cancel…
            </button>
            <button type="button" className="item" onClick={() => setBulk("retry")}>
              Retry…
            </button>
          </Menu>
        </Allowed>
      </ListHead>
      <FilterBar filters={filters} change={change} workflows={workflows.data?.rows.map((each) => each.name) ?? []} />
      {runs.error && runs.data && <Trouble error={runs.error} />}
      <Found query={runs}>
        {() =>
          rows.length === 0 ? (
            asked ? (
              <Empty title="No matching runs">Remove a filter, or choose a longer time range.</Empty>
            ) : (
              <Empty title="No runs yet" commands={["windlass deploy workflow.yaml", "windlass run NAME --input '{}'"]}>
                A run is one execution of a workflow. Start one from the page of its workflow, with a schedule, or from a terminal:
              </Empty>
            )
          ) : (
            <>
              <RunTable runs={rows} />
              {runs.hasNextPage && (
                <button type="button" className="more" disabled={runs.isFetchingNextPage} onClick={() => void runs.fetchNextPage()}>
                  {runs.isFetchingNextPage ? "loading" : "Show more"}
                </button>
              )}
            </>
          )
        }
      </Found>
      {bulk && <Bulk act={bulk} filters={filters} onClose={() => setBulk(null)} />}
    </section>
  );
}
