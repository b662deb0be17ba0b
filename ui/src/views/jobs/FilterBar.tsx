/** The filters of a list of jobs. Entering an id opens that job. */
import { useLocation } from "wouter";
import { look, StateIcon } from "../../parts/State";
import { Typed } from "../../parts/Typed";
import { isId } from "../../parts/words";
import { NONE, STATES, write, type Filters } from "./filters";

export function FilterBar({ filters, change }: { filters: Filters; change: (part: Partial<Filters>) => void }) {
  const [, go] = useLocation();
  const toggle = (state: string) =>
    change({ status: filters.status.includes(state) ? filters.status.filter((each) => each !== state) : [...filters.status, state] });
  const find = (text: string) => (isId(text) ? go(`/jobs/${text.trim()}`) : change({ type: text.trim() }));
  return (
    <div className="filters many" role="group" aria-label="Filters">
      <div className="chips">
        {STATES.map((state) => (
          <button key={state} type="button" className="chip" aria-pressed={filters.status.includes(state)} onClick={() => toggle(state)}>
            <StateIcon state={state} />
            {look(state).word}
          </button>
        ))}
      </div>
      <Typed label="Id or type" hint="id or part of a type" value={filters.type} apply={find} />
      <Typed label="Queue" hint="queue" value={filters.queue} apply={(queue) => change({ queue: queue.trim() })} />
      <Typed label="Tag" hint="tag" value={filters.tag} apply={(tag) => change({ tag: tag.trim() })} />
      <Typed label="Run" hint="run id" value={filters.run} apply={(run) => change({ run: run.trim() })} />
      {write(filters).size > 0 && (
        <button type="button" className="link" onClick={() => change(NONE)}>
          clear
        </button>
      )}
    </div>
  );
}
