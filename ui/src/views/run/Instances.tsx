/** The instances of a fanned-out task, in pages: there may be thousands. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, page, type Schemas, type Task } from "../../api/client";
import { Found } from "../../parts/Feedback";
import { Json } from "../../parts/Json";
import { State } from "../../parts/State";
import { Took } from "../../parts/Time";
import { count } from "../../parts/words";
import { Attempts } from "./Attempts";
import { Given } from "./Given";

const PAGE = 50;

export function Instances({ run, name, task }: { run: string; name: string; task: Task }) {
  const [after, setAfter] = useState(-1);
  const [open, setOpen] = useState<number | null>(null);
  const total = task.instances?.count ?? 0;
  const instances = useQuery({
    queryKey: ["run", run, "instances", name, after],
    placeholderData: keepPreviousData,
    queryFn: () => page(api.GET("/api/v1/runs/{run_id}/tasks/{task}/instances", { params: { path: { run_id: run, task: name }, query: { after, limit: PAGE } } })),
  });
  return (
    <section>
      <h3>Instances</h3>
      <p className="dim">
        {count(total)} total: {count(task.instances?.success ?? 0)} succeeded, {count(task.instances?.failed ?? 0)} failed, {count(task.instances?.running ?? 0)} running,{" "}
        {count(task.instances?.pending ?? 0)} pending
      </p>
      <form
        className="pager"
        onSubmit={(event) => {
          event.preventDefault();
          const at = Number(new FormData(event.currentTarget).get("at"));
          if (Number.isInteger(at) && at >= 0) {
            setAfter(at - 1);
            setOpen(at);
          }
        }}
      >
        <button type="button" disabled={after < 0} onClick={() => setAfter(Math.max(-1, after - PAGE))}>
          Previous
        </button>
        <span className="num">
          {total === 0 ? "none" : `${count(after + 1)} to ${count(Math.min(after + PAGE, total - 1))}`}
        </span>
        <button type="button" disabled={instances.data?.next == null || after + PAGE >= total - 1} onClick={() => setAfter(after + PAGE)}>
          Next
        </button>
        <input name="at" type="number" min={0} max={Math.max(0, total - 1)} aria-label="Go to instance" placeholder="go to" />
      </form>
      <Found query={instances}>
        {({ rows }) => (
          <ul className="instances">
            {rows.map((each) => (
              <Instance key={each.index} instance={each} open={open === each.index} toggle={() => setOpen(open === each.index ? null : each.index)} />
            ))}
          </ul>
        )}
      </Found>
    </section>
  );
}

function Instance({ instance, open, toggle }: { instance: Schemas["Instance"]; open: boolean; toggle: () => void }) {
  return (
    <li>
      <button type="button" className="row-button" aria-expanded={open} onClick={toggle}>
        <span className="num dim">#{instance.index}</span>
        <State state={instance.status} />
        {instance.attempt > 1 && <span className="tag">attempt {instance.attempt}</span>}
        <Took from={instance.started_at} to={instance.finished_at} />
      </button>
      {open && (
        <div className="indent">
          {instance.errors.length > 0 ? <Attempts errors={instance.errors} /> : instance.error && <pre className="error">{instance.error}</pre>}
          {instance.status === "success" && <Json value={instance.result} label={`result of instance ${instance.index}`} />}
          <Given id={instance.job_id} />
        </div>
      )}
    </li>
  );
}
