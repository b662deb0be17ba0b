/** One job: payload, result, attempts, logs and events; cancel or retry it. */
import { Link } from "wouter";
import { JobArtifacts } from "../run/Artifacts";
import { Attempts } from "../run/Attempts";
import { phase, taskPath } from "../jobs/JobTable";
import { Copy } from "../../parts/Copy";
import { Fact, Facts } from "../../parts/Facts";
import { Found } from "../../parts/Feedback";
import { Json } from "../../parts/Json";
import { Menu } from "../../parts/Menu";
import { State } from "../../parts/State";
import { Ago } from "../../parts/Time";
import { Actions } from "./Actions";
import { Events } from "./Events";
import { Logs } from "./Logs";
import { Progress } from "./Progress";
import { Steps } from "./Steps";
import { Stream } from "./Stream";
import { useJob, waitsForEver, type JobDetail } from "./queries";

export default function JobView({ params }: { params: Record<string, string | undefined> }) {
  const id = params["id"] ?? "";
  const job = useJob(id);
  return <Found query={job}>{(found) => <Whole job={found} />}</Found>;
}

function Whole({ job }: { job: JobDetail }) {
  return (
    <section className="view">
      <Header job={job} />
      {job.progress && <Progress progress={job.progress} />}
      {job.status !== "succeeded" && job.error && job.errors.length === 0 && <pre className="error">{job.error}</pre>}
      <div className="two">
        <section>
          <h2>Payload</h2>
          <Json value={job.payload} label="payload" />
          {Object.keys(job.meta).length > 0 && (
            <>
              <h3>Meta</h3>
              <Json value={job.meta} label="meta" />
            </>
          )}
        </section>
        <section>
          {job.errors.length > 0 ? <Attempts errors={job.errors} /> : <h2>Result</h2>}
          {job.status === "succeeded" && (
            <>
              {job.errors.length > 0 && <h3>Result</h3>}
              <Json value={job.result ?? null} label="result" />
            </>
          )}
          {job.status !== "succeeded" && job.errors.length === 0 && <p className="dim">Available when the job has succeeded.</p>}
        </section>
      </div>
      <Steps job={job} />
      <Stream id={job.id} />
      <JobArtifacts job={job} />
      <Logs job={job} />
      <Events id={job.id} />
    </section>
  );
}

function Header({ job }: { job: JobDetail }) {
  return (
    <header className="run-head">
      <div className="view-head">
        <h1 className="long-name">{job.type}</h1>
        <State state={phase(job)} />
        {job.cancel_requested && <span className="tag">stop requested</span>}
        <div className="actions">
          <Menu label="Copy">
            <Copy text={job.id}>Id</Copy>
            <Copy text={location.href}>Link</Copy>
            <Copy text={`windlass jobs show ${job.id}`}>Command</Copy>
            <Copy text={`curl ${location.origin}/api/v1/jobs/${job.id}`}>curl command</Copy>
          </Menu>
          <Actions job={job} />
        </div>
      </div>
      <Facts>
        <Fact name="Job">
          <span className="mono">{job.id}</span> <Copy text={job.id} label="Copy the id" />
        </Fact>
        {job.run_id && (
          <Fact name="Task">
            <Link href={taskPath(job)}>
              {job.task ?? "of a run"}
              {job.index ? `[${job.index}]` : ""}
            </Link>
          </Fact>
        )}
        <Fact name="Queue">
          <Link href={`/jobs?queue=${encodeURIComponent(job.queue)}`}>{job.queue}</Link>
        </Fact>
        <Fact name="Attempt">
          {job.attempt} of {job.max_attempts}
          {job.lost_leases > 0 && `, ${job.lost_leases} lost to expired leases`}
          {job.started_over > 0 && `, restarted ×${job.started_over}`}
        </Fact>
        <Fact name="Submitted">
          <Ago when={job.inserted_at} />
        </Fact>
        <Fact name={job.status === "pending" ? "Due" : "Was due"}>
          {waitsForEver(job) ? "no due time yet (waiting, paused or held)" : <Ago when={job.run_at} />}
        </Fact>
        {job.finished_at && (
          <Fact name="Ended">
            <Ago when={job.finished_at} />
          </Fact>
        )}
        {job.worker && (
          <Fact name="Worker">
            <Link href={`/workers/${encodeURIComponent(job.worker)}`}>{job.worker}</Link>
          </Fact>
        )}
        {job.lease_until && (
          <Fact name="Lease ends">
            <Ago when={job.lease_until} />
          </Fact>
        )}
        {job.timeout && <Fact name="Timeout">{job.timeout}</Fact>}
        {job.retry && <Fact name="Backoff">{backoff(job.retry)}</Fact>}
        <Fact name="Priority">{job.priority}</Fact>
        {job.idempotency_key && <Fact name="Key">{job.idempotency_key}</Fact>}
        {job.tags.length > 0 && (
          <Fact name="Tags">
            {job.tags.map((tag) => (
              <Link key={tag} href={`/jobs?tag=${encodeURIComponent(tag)}`} className="tag">
                {tag}
              </Link>
            ))}
          </Fact>
        )}
      </Facts>
    </header>
  );
}

function backoff(retry: Record<string, unknown>): string {
  return `${String(retry["kind"] ?? "")}${retry["base"] === undefined ? "" : `, ${String(retry["base"])} s`}`;
}
