/** Jobs, newest first, by id, type, queue, status, tag or run. */
import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { api, page } from "../../api/client";
import { useLive } from "../../api/live";
import { Allowed } from "../../parts/Allowed";
import { Empty, Found, Trouble } from "../../parts/Feedback";
import { ListHead } from "../../parts/ListHead";
import { FilterBar } from "./FilterBar";
import { address, command, query, useFilters, write } from "./filters";
import { JobTable } from "./JobTable";

const PAGE = 50;

export default function Jobs() {
  const [filters, change] = useFilters();
  useLive("/api/v1/stream?kind=job&kind=task", [["jobs"]], undefined, 1000);
  const asked = write(filters).toString();
  const jobs = useInfiniteQuery({
    queryKey: ["jobs", asked],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam }) => page(api.GET("/api/v1/jobs", { params: { query: { ...query(filters), limit: PAGE, ...(pageParam ? { before: Number(pageParam) } : {}) } } })),
    getNextPageParam: (last) => last.next,
    placeholderData: keepPreviousData,
  });
  const rows = jobs.data?.pages.flatMap((each) => each.rows) ?? [];
  return (
    <section className="view">
      <ListHead title="Jobs" command={command(filters)} url={address(filters)}>
        <Allowed scope="start">
          <Link className="button" href="/jobs/new">
            New job
          </Link>
        </Allowed>
      </ListHead>
      <FilterBar filters={filters} change={change} />
      {jobs.error && jobs.data && <Trouble error={jobs.error} />}
      <Found query={jobs}>
        {() =>
          rows.length === 0 ? (
            asked ? (
              <Empty title="No matching jobs">Remove a filter. A type can be a pattern: billing.% finds every type that begins with it.</Empty>
            ) : (
              <Empty title="No jobs yet" commands={["windlass submit content.thumbnail.v1 '{\"id\": 7}'", "windlass worker MODULE:APP"]}>
                A job is one unit of work, stored in Postgres until a worker runs it. Submit one from a terminal, over HTTP, from Python or with plain SQL:
              </Empty>
            )
          ) : (
            <>
              <JobTable jobs={rows} />
              {jobs.hasNextPage && (
                <button type="button" className="more" disabled={jobs.isFetchingNextPage} onClick={() => void jobs.fetchNextPage()}>
                  {jobs.isFetchingNextPage ? "loading" : "Show more"}
                </button>
              )}
            </>
          )
        }
      </Found>
    </section>
  );
}
