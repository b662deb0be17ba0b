/** The last 24 hours as bars: runs that completed, failed or timed out, or were cancelled. */
import type { Schemas } from "../../api/client";
import { count } from "../../parts/words";

export function Hours({ hours }: { hours: Schemas["StatsHour"][] }) {
  const ended = (hour: Schemas["StatsHour"]) => hour.completed + hour.failed + hour.timeout + hour.cancelled;
  const most = Math.max(1, ...hours.map((hour) => Math.max(ended(hour), hour.started)));
  const good = hours.reduce((sum, hour) => sum + hour.completed, 0);
  const bad = hours.reduce((sum, hour) => sum + hour.failed + hour.timeout, 0);
  const share = (n: number) => ({ height: `${(100 * n) / most}%` });
  return (
    <figure className="hours">
      <div className="hours-bars" role="img" aria-label={`Last 24 hours: ${count(good)} runs completed, ${count(bad)} failed or timed out`}>
        {hours.map((hour) => {
          const at = new Date(hour.at).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
          const summary = `${at}: ${hour.started} started, ${hour.completed} completed, ${hour.failed + hour.timeout} failed or timed out, ${hour.cancelled} cancelled`;
          return (
            <span key={hour.at} className="hour" title={summary}>
              <i className="tone-off" style={share(hour.cancelled)} />
              <i className="tone-bad" style={share(hour.failed + hour.timeout)} />
              <i className="tone-good" style={share(hour.completed)} />
            </span>
          );
        })}
      </div>
      <figcaption>
        <span>24 h ago</span>
        <span>
          {count(good)} completed, {count(bad)} failed (tallest bar: {count(most)})
        </span>
        <span>now</span>
      </figcaption>
    </figure>
  );
}
