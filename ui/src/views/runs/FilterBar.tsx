/** The filters of a list of runs. Text is applied when typing pauses. */
import { look, StateIcon } from "../../parts/State";
import { Typed } from "../../parts/Typed";
import { SPANS, STATES, type Filters } from "./filters";

interface Props {
  filters: Filters;
  change: (part: Partial<Filters>) => void;
  workflows: string[];
}

export function FilterBar({ filters, change, workflows }: Props) {
  const any = filters.status.length + filters.label.length > 0 || filters.workflow || filters.text || filters.since || filters.retrying;
  const toggle = (state: string) =>
    change({ status: filters.status.includes(state) ? filters.status.filter((each) => each !== state) : [...filters.status, state] });
  return (
    <div className="filters" role="group" aria-label="Filters">
      <div className="chips">
        {STATES.map((state) => (
          <button key={state} type="button" className="chip" aria-pressed={filters.status.includes(state)} onClick={() => toggle(state)}>
            <StateIcon state={state} />
            {look(state).word}
          </button>
        ))}
        <button type="button" className="chip" aria-pressed={filters.retrying} onClick={() => change({ retrying: !filters.retrying })}>
          <StateIcon state="backoff" />
          retrying now
        </button>
      </div>
      <select aria-label="Workflow" value={filters.workflow} onChange={(event) => change({ workflow: event.target.value })}>
        <option value="">any workflow</option>
        {[...new Set([...workflows, ...(filters.workflow ? [filters.workflow] : [])])].map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
      <select aria-label="Time" value={filters.since} onChange={(event) => change({ since: event.target.value })}>
        <option value="">any time</option>
        {Object.keys(SPANS).map((span) => (
          <option key={span} value={span}>
            last {span}
          </option>
        ))}
      </select>
      <Typed label="Text" hint="id, workflow or label" value={filters.text} apply={(text) => change({ text })} />
      <Typed
        label="Label"
        hint="key=value"
        value={filters.label.join(", ")}
        apply={(text) => change({ label: text.split(",").map((each) => each.trim()).filter((each) => each.includes("=")) })}
      />
      {any ? (
        <button type="button" className="link" onClick={() => change({ status: [], label: [], workflow: "", text: "", since: "", retrying: false })}>
          clear
        </button>
      ) : null}
    </div>
  );
}
