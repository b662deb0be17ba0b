/** The spans of each task from the start of the run: queued, running, backing off, sleeping, waiting; by attempt. */
import { useMemo } from "react";
import type { RunDetail, Span } from "../../api/client";
import { Found } from "../../parts/Feedback";
import { stateOf } from "../../parts/activity";
import { grouped } from "../../parts/grouped";
import { look, StateIcon } from "../../parts/State";
import { useNow } from "../../parts/Time";
import { span } from "../../parts/words";
import { LIVE, useTimeline, type Picked } from "./queries";

const KINDS = ["queued", "running", "backoff", "sleeping", "waiting"];
const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400, 604_800];
const NICE = [1, 2, 5, 10, 20, 50, 100, 200, 500, ...SECONDS.map((each) => each * 1000)];

interface Props {
  run: RunDetail;
  picked: Picked | null;
  chosen: string | null;
  choose: (task: string) => void;
}

export function Timeline(props: Props) {
  const timeline = useTimeline(props.run.id, props.picked?.number ?? null);
  return <Found query={timeline}>{({ rows }) => <Gantt {...props} spans={rows} />}</Found>;
}

function Gantt({ run, picked, spans, chosen, choose }: Props & { spans: Span[] }) {
  const now = useNow();
  const whose = picked?.attempt ?? { status: run.status, began_at: run.started_at ?? run.inserted_at, ended_at: run.finished_at };
  const live = LIVE.has(whose.status);
  const start = Date.parse(whose.began_at);
  const ends = spans.map((each) => (each.ended_at ? Date.parse(each.ended_at) : now));
  const end = Math.max(live ? now : Date.parse(whose.ended_at ?? whose.began_at), ...ends, start + 1);
  const whole = end - start;
  const byTask = useMemo(() => grouped(spans, (each) => each.task), [spans]);
  const place = (from: number, to: number) => ({ left: `${(100 * (from - start)) / whole}%`, width: `${(100 * (to - from)) / whole}%` });
  return (
    <div className="gantt" role="region" aria-label="Timeline" tabIndex={0}>
      <div className="legend" aria-hidden>
        {KINDS.map((kind) => (
          <span key={kind}>
            <i className={`seg kind-${kind}`} />
            {look(kind).word}
          </span>
        ))}
        <span>
          <i className="seg kind-running bad" />
          failed attempt
        </span>
      </div>
      <div className="gantt-row scale" aria-hidden>
        <span />
        <div className="lane">
          {ticks(whole).map((at) => (
            <span key={at} className="tick" style={{ left: `${(100 * at) / whole}%` }}>
              {at === 0 ? "0" : span(at)}
            </span>
          ))}
        </div>
      </div>
      <ol>
        {Object.entries(run.tasks).map(([name, task]) => {
          const own = byTask.get(name) ?? [];
          const status = picked?.until ? became(own) : stateOf(task);
          const summary = own.map((each) => `${look(each.kind).word}${each.attempt ? ` (attempt ${each.attempt})` : ""} ${span((each.ended_at ? Date.parse(each.ended_at) : now) - Date.parse(each.began_at))}`).join(", ");
          return (
            <li key={name} className={`gantt-row${chosen === name ? " chosen" : ""}`}>
              <button type="button" className="gantt-name" onClick={() => choose(name)} aria-label={`${name}: ${status ? look(status).word : "did not run"}. ${summary}`}>
                {status && <StateIcon state={status} />}
                <span>{name}</span>
                {task.instances && <span className="dim num">×{task.instances.count}</span>}
              </button>
              <div className="lane">
                {own.map((each, n) => {
                  const from = Date.parse(each.began_at);
                  const to = each.ended_at ? Date.parse(each.ended_at) : end;
                  return (
                    <i
                      key={n}
                      className={`seg kind-${each.kind}${each.failed ? " bad" : ""}${each.ended_at ? "" : " open"}`}
                      style={place(from, to)}
                      title={`${name}: ${look(each.kind).word}${each.attempt ? `, attempt ${each.attempt}` : ""}, ${span(to - from)}, from +${span(from - start)}`}
                    />
                  );
                })}
                {own.length === 0 && status === "skipped" && <span className="lane-note">{task.reason ?? "skipped"}</span>}
              </div>
            </li>
          );
        })}
      </ol>
    </div>
  );
}

/** Return how a task ended in a past attempt, undefined if it did not run. */
export function became(own: Span[]): string | undefined {
  const last = own.at(-1);
  return last && (last.failed ? "failed" : last.kind === "running" || last.ended_at ? "success" : "cancelled");
}

export function ticks(whole: number): number[] {
  const step = NICE.find((each) => whole / each <= 7) ?? whole / 5;
  return Array.from({ length: Math.floor(whole / step) + 1 }, (_, n) => n * step).filter((at) => at <= whole * 0.93);
}
