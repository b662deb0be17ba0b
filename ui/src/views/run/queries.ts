/** What the pages of a run ask for, and how news from its stream is put into place before the next answer comes. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, page, type RunDetail, type Task, type TaskStatus } from "../../api/client";
import { useLive } from "../../api/live";

export const LIVE = new Set(["pending", "running"]);

export function useRun(id: string) {
  return useQuery({
    queryKey: ["run", id],
    queryFn: () => data(api.GET("/api/v1/runs/{run_id}", { params: { path: { run_id: id } } })),
  });
}

/** A run keeps its version: what it looks like never changes. */
export function useGraph(id: string) {
  return useQuery({
    queryKey: ["graph", id],
    staleTime: Infinity,
    queryFn: () => data(api.GET("/api/v1/runs/{run_id}/graph", { params: { path: { run_id: id } } })),
  });
}

export function useTimeline(id: string, enabled = true) {
  return useQuery({
    queryKey: ["run", id, "timeline"],
    enabled,
    queryFn: () => page(api.GET("/api/v1/runs/{run_id}/timeline", { params: { path: { run_id: id } } })),
  });
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

/** Follows a run that is under way. Gives what each task is at just now: queued, running or backing off. */
export function useRunLife(id: string, run: RunDetail | undefined): Record<string, string> {
  const client = useQueryClient();
  const [phases, setPhases] = useState<Record<string, string>>({});
  const live = run !== undefined && LIVE.has(run.status);
  const [start] = useState<{ cursor: string | null | undefined }>({ cursor: undefined });
  if (start.cursor === undefined && run !== undefined) start.cursor = run.cursor; // where the stream goes on from this answer
  const path = live
    ? `/api/v1/runs/${id}/stream${start.cursor ? `?after=${encodeURIComponent(start.cursor)}` : ""}`
    : run && `/api/v1/stream?kind=run&workflow=${encodeURIComponent(run.workflow)}`; // somebody may retry it
  useLive(path ?? null, [["run", id]], ({ event, data }) => {
    if (event !== "task" && event !== "run") return false;
    const news = JSON.parse(data) as News;
    if (news.run_id !== id) return false;
    client.setQueryData<RunDetail>(["run", id], (old) => (old ? patched(old, news) : old));
    if (news.task !== undefined && news.index === undefined) setPhases((old) => ({ ...old, [news.task!]: news.event }));
    return true;
  });
  return phases;
}

export function patched(run: RunDetail, news: News): RunDetail {
  const status = news.run_status ?? run.status;
  const task = news.task === undefined ? undefined : run.tasks[news.task];
  if (task === undefined || news.status === undefined) return status === run.status ? run : { ...run, status };
  const changed: Task = { ...task, status: news.status, ...(news.instances ? { instances: news.instances } : {}), ...(news.attempt ? { attempt: news.attempt } : {}) };
  return { ...run, status, tasks: { ...run.tasks, [news.task!]: changed } };
}
