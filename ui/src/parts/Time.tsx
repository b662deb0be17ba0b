/** Times and durations that update every second, with one timer for the whole page. */
import { useSyncExternalStore } from "react";
import { between, exact, relative, span } from "./words";

const listeners = new Set<() => void>();
let now = Date.now();
let ticker: ReturnType<typeof setInterval> | undefined;

function listen(tell: () => void) {
  listeners.add(tell);
  ticker ??= setInterval(() => {
    now = Date.now();
    listeners.forEach((each) => each());
  }, 1000);
  return () => {
    listeners.delete(tell);
    if (listeners.size === 0) {
      clearInterval(ticker);
      ticker = undefined;
    }
  };
}

export function useNow(): number {
  return useSyncExternalStore(listen, () => now);
}

export function Ago({ when }: { when: string | null | undefined }) {
  const now = useNow();
  if (!when) return <span className="dim">–</span>;
  return (
    <time dateTime={when} title={exact(when)}>
      {relative(when, now)}
    </time>
  );
}

export function Took({ from, to }: { from: string | null | undefined; to: string | null | undefined }) {
  const now = useNow();
  return <span className="num">{span(between(from, to, now))}</span>;
}

/** A duration that was `seconds` long at `since` and keeps growing. */
export function Grown({ seconds, since }: { seconds: number | null; since: number }) {
  const now = useNow();
  return <span className="num">{seconds === null ? "–" : span(seconds * 1000 + Math.max(0, now - since))}</span>;
}
