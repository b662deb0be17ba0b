/** Jobs that used up their attempts, grouped by error. A group opens to list its jobs. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useSearchParams } from "wouter";
import { api, page } from "../../api/client";
import { useLive } from "../../api/live";
import { Empty, Found } from "../../parts/Feedback";
import { ListHead } from "../../parts/ListHead";
import { ActionsHead, More, Table } from "../../parts/Table";
import { Ago } from "../../parts/Time";
import { count } from "../../parts/words";
import { path, read, type Group } from "./group";
import { OneGroup } from "./OneGroup";
import { Buttons, Steering, type Plan } from "./Steer";

export default function DeadLetters() {
  const [params] = useSearchParams();
  const chosen = read(params);
  useLive("/api/v1/stream?kind=job&kind=task&kind=run", [["dead-letters"]], undefined, 1500);
  return chosen ? <OneGroup key={params.toString()} group={chosen} /> : <Groups />;
}

function Groups() {
  const [plan, setPlan] = useState<Plan | null>(null);
  const groups = useInfiniteQuery({
    queryKey: ["dead-letters", "groups"],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam }) => page(api.GET("/api/v1/dead-letters", { params: { query: { limit: 50, ...(pageParam ? { before: Number(pageParam) } : {}) } } })),
    getNextPageParam: (last) => last.next,
  });
  const rows = groups.data?.pages.flatMap((each) => each.rows) ?? [];
  return (
    <section className="view">
      <ListHead title="Dead letters" command="windlass dead-letters list" url={`${location.origin}/api/v1/dead-letters`} />
      <Found query={groups}>
        {() =>
          rows.length === 0 ? (
            <Empty title="No dead letters" commands={["windlass dead-letters list"]}>
              A job that has used up its attempts is listed here, grouped with the others that failed for the same reason. Retry them once the cause is fixed, or drop them:
            </Empty>
          ) : (
            <Table
              label="Groups of dead letters"
              head={
                <>
                  <th className="num">Jobs</th>
                  <th>Error</th>
                  <th className="wide-only">Queue</th>
                  <th>Last</th>
                  <ActionsHead />
                </>
              }
            >
              {rows.map((group) => (
                <Row key={path(group)} group={group} ask={setPlan} />
              ))}
            </Table>
          )
        }
      </Found>
      <More query={groups} />
      {plan && <Steering plan={plan} onClose={() => setPlan(null)} />}
    </section>
  );
}

function Row({ group, ask }: { group: Group; ask: (plan: Plan) => void }) {
  return (
    <tr>
      <td className="num">
        <strong>
          {count(group.count)}
          {group.capped && "+"}
        </strong>
      </td>
      <td>
        <Link href={path(group)} className="broken-name">
          {group.error}
        </Link>
        <div className="dim">
          <code>{group.type}</code>
          {group.of_runs && <span className="tag">tasks of runs</span>}
        </div>
      </td>
      <td className="wide-only">{group.queue}</td>
      <td>
        <Ago when={group.last_at} />
      </td>
      <td>
        <Buttons group={group} ask={ask} />
      </td>
    </tr>
  );
}
