/** Approvals: steps that wait for the decision of a person. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { api, page, type Schemas } from "../../api/client";

export type Approval = Schemas["Approval"];

const AGAIN = 5_000; // no stream announces new approvals
export const MOST = 100; // the maximum number of open approvals that the menu counts

export const KEY = ["approvals"];

/** Query the approvals in one state, newest first. */
export function useApprovals(state: string) {
  return useInfiniteQuery({
    queryKey: [...KEY, "list", state],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) => page(api.GET("/api/v1/approvals", { params: { query: { ...(state === "all" ? {} : { state: [state] }), ...(pageParam ? { before: pageParam } : {}) } } })),
    getNextPageParam: (last) => last.next ?? undefined,
    refetchInterval: AGAIN,
  });
}

/** Query how many of the newest `MOST` open approvals the caller may decide. */
export function useDecidable(): number {
  const open = useQuery({
    queryKey: [...KEY, "open"],
    queryFn: () => page(api.GET("/api/v1/approvals", { params: { query: { state: ["open"], limit: MOST } } })),
    refetchInterval: AGAIN,
  });
  return open.data?.rows.filter((each) => each.may_decide).length ?? 0;
}

/** Query the approvals of a run, open approvals first. */
export function useApprovalsOfRun(run: string) {
  return useQuery({
    queryKey: [...KEY, "run", run],
    queryFn: () => page(api.GET("/api/v1/approvals", { params: { query: { run_id: run } } })),
    refetchInterval: AGAIN,
  });
}
