/** The durable steps of a job, recorded and waiting, in order. Renders nothing if there are none. */
import { Link } from "wouter";
import { Json } from "../../parts/Json";
import { State } from "../../parts/State";
import { Ago } from "../../parts/Time";
import { clock, exact } from "../../parts/words";
import { useSteps, type JobDetail, type JobStep } from "./queries";

const STATES: Record<JobStep["status"], string> = { done: "succeeded", waiting: "waiting", timed_out: "timeout" };

export function Steps({ job }: { job: JobDetail }) {
  const steps = useSteps(job);
  const rows = steps.data?.pages.flatMap((each) => each.rows) ?? [];
  if (rows.length === 0) return null;
  return (
    <section>
      <h3>Steps of the handler</h3>
      <div className="table" tabIndex={0} role="region" aria-label="Steps of the handler">
        <table>
          <thead>
            <tr>
              <th>At</th>
              <th>Step</th>
              <th>Status</th>
              <th>Details</th>
            </tr>
          </thead>
          <tbody>
            {rows.map((step) => (
              <tr key={step.name}>
                <td className="mono nowrap">
                  <time dateTime={step.at} title={exact(step.at)}>
                    {clock(step.at)}
                  </time>
                </td>
                <td>{step.name}</td>
                <td>
                  <State state={STATES[step.status]} />
                </td>
                <td>
                  <Details step={step} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {steps.hasNextPage && (
        <button type="button" className="more" onClick={() => void steps.fetchNextPage()}>
          Show more
        </button>
      )}
    </section>
  );
}

function Details({ step }: { step: JobStep }) {
  return (
    <>
      {step.message && <span>{awaited(step)} </span>}
      {step.run_id && (
        <span>
          run <Link href={`/runs/${step.run_id}`}>{step.run_id}</Link>{" "}
        </span>
      )}
      {step.status === "waiting" && step.until && (
        <span className="dim">
          until <Ago when={step.until} />
        </span>
      )}
      {step.is_large && <span className="dim">The result is too large to be shown.</span>}
      {step.status === "done" && step.result !== null && step.result !== undefined && <Json value={step.result} label={`result of ${step.name}`} />}
    </>
  );
}

/** Describe the message that a step waits for. */
export function awaited(step: Pick<JobStep, "message" | "key">): string {
  if (step.key === null) return `signal ${step.message}`;
  return step.key ? `event ${step.message} with key ${step.key}` : `event ${step.message}`;
}
