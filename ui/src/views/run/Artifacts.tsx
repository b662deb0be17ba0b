/** The files that a task or a job wrote, with links that download them. The browser streams them: they may be large. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { api, page, type Page, type Schemas, type Task } from "../../api/client";
import { More, Table } from "../../parts/Table";
import { Ago } from "../../parts/Time";
import { bytes } from "../../parts/words";

type Artifact = Schemas["TaskArtifact"];

export function Artifacts({ run, name, task }: { run: string; name: string; task: Task }) {
  const artifacts = useInfiniteQuery({
    queryKey: ["run", run, "artifacts", name, task.status],
    initialPageParam: null as string | null,
    getNextPageParam: (last: Page<Artifact>) => last.next,
    queryFn: ({ pageParam }) => page(api.GET("/api/v1/runs/{run_id}/tasks/{task}/artifacts", { params: { path: { run_id: run, task: name }, query: { after: pageParam } } })),
  });
  const rows = artifacts.data?.pages.flatMap((each) => each.rows) ?? [];
  if (rows.length === 0) return null; // most tasks write none
  return (
    <section>
      <h3>Artifacts</h3>
      <ArtifactTable rows={rows} fannedOut={task.instances != null} address={(row) => addressInRun(run, row)} />
      <More query={artifacts} />
    </section>
  );
}

export function JobArtifacts({ job }: { job: { id: string; status: string } }) {
  const artifacts = useInfiniteQuery({
    queryKey: ["job", job.id, "artifacts", job.status],
    initialPageParam: null as string | null,
    getNextPageParam: (last: Page<Artifact>) => last.next,
    queryFn: ({ pageParam }) => page(api.GET("/api/v1/jobs/{job_id}/artifacts", { params: { path: { job_id: job.id }, query: { after: pageParam } } })),
  });
  const rows = artifacts.data?.pages.flatMap((each) => each.rows) ?? [];
  if (rows.length === 0) return null;
  return (
    <section>
      <h3>Artifacts</h3>
      <ArtifactTable rows={rows} fannedOut={false} address={(row) => addressInJob(job.id, row)} />
      <More query={artifacts} />
    </section>
  );
}

export function ArtifactTable({ rows, fannedOut, address }: { rows: Artifact[]; fannedOut: boolean; address: (row: Artifact) => string }) {
  return (
    <Table
      label="Artifacts"
      head={
        <>
          {fannedOut && <th>Instance</th>}
          <th>Name</th>
          <th className="num">Size</th>
          <th>Attempt</th>
          <th>Written</th>
        </>
      }
    >
      {rows.map((row) => (
        <tr key={`${row.index}/${row.name}/${row.created_at}`}>
          {fannedOut && <td className="num">#{row.index}</td>}
          <td>
            <a href={address(row)} download={row.name} title={row.media_type}>
              {row.name}
            </a>
          </td>
          <td className="num">{bytes(row.size)}</td>
          <td>
            {row.attempt} {!row.is_result && <span className="dim">not the result</span>}
          </td>
          <td>
            <Ago when={row.created_at} />
          </td>
        </tr>
      ))}
    </Table>
  );
}

export function addressInRun(run: string, row: Artifact): string {
  const path = `/api/v1/runs/${run}/tasks/${encodeURIComponent(row.task)}/artifacts/${encodeURIComponent(row.name)}/content`;
  return `${path}?index=${row.index}&attempt=${row.attempt}`;
}

export function addressInJob(job: string, row: Artifact): string {
  return `/api/v1/jobs/${job}/artifacts/${encodeURIComponent(row.name)}/content?attempt=${row.attempt}`;
}
