/** The queries of the job page. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { api, data, page, type Schemas } from "../../api/client";
import { useLive } from "../../api/live";

export type JobDetail = Schemas["JobDetail"];
export type JobEvent = Schemas["JobEvent"];
export type JobStep = Schemas["JobStep"];

export const UNDER_WAY = new Set(["pending", "leased"]);
const AGAIN = 2000; // no stream announces progress and logs

export function useJob(id: string) {
  useLive("/api/v1/stream?kind=job&kind=task", [["job", id]], ({ data }) => (JSON.parse(data) as { job_id?: string }).job_id === id);
  return useQuery({
    queryKey: ["job", id],
    queryFn: () => data(api.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } } })),
    refetchInterval: ({ state }) => (state.data?.status === "leased" ? AGAIN : false),
  });
}

export function useEvents(id: string) {
  return useInfiniteQuery({
    queryKey: ["job", id, "events"],
    initialPageParam: 0,
    queryFn: ({ pageParam }) => page(api.GET("/api/v1/jobs/{job_id}/events", { params: { path: { job_id: id }, query: { after: pageParam, limit: 200 } } })),
    getNextPageParam: (last) => (last.next === null ? undefined : Number(last.next)),
  });
}

export function useSteps(job: JobDetail) {
  return useInfiniteQuery({
    queryKey: ["job", job.id, "steps"],
    initialPageParam: 0,
    queryFn: ({ pageParam }) => page(api.GET("/api/v1/jobs/{job_id}/steps", { params: { path: { job_id: job.id }, query: { after: pageParam, limit: 200 } } })),
    getNextPageParam: (last) => (last.next === null ? undefined : Number(last.next)),
    refetchInterval: job.status === "leased" ? AGAIN : false,
  });
}

/** Return whether a job has no due time: its handler waits for an event or a run, its run is paused, or it is held. */
export function waitsForEver(job: Pick<JobDetail, "status" | "run_at">): boolean {
  return job.status === "pending" && job.run_at.startsWith("9999");
}

/** Query the first page of log lines. */
export function useLogs(id: string, live: boolean) {
  return useQuery({ queryKey: ["job", id, "logs"], queryFn: () => lines(id, null), refetchInterval: live ? AGAIN : false });
}

export const LINES = 1000;

export async function lines(id: string, after: string | null) {
  return page(api.GET("/api/v1/jobs/{job_id}/logs", { params: { path: { job_id: id }, query: { limit: LINES, ...(after ? { after } : {}) } } }));
}
