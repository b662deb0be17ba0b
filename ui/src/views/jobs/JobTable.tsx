/** A table of jobs. */
import type { ReactNode } from "react";
import { Link } from "wouter";
import type { Schemas } from "../../api/client";
import { State } from "../../parts/State";
import { Ago } from "../../parts/Time";
import { short } from "../../parts/words";

export type Job = Schemas["Job"];

export function JobTable({ jobs, actions }: { jobs: Job[]; actions?: (job: Job) => ReactNode }) {
  return (
    <div className="table" tabIndex={0} role="region" aria-label="Jobs">
      <table>
        <thead>
          <tr>
            <th>State</th>
            <th>Job</th>
            <th>Type</th>
            <th>Queue</th>
            <th className="num">Attempt</th>
            <th>Changed</th>
            <th className="wide-only">Details</th>
            {actions && (
              <th>
                <span className="hidden">Actions</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {jobs.map((job) => (
            <tr key={job.id}>
              <td>
                <State state={phase(job)} />
              </td>
              <td>
                <Link href={`/jobs/${job.id}`} className="mono" title={job.id}>
                  {short(job.id)}
                </Link>
                {job.run_id && (
                  <Link href={taskPath(job)} className="tag" title={`task of run ${job.run_id}`}>
                    {job.task ?? "task"}
                    {job.index ? `[${job.index}]` : ""}
                  </Link>
                )}
                {job.tags.map((tag) => (
                  <Link key={tag} href={`/jobs?tag=${encodeURIComponent(tag)}`} className="tag">
                    {tag}
                  </Link>
                ))}
              </td>
              <td className="mono">{job.type}</td>
              <td>{job.queue}</td>
              <td className="num">
                {job.attempt}/{job.max_attempts}
              </td>
              <td>
                {phase(job) === "scheduled" ? (
                  <>
                    due <Ago when={job.run_at} />
                  </>
                ) : (
                  <Ago when={job.updated_at} />
                )}
              </td>
              <td className="wide-only dim">
                <div className="clip clipped" title={job.error ?? undefined}>
                  {job.error ?? (job.worker && `leased by ${job.worker}`)}
                </div>
              </td>
              {actions && <td>{actions(job)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Return the status of a job; a pending job that is not due is `scheduled` or in `backoff`. */
export function phase(job: Pick<Job, "status" | "run_at" | "attempt">, now = Date.now()): string {
  if (job.status !== "pending" || Date.parse(job.run_at) <= now) return job.status;
  return job.attempt > 0 ? "backoff" : "scheduled";
}

/** Return the path of the job's run, with the task selected. */
export function taskPath(job: Pick<Job, "run_id" | "task">): string {
  return `/runs/${job.run_id}${job.task ? `?task=${encodeURIComponent(job.task)}` : ""}`;
}
