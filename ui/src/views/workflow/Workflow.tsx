/** One workflow: its graph, its runs, its versions; edit it, trigger it, enable or disable it. */
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "wouter";
import { api, data, page, type Schemas } from "../../api/client";
import { may, useSession, type Scope } from "../../api/session";
import { useLive } from "../../api/live";
import { GraphView } from "../../graph/GraphView";
import { Allowed, AllowedPage } from "../../parts/Allowed";
import { Copy } from "../../parts/Copy";
import { Empty, Found, Trouble } from "../../parts/Feedback";
import { Menu } from "../../parts/Menu";
import { State } from "../../parts/State";
import { Tabs } from "../../parts/Tabs";
import { Ago } from "../../parts/Time";
import { plural } from "../../parts/words";
import { RunTable } from "../runs/RunTable";
import { Edit } from "./Edit";
import { Schedule } from "./Schedule";
import { Trigger } from "./Trigger";
import { Versions } from "./Versions";

const NEW = "+"; // not a valid workflow name
type Detail = Schemas["WorkflowDetail"];

const TABS: { name: string; title: string; scope?: Scope }[] = [
  { name: "graph", title: "Graph" },
  { name: "runs", title: "Runs" },
  { name: "trigger", title: "Trigger", scope: "start" },
  { name: "edit", title: "Edit", scope: "deploy" },
  { name: "versions", title: "Versions" },
  { name: "schedule", title: "Schedule" },
];

export default function WorkflowView({ params }: { params: Record<string, string | undefined> }) {
  const name = params["name"] ?? "";
  const tab = params["tab"] ?? "graph";
  return name === NEW ? (
    <section className="view">
      <div className="view-head">
        <h1>New workflow</h1>
      </div>
      <AllowedPage scope="deploy">
        <Edit workflow={null} />
      </AllowedPage>
    </section>
  ) : (
    <Known name={name} tab={tab} />
  );
}

function Known({ name, tab }: { name: string; tab: string }) {
  const workflow = useQuery({
    queryKey: ["workflows", "one", name],
    queryFn: () => data(api.GET("/api/v1/workflows/{ref}", { params: { path: { ref: name } } })),
  });
  const session = useSession();
  const tabs = TABS.filter(({ scope }) => scope === undefined || may(session, scope));
  const watched = tab === "runs" ? ["runs", "of", name] : ["workflows", "one", name];
  useLive(`/api/v1/stream?kind=run&workflow=${encodeURIComponent(name)}`, workflow.data ? [watched] : [], undefined, 1000);
  return (
    <Found query={workflow}>
      {(found) => (
        <section className="view run-view">
          <Header workflow={found} />
          <Tabs base={`/workflows/${name}`} tabs={tabs} chosen={tab} label="Views of the workflow" />
          {tab === "graph" && <Drawn workflow={found} />}
          {tab === "runs" && <Runs name={name} />}
          {tab === "trigger" && (
            <AllowedPage scope="start">
              <Trigger workflow={found} />
            </AllowedPage>
          )}
          {tab === "edit" && (
            <AllowedPage scope="deploy">
              <Edit key={found.version} workflow={found} />
            </AllowedPage>
          )}
          {tab === "versions" && <Versions workflow={found} />}
          {tab === "schedule" && <Schedule workflow={found} />}
        </section>
      )}
    </Found>
  );
}

function Header({ workflow }: { workflow: Detail }) {
  const client = useQueryClient();
  const path = { params: { path: { ref: workflow.name } } };
  const turn = useMutation({
    mutationFn: () => (workflow.enabled ? data(api.POST("/api/v1/workflows/{ref}/disable", path)) : data(api.POST("/api/v1/workflows/{ref}/enable", path))),
    onSuccess: () => client.invalidateQueries({ queryKey: ["workflows"] }),
  });
  return (
    <header className="run-head">
      <div className="view-head">
        <h1>
          {workflow.name} <span className="dim">v{workflow.version}</span>
        </h1>
        <State state={workflow.enabled ? "enabled" : "disabled"} />
        <div className="actions">
          <Menu label="Copy">
            <Copy text={workflow.id}>Id</Copy>
            <Copy text={location.href}>Link</Copy>
            <Copy text={`windlass run ${workflow.name} --input '{}'`}>Command to start it</Copy>
            <Copy text={`curl -X POST -H 'content-type: application/json' -d '{}' ${location.origin}/api/v1/workflows/${workflow.name}/trigger`}>curl command to start it</Copy>
          </Menu>
          <Allowed scope="operate">
            <button type="button" disabled={turn.isPending} onClick={() => turn.mutate()}>
              {workflow.enabled ? "Disable" : "Enable"}
            </button>
          </Allowed>
          <Allowed scope="start">
            <Link className="button primary" href={`/workflows/${workflow.name}/trigger`}>
              Trigger
            </Link>
          </Allowed>
        </div>
      </div>
      {turn.error && <Trouble error={turn.error} />}
      <dl className="facts">
        {workflow.description && (
          <div>
            <dt>Description</dt>
            <dd>{workflow.description}</dd>
          </div>
        )}
        <div>
          <dt>Tasks</dt>
          <dd>{plural(workflow.task_count, "task")}</dd>
        </div>
        <div>
          <dt>Trigger</dt>
          <dd>{workflow.cron_expression ? `${workflow.cron_expression} (${workflow.timezone})` : workflow.trigger}</dd>
        </div>
        {workflow.schedule?.next_run_at && (
          <div>
            <dt>Next</dt>
            <dd>
              <Ago when={workflow.schedule.next_run_at} />
            </dd>
          </div>
        )}
        <div>
          <dt>Deployed</dt>
          <dd>
            <Ago when={workflow.updated_at} />
          </dd>
        </div>
      </dl>
    </header>
  );
}

function Drawn({ workflow }: { workflow: Detail }) {
  const graph = useQuery({
    queryKey: ["workflows", "graph", workflow.name, workflow.version],
    staleTime: Infinity,
    queryFn: () => data(api.GET("/api/v1/workflows/{ref}/graph", { params: { path: { ref: workflow.name }, query: { version: workflow.version } } })),
  });
  return <Found query={graph}>{(found) => <GraphView graph={found} />}</Found>;
}

function Runs({ name }: { name: string }) {
  const runs = useInfiniteQuery({
    queryKey: ["runs", "of", name],
    initialPageParam: null as string | null,
    queryFn: ({ pageParam }) =>
      page(api.GET("/api/v1/workflows/{ref}/runs", { params: { path: { ref: name }, query: { limit: 50, ...(pageParam ? { before: pageParam } : {}) } } })),
    getNextPageParam: (last) => last.next,
  });
  const rows = runs.data?.pages.flatMap((each) => each.rows) ?? [];
  return (
    <Found query={runs}>
      {() =>
        rows.length === 0 ? (
          <Empty title="No runs yet" commands={[`windlass run ${name} --input '{}'`]}>
            Start one under Trigger, or from a terminal:
          </Empty>
        ) : (
          <>
            <RunTable runs={rows} named={false} />
            {runs.hasNextPage && (
              <button type="button" className="more" onClick={() => void runs.fetchNextPage()}>
                Show more
              </button>
            )}
          </>
        )
      }
    </Found>
  );
}
