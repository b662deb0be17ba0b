/** The events of a run, oldest first, with reasons; and an explanation of the run. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { api, data, page } from "../../api/client";
import { Found } from "../../parts/Feedback";
import { State } from "../../parts/State";
import { clock, exact } from "../../parts/words";
import type { Picked } from "./queries";

export function Events({ id, picked, live }: { id: string; picked: Picked | null; live: boolean }) {
  const attempt = picked?.number ?? null;
  const events = useInfiniteQuery({
    queryKey: ["run", id, "events", attempt],
    initialPageParam: "0.0",
    queryFn: ({ pageParam }) => page(api.GET("/api/v1/runs/{run_id}/events", { params: { path: { run_id: id }, query: { attempt, after: pageParam, limit: 200 } } })),
    getNextPageParam: (last) => (last.next === null ? undefined : last.next),
  });
  const why = useQuery({
    queryKey: ["run", id, "explain"],
    queryFn: () => data(api.GET("/api/v1/runs/{run_id}/explain", { params: { path: { run_id: id } } })),
  });
  const rows = events.data?.pages.flatMap((each) => each.rows) ?? [];
  return (
    <>
      {why.data && !picked?.until && [...why.data.run, ...(live ? why.data.now : [])].length > 0 && (
        <div className="explanation">
          {[...why.data.run, ...(live ? why.data.now : [])].map((sentence) => (
            <p key={sentence}>{sentence}</p>
          ))}
        </div>
      )}
      <Found query={events}>
        {() => (
          <div className="table" tabIndex={0} role="region" aria-label="Events">
            <table>
              <thead>
                <tr>
                  <th>At</th>
                  <th>Task</th>
                  <th>Event</th>
                  <th>Reason</th>
                  <th className="wide-only">By</th>
                </tr>
              </thead>
              <tbody className="still">
                {rows.map((event) => (
                  <tr key={event.id}>
                    <td className="mono nowrap">
                      <time dateTime={event.at} title={exact(event.at)}>
                        {clock(event.at)}
                      </time>
                    </td>
                    <td>{event.task ?? <span className="dim">the run</span>}</td>
                    <td>
                      <State state={event.event} />
                    </td>
                    <td>{event.reason}</td>
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
    </>
  );
}
