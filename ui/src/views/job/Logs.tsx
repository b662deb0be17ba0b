/** The log lines of a job. */
import { LogBox, keep } from "../../parts/LogBox";
import { lines, LINES, useLogs, type JobDetail } from "./queries";

export function Logs({ job }: { job: JobDetail }) {
  const live = job.status === "leased";
  const found = useLogs(job.id, live);
  return <LogBox lines={found.data?.rows} live={live} label="Logs of the job" most={LINES} download={() => void download(job.id)} />;
}

async function download(id: string) {
  const all: string[] = [];
  let after: string | null = null;
  do {
    const found: Awaited<ReturnType<typeof lines>> = await lines(id, after);
    all.push(...found.rows.map((line) => `${line.at} ${line.level} ${line.message}\n`));
    after = found.next;
  } while (after);
  keep(new Blob(all, { type: "text/plain" }), `${id}.log`);
}
