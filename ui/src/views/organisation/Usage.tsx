/** The usage of the organisation and the limits of its plan. */
import { useQuery } from "@tanstack/react-query";
import { api, data, type Schemas } from "../../api/client";
import { Found } from "../../parts/Feedback";
import { Ago } from "../../parts/Time";
import { count, percent, plural } from "../../parts/words";

const OFTEN = 5_000; // executions are counted about once a second

export function Usage() {
  const usage = useQuery({ queryKey: ["usage"], queryFn: () => data(api.GET("/api/v1/usage")), refetchInterval: OFTEN });
  return <Found query={usage}>{(found) => <Whole usage={found} />}</Found>;
}

function Whole({ usage }: { usage: Schemas["UsageDetail"] }) {
  const { plan } = usage;
  const past = usage.history.filter((each) => each.month !== usage.month);
  return (
    <>
      <dl className="facts">
        <div>
          <dt>Plan</dt>
          <dd>{plan.name}</dd>
        </div>
        <div>
          <dt>Tasks per workflow</dt>
          <dd>{plan.steps_per_workflow === null ? "no limit" : `at most ${count(plan.steps_per_workflow)}`}</dd>
        </div>
        <div>
          <dt>Schedules</dt>
          <dd>{plan.schedules ? "allowed" : "not allowed"}</dd>
        </div>
        <div>
          <dt>Counted</dt>
          <dd>
            <Ago when={usage.counted_at} />
          </dd>
        </div>
      </dl>
      <div className="cards">
        <section className="card wide-card" aria-label="Executions this month">
          <h2>Executions in {usage.month}</h2>
          <Meter label="Executions this month" used={usage.executions} limit={plan.executions_per_month} />
          <p className="dim">
            Tasks of runs and standalone jobs. The count resets <Ago when={usage.resets_at} />.
          </p>
        </section>
        <section className="card">
          <h2>Concurrent executions</h2>
          <Meter label="Concurrent executions" used={usage.executing} limit={plan.executions_at_once} />
        </section>
        <section className="card">
          <h2>Concurrent runs</h2>
          <Meter label="Concurrent runs" used={usage.runs} limit={plan.runs_at_once} />
        </section>
        <section className="card">
          <h2>Workflows</h2>
          <Meter label="Workflows" used={usage.workflows} limit={plan.workflows} />
        </section>
        <section className="card">
          <h2>Past months</h2>
          {past.length === 0 ? (
            <p className="dim">No executions before this month.</p>
          ) : (
            <ul className="plain-list lines">
              {past.map((each) => (
                <li key={each.month}>
                  {each.month}
                  <span className="num">{plural(each.executions, "execution")}</span>
                </li>
              ))}
            </ul>
          )}
        </section>
      </div>
    </>
  );
}

/** A number against its limit, with a bar that turns red at the limit. */
export function Meter({ label, used, limit }: { label: string; used: number; limit: number | null }) {
  if (limit === null)
    return (
      <p>
        <strong className="big">{count(used)}</strong> <span className="dim">no limit</span>
      </p>
    );
  const full = used >= limit;
  return (
    <>
      <p>
        <strong className={`big ${full ? "tone-bad" : ""}`}>{count(used)}</strong> of {count(limit)} <span className="dim">{full ? "the limit is reached" : percent(used / limit)}</span>
      </p>
      <progress className={`meter tone-${full ? "bad" : used / limit >= NEAR ? "wait" : "busy"}`} aria-label={label} max={Math.max(limit, 1)} value={limit === 0 ? 1 : Math.min(used, limit)} />
    </>
  );
}

const NEAR = 0.8;
