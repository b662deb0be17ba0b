/** Log lines with a filter, wrapping, following and download. */
import { useEffect, useMemo, useRef, useState } from "react";

export interface LogLine {
  at: string;
  level: string;
  attempt: number;
  message: string;
  index?: number;
}

interface Props {
  lines: LogLine[] | undefined;
  live: boolean;
  label: string;
  most: number; // the maximum number of lines
  download: () => void;
}

export function LogBox({ lines, live, label, most, download }: Props) {
  const [find, setFind] = useState("");
  const [wrap, setWrap] = useState(true);
  const [tail, setTail] = useState(true);
  const box = useRef<HTMLPreElement>(null);
  const shown = useMemo(() => (lines ?? []).filter((line) => line.message.toLowerCase().includes(find.toLowerCase())), [lines, find]);
  useEffect(() => {
    if (tail && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [shown, tail]);
  if (lines === undefined || lines.length === 0)
    return (
      <section>
        <h3>Logs</h3>
        <p className="dim">{lines === undefined ? "loading" : live ? "No log lines yet." : "No log lines. Handlers log with ctx.log."}</p>
      </section>
    );
  return (
    <section className="logs">
      <h3>Logs</h3>
      <div className="pager">
        <input type="search" aria-label="Filter the logs" placeholder="filter" value={find} onChange={(event) => setFind(event.target.value)} />
        <label>
          <input type="checkbox" checked={wrap} onChange={(event) => setWrap(event.target.checked)} /> wrap
        </label>
        {live && (
          <label>
            <input type="checkbox" checked={tail} onChange={(event) => setTail(event.target.checked)} /> follow
          </label>
        )}
        <button type="button" onClick={download}>
          Download
        </button>
      </div>
      <pre ref={box} className={wrap ? "wrap" : ""} tabIndex={0} aria-label={label}>
        {shown.map((line, n) => (
          <div key={n} className={`log level-${line.level.toLowerCase()}`}>
            <span className="dim">{line.at.slice(11, 23)} </span>
            <b>{line.level}</b> {(line.index ?? 0) > 0 && <span className="dim">#{line.index} </span>}
            {line.attempt > 1 && <span className="dim">attempt {line.attempt} </span>}
            {line.message}
          </div>
        ))}
      </pre>
      {lines.length >= most && <p className="dim">Showing the last {most} lines. Download gets all of them.</p>}
    </section>
  );
}

/** Download a file. */
export function keep(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
