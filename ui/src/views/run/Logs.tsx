/** The log of a task: the last lines, followed while the task runs. */
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api, headers, page, type Schemas } from "../../api/client";
import { follow } from "../../api/live";
import { keep, LogBox } from "../../parts/LogBox";
import { within, type Picked } from "./queries";

type Line = Schemas["TaskLogLine"];

const TAIL = 1000;

export function Logs({ run, name, live, picked }: { run: string; name: string; live: boolean; picked: Picked | null }) {
  const lines = useLines(run, name, live);
  return <LogBox lines={picked ? lines?.filter((line) => within(picked, line.at)) : lines} live={live} label={`Logs of ${name}`} most={TAIL} download={() => void download(run, name)} />;
}

/** Return the last lines, followed live while the task runs. */
function useLines(run: string, name: string, live: boolean): Line[] | undefined {
  const path = { run_id: run, task: name };
  const [followed, setFollowed] = useState<Line[] | undefined>();
  const kept = useQuery({
    queryKey: ["logs", run, name, live],
    enabled: !live,
    queryFn: async () => (await page(api.GET("/api/v1/runs/{run_id}/tasks/{task}/logs", { params: { path, query: { tail: TAIL } } }))).rows,
  });
  useEffect(() => {
    if (!live) return;
    const stop = new AbortController();
    const address = `/api/v1/runs/${run}/tasks/${encodeURIComponent(name)}/logs/stream?tail=${TAIL}`;
    const onMessage = ({ event, data }: { event: string; data: string }) => {
      if (event === "line") setFollowed((old) => [...(old ?? []), JSON.parse(data) as Line].slice(-TAIL));
    };
    const opened = () => setFollowed((old) => old ?? []);
    void follow(address, stop.signal, { onMessage, opened, absent: opened });
    return () => stop.abort();
  }, [run, name, live]);
  return kept.data ?? followed;
}

async function download(run: string, name: string) {
  const answer = await fetch(`/api/v1/runs/${run}/tasks/${encodeURIComponent(name)}/logs?format=text`, { headers: headers() });
  keep(await answer.blob(), /filename="([^"]+)"/.exec(answer.headers.get("content-disposition") ?? "")?.[1] ?? `${name}.log`);
}
