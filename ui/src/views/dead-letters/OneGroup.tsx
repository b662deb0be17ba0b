/** The jobs of one group of dead letters, each with retry and drop. */
import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { api, data, page } from "../../api/client";
import { Allowed } from "../../parts/Allowed";
import { Confirm } from "../../parts/Confirm";
import { Fact, Facts } from "../../parts/Facts";
import { Empty, Found } from "../../parts/Feedback";
import { JobTable, type Job } from "../jobs/JobTable";
import { which, type Named } from "./group";
import { Buttons, Steering, type Plan } from "./Steer";

export function OneGroup({ group }: { group: Named }) {
  const [plan, setPlan] = useState<Plan | null>(null);
  const jobs = useInfiniteQuery({
    queryKey: ["dead-letters", "jobs", group],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam }) =>
      page(api.GET("/api/v1/dead-letters/jobs", { params: { query: { ...which(group), limit: 50, ...(pageParam ? { before: Number(pageParam) } : {}) } } })),
    getNextPageParam: (last) => last.next,
  });
  const rows = jobs.data?.pages.flatMap((each) => each.rows) ?? [];
  return (
    <section className="view">
      <div className="view-head">
        <h1>
          <Link href="/dead-letters">Dead letters</Link>
        </h1>
        {rows.length > 0 && <Buttons group={group} ask={setPlan} />}
      </div>
      <pre className="error">{group.error}</pre>
      <Facts>
        <Fact name="Type">
          <code>{group.type}</code>
        </Fact>
        <Fact name="Queue">{group.queue}</Fact>
        {group.of_runs && <Fact name="Part of">runs: retrying these tasks retries their runs; tasks cannot be dropped</Fact>}
      </Facts>
      <Found query={jobs}>
        {() =>
          rows.length === 0 ? (
            <Empty title="This group is empty">
              Its jobs were retried or dropped. <Link href="/dead-letters">See the other groups.</Link>
            </Empty>
          ) : (
            <>
              <JobTable jobs={rows} actions={(job) => <One job={job} />} />
              {jobs.hasNextPage && (
                <button type="button" className="more" onClick={() => void jobs.fetchNextPage()}>
                  Show more
                </button>
              )}
            </>
          )
        }
      </Found>
      {plan && <Steering plan={plan} onClose={() => setPlan(null)} />}
    </section>
  );
}

function One({ job }: { job: Job }) {
  const client = useQueryClient();
  const [act, setAct] = useState<"retry" | "drop" | null>(null);
  const asked = { onDone: () => void client.invalidateQueries({ queryKey: ["dead-letters"] }), onClose: () => setAct(null) };
  const path = { params: { path: { job_id: job.id } } };
  const retry = () =>
    job.run_id ? data(api.POST("/api/v1/runs/{run_id}/retry", { params: { path: { run_id: job.run_id } } })) : data(api.POST("/api/v1/jobs/{job_id}/retry", path));
  return (
    <div className="actions row-actions">
      <Allowed scope="operate">
        <button type="button" onClick={() => setAct("retry")} aria-label={`Retry job ${job.id}`}>
          Retry
        </button>
        {!job.run_id && (
          <button type="button" className="danger" onClick={() => setAct("drop")} aria-label={`Drop job ${job.id}`}>
            Drop
          </button>
        )}
      </Allowed>
      {act === "retry" && (
        <Confirm title={job.run_id ? "Retry its run" : "Retry this job"} verb={job.run_id ? "Retry the run" : "Retry 1 job"} act={retry} {...asked}>
          <p>{job.run_id ? "Failed and skipped tasks of the run start again; tasks that succeeded keep their results." : "It runs again, and its attempt count is reset."}</p>
        </Confirm>
      )}
      {act === "drop" && (
        <Confirm title="Drop this job" verb="Drop 1 job" danger act={() => api.DELETE("/api/v1/jobs/{job_id}", path)} {...asked}>
          <p>It is hidden and will never run.</p>
        </Confirm>
      )}
    </div>
  );
}
