/** Starts the missing runs of past ticks, after counting them. */
import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { api, data } from "../../api/client";
import { Command } from "../../parts/Copy";
import { Dialog } from "../../parts/Dialog";
import { Trouble } from "../../parts/Feedback";
import { exact, plural } from "../../parts/words";

const DAY = 86_400_000;
const MOST = 10_000;

export function Backfill({ name, onDone, onClose }: { name: string; onDone: () => void; onClose: () => void }) {
  const [from, setFrom] = useState(() => local(Date.now() - DAY));
  const [to, setTo] = useState("");
  const [limit, setLimit] = useState(100);
  const body = { from: moment(from), limit, ...(to ? { to: moment(to) } : {}) };
  const sensible = from !== "" && limit >= 1 && limit <= MOST;
  const path = { params: { path: { ref: name } } };
  const count = useQuery({
    queryKey: ["backfill", name, body],
    enabled: sensible,
    retry: false,
    gcTime: 0,
    placeholderData: keepPreviousData,
    queryFn: () => data(api.POST("/api/v1/schedules/{ref}/backfill", { ...path, body: { ...body, dry_run: true } })),
  });
  const fill = useMutation({ mutationFn: () => data(api.POST("/api/v1/schedules/{ref}/backfill", { ...path, body })), onSuccess: onDone });
  const left = count.error ? 0 : (count.data?.left ?? 0);
  return (
    <Dialog title={`Backfill ${name}`} onClose={onClose}>
      <p>Starts a run for each past tick that has none. It is safe to repeat.</p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          fill.mutate();
        }}
      >
        <label className="field">
          From <input type="datetime-local" required value={from} onChange={(event) => setFrom(event.target.value)} />
        </label>
        <label className="field">
          <span>
            Before <span className="dim">(default: now)</span>
          </span>
          <input type="datetime-local" value={to} onChange={(event) => setTo(event.target.value)} />
        </label>
        <label className="field">
          Maximum ticks <input type="number" min={1} max={MOST} value={limit} onChange={(event) => setLimit(event.target.valueAsNumber || 0)} />
        </label>
        <Command text={`windlass schedules backfill ${name} --from ${body.from}${body.to ? ` --to ${body.to}` : ""} --limit ${limit}`} />
        {fill.data ? (
          <p role="status">
            {plural(fill.data.started, "run")} started. <Link href={`/runs?workflow=${name}`}>See them.</Link>
            {fill.data.next && ` More ticks remain, from ${exact(fill.data.next)} on.`}
          </p>
        ) : (
          count.data &&
          !count.error && (
            <p role="status">
              {left === 0 ? "Every tick in this period already has a run." : `${plural(left, "tick has", "ticks have")} no run.`}
              {count.data.next && ` There are more than ${plural(limit, "tick")}; this stops before ${exact(count.data.next)}.`}
            </p>
          )
        )}
        {count.error && <Trouble error={count.error} />}
        {fill.error && <Trouble error={fill.error} />}
        <div className="actions">
          <button type="button" onClick={onClose}>
            Close
          </button>
          {!fill.data && (
            <button type="submit" className="primary" disabled={!sensible || left === 0 || fill.isPending || count.isFetching}>
              Start {plural(left, "run")}
            </button>
          )}
        </div>
      </form>
    </Dialog>
  );
}

/** Format for a datetime-local field: local time, to the minute. */
function local(ms: number): string {
  return new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

function moment(text: string): string {
  return text === "" ? "" : new Date(text).toISOString().replace(".000", "");
}
