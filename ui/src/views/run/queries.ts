/** The queries of the run pages, and applying an event of the stream before the next response arrives. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, page, type Attempt, type Graph, type RunDetail, type Task, type TaskStatus } from "../../api/client";
import { useLive } from "../../api/live";
import { activityAfter, changesUnannounced } from "../../parts/activity";

export const LIVE = new Set(["pending", "running"]);
const RECHECK = 5_000; // no event says that a worker stopped or a queue was paused

export function useRun(id: string) {
  return useQuery({
    queryKey: ["run", id],
    queryFn: () => data(api.GET("/api/v1/runs/{run_id}", { params: { path: { run_id: id } } })),
    refetchInterval: ({ state }) => (state.data && LIVE.has(state.data.status) && changesUnannounced(state.data.tasks) ? RECHECK : false),
  });
}

/** A run keeps its version, so its graph never changes. */
export function useGraph(id: string) {
  return useQuery({
    queryKey: ["graph", id],
    staleTime: Infinity,
    queryFn: () => data(api.GET("/api/v1/runs/{run_id}/graph", { params: { path: { run_id: id } } })),
  });
}

export function useTimeline(id: string, attempt: number | null) {
  return useQuery({
    queryKey: ["run", id, "timeline", attempt],
    queryFn: () => page(api.GET("/api/v1/runs/{run_id}/timeline", { params: { path: { run_id: id }, query: { attempt } } })),
  });
}

/** One of several attempts at a run, with the time range that belongs to it. */
export interface Picked {
  number: number;
  from: string;
  until: string | null; // null: it is the last one
  attempt: Attempt;
}

export function pick(attempts: Attempt[], asked: string | null): Picked | null {
  const attempt = attempts.length > 1 ? attempts.find((each) => String(each.attempt) === asked) : undefined;
  if (attempt === undefined) return null;
  return { number: attempt.attempt, from: attempt.began_at, until: attempts[attempt.attempt]?.began_at ?? null, attempt };
}

export function within(picked: Picked | null, at: string | undefined): boolean {
  if (picked === null || at === undefined) return true;
  const moment = Date.parse(at);
  return moment >= Date.parse(picked.from) && (picked.until === null || moment < Date.parse(picked.until));
}

interface News {
  event: string;
  run_id?: string;
  run_status?: RunDetail["status"];
  task?: string;
  status?: TaskStatus;
  attempt?: number | null;
  index?: number;
  instances?: Task["instances"];
}

/** Follow the stream of a run and apply its events to the cached response. */
export function useRunLife(id: string, run: RunDetail | undefined): void {
  const client = useQueryClient();
  const live = run !== undefined && LIVE.has(run.status);
  const [start] = useState<{ cursor: string | null | undefined }>({ cursor: undefined });
  if (start.cursor === undefined && run !== undefined) start.cursor = run.cursor; // the stream continues after this answer
  const path = live
    ? `/api/v1/runs/${id}/stream${start.cursor ? `?after=${encodeURIComponent(start.cursor)}` : ""}`
    : run && `/api/v1/stream?kind=run&workflow=${encodeURIComponent(run.workflow)}`; // it may be retried
  useLive(path ?? null, [["run", id]], ({ event, data }) => {
    if (event !== "task" && event !== "run") return false;
    const news = JSON.parse(data) as News;
    if (news.run_id !== id) return false;
    client.setQueryData<RunDetail>(["run", id], (old) => (old ? patched(old, news) : old));
    return true;
  });
}

/** The stream of a run has no events of its child runs, so those are followed here and make the page refetch. */
export function useChildren(run: RunDetail, graph: Graph | undefined): void {
  const live = graph?.tasks.filter((task) => LIVE.has(run.tasks[task.name]?.child?.status ?? "")) ?? [];
  const ids = new Set(live.map((task) => run.tasks[task.name]!.child!.run_id));
  const [workflow, ...others] = new Set(live.map((task) => task.child));
  const only = workflow && others.length === 0 ? `&workflow=${encodeURIComponent(workflow)}` : "";
  useLive(live.length > 0 ? `/api/v1/stream?kind=run&kind=task${only}` : null, [["run", run.id]], ({ event, data }) => {
    if (event !== "task" && event !== "run") return false;
    return ids.has((JSON.parse(data) as News).run_id ?? "");
  });
}

export function patched(run: RunDetail, news: News): RunDetail {
  const status = news.run_status ?? run.status;
  const task = news.task === undefined ? undefined : run.tasks[news.task];
  if (task === undefined || news.status === undefined) return status === run.status ? run : { ...run, status };
  const activity = activityAfter(task, news.event, news.status);
  const until = activity === task.activity ? task.until : null;
  const changed: Task = { ...task, status: news.status, activity, until: until ?? null, ...(news.instances ? { instances: news.instances } : {}), ...(news.attempt ? { attempt: news.attempt } : {}) };
  return { ...run, status, tasks: { ...run.tasks, [news.task!]: changed } };
}
