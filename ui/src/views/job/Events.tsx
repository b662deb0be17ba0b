/** The events of a job, oldest first. */
import { Found } from "../../parts/Feedback";
import { State } from "../../parts/State";
import { clock, exact } from "../../parts/words";
import { useEvents, type JobEvent } from "./queries";

export function Events({ id }: { id: string }) {
  const events = useEvents(id);
  const rows = folded(events.data?.pages.flatMap((each) => each.rows) ?? []);
  return (
    <section>
      <h3>Events</h3>
      <Found query={events}>
        {() => (
          <div className="table" tabIndex={0} role="region" aria-label="Events">
            <table>
              <thead>
                <tr>
                  <th>At</th>
                  <th>Event</th>
                  <th className="num">Attempt</th>
                  <th>Details</th>
                  <th className="wide-only">By</th>
                </tr>
              </thead>
              <tbody>
                {rows.map(({ event, times }) => (
                  <tr key={event.id}>
                    <td className="mono nowrap">
                      <time dateTime={event.at} title={exact(event.at)}>
                        {clock(event.at)}
                      </time>
                    </td>
                    <td>
                      <State state={event.event} />
                      {times > 1 && <span className="tag">×{times}</span>}
                    </td>
                    <td className="num">{event.attempt ?? "–"}</td>
                    <td>
                      <EventData data={event.data} />
                    </td>
                    <td className="wide-only dim">{event.actor}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Found>
      {events.hasNextPage && (
        <button type="button" className="more" onClick={() => void events.fetchNextPage()}>
          Show more
        </button>
      )}
    </section>
  );
}

/** Collapse consecutive heartbeats into the last one. */
export function folded(events: JobEvent[]): { event: JobEvent; times: number }[] {
  const found: { event: JobEvent; times: number }[] = [];
  for (const event of events) {
    const last = found.at(-1);
    if (last && event.event === "heartbeat" && last.event.event === "heartbeat") found[found.length - 1] = { event, times: last.times + 1 };
    else found.push({ event, times: 1 });
  }
  return found;
}

function EventData({ data }: { data: unknown }) {
  if (data === null || typeof data !== "object") return null;
  return Object.entries(data).map(([name, value]) => (
    <div key={name} className="event-line">
      <span className="dim">{name.replaceAll("_", " ")}</span> {typeof value === "string" ? value : JSON.stringify(value)}
    </div>
  ));
}
