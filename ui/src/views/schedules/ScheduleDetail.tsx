/** One schedule: cron, overlap and catch-up policy, upcoming ticks. Used by its own page and by the page of its workflow. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { api, data } from "../../api/client";
import { Fact, Facts } from "../../parts/Facts";
import { Found } from "../../parts/Feedback";
import { Json } from "../../parts/Json";
import { State } from "../../parts/State";
import { Ago } from "../../parts/Time";
import { Actions } from "./Actions";
import { stateOf } from "./Schedules";

const AHEAD = 10;

export function ScheduleDetail({ name }: { name: string }) {
  const schedule = useQuery({
    queryKey: ["schedules", "one", name],
    queryFn: () => data(api.GET("/api/v1/schedules/{ref}", { params: { path: { ref: name }, query: { next: AHEAD } } })),
  });
  return (
    <Found query={schedule}>
      {(found) => (
        <>
          <Actions schedule={found} />
          {found.paused_reason && <p className="reason">Paused: {found.paused_reason}</p>}
          {found.skipped_reason && (
            <p className="reason">
              The tick of <Ago when={found.skipped_at} /> started no run: {found.skipped_reason}
            </p>
          )}
          <div className="two">
            <section>
              <h2>Schedule</h2>
              <Facts tall>
                <Fact name="Cron">
                  <code>{found.cron}</code> {found.timezone}
                </Fact>
                <Fact name="State">
                  <State state={stateOf(found)} />
                </Fact>
                <Fact name="Next">
                  <Ago when={found.next_run_at} />
                </Fact>
                {found.waiting_tick && (
                  <Fact name="Waiting">
                    the tick of <Ago when={found.waiting_tick} />, until the previous run has ended
                  </Fact>
                )}
                <Fact name="Last">
                  <Ago when={found.last_run_at} /> {found.last_run_id && <Link href={`/runs/${found.last_run_id}`}>last run</Link>}
                </Fact>
                <Fact name="Overlap">{found.overlap}</Fact>
                <Fact name="Catch-up">{found.catch_up}</Fact>
              </Facts>
              <h2>Input of its runs</h2>
              <Json value={found.input} label="input of scheduled runs" />
            </section>
            <section>
              <h2>{found.paused || !found.enabled ? "Upcoming once it is active" : "Upcoming"}</h2>
              <ol className="plain-list lines">
                {found.upcoming.map((tick) => (
                  <li key={tick}>
                    <span className="mono">{clock(tick)}</span>
                    <span className="dim">
                      <Ago when={tick} />
                    </span>
                  </li>
                ))}
              </ol>
              {found.upcoming.length === 0 && <p className="dim">No upcoming ticks.</p>}
            </section>
          </div>
        </>
      )}
    </Found>
  );
}

/** Format in the schedule's time zone, as the server sent it. */
function clock(tick: string): string {
  return `${tick.slice(0, 10)} ${tick.slice(11, 19)} ${tick.slice(19)}`;
}
