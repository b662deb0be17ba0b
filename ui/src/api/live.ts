/**
 * Live updates over server-sent events. A lost stream is reopened where it ended (Last-Event-ID), so no event is missed, and
 * the views refetch after each reopening. If the server offers no stream, they poll.
 */
import { useQueryClient, type QueryKey } from "@tanstack/react-query";
import { useEffect, useRef, useSyncExternalStore } from "react";
import { headers, noteRefusal } from "./client";
import { Parser, type Message } from "./sse";

export type Pulse = "connecting" | "live" | "polling" | "lost";

const FIRST_WAIT = 500;
const LONGEST_WAIT = 5_000;
const ASK_EVERY = 3_000;
const SILENCE = 45_000; // the server sends something every 15 s
const listeners = new Set<() => void>();
let pulse: Pulse = "connecting";

export function usePulse(): Pulse {
  return useSyncExternalStore(
    (listen) => (listeners.add(listen), () => listeners.delete(listen)),
    () => pulse,
  );
}

function setPulse(now: Pulse) {
  if (now === pulse) return;
  pulse = now;
  listeners.forEach((listen) => listen());
}

/** Follow a stream until the signal aborts; `onMessage` gets each message, `opened` is called after each (re)connection. */
export async function follow(
  path: string,
  signal: AbortSignal,
  on: { onMessage: (message: Message) => void; opened: () => void; absent: () => void },
): Promise<void> {
  let last = "";
  let wait = FIRST_WAIT;
  while (!signal.aborted) {
    await visible(signal);
    if (signal.aborted) return;
    const silence = new AbortController();
    let alarm = setTimeout(() => silence.abort(), SILENCE);
    const hide = () => document.hidden && silence.abort();
    const lose = () => silence.abort();
    document.addEventListener("visibilitychange", hide);
    window.addEventListener("offline", lose);
    try {
      const sent = { accept: "text/event-stream", ...headers(), ...(last ? { "last-event-id": last } : {}) };
      const answer = await fetch(path, { headers: sent, signal: AbortSignal.any([signal, silence.signal]), cache: "no-store" });
      if ([404, 405, 429].includes(answer.status)) return on.absent(); // 429: too many streams
      if (answer.status === 204) return;
      noteRefusal(answer.status);
      if (!answer.ok || !answer.body) throw new Error(String(answer.status));
      setPulse("live");
      on.opened();
      const parser = new Parser();
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        wait = FIRST_WAIT;
        clearTimeout(alarm);
        alarm = setTimeout(() => silence.abort(), SILENCE);
        const messages = parser.feed(value);
        last = parser.last || last;
        for (const message of messages) {
          if (message.event === "end") return;
          on.onMessage(message);
        }
      }
    } catch {
      if (signal.aborted) return;
      if (document.hidden) continue;
      setPulse("lost");
    } finally {
      clearTimeout(alarm);
      document.removeEventListener("visibilitychange", hide);
      window.removeEventListener("offline", lose);
    }
    await pause(wait * (0.75 + Math.random() / 2), signal);
    wait = Math.min(wait * 2, LONGEST_WAIT);
  }
}

/**
 * Refetch the queries whose keys begin with one of `keys` after a message: at most once in `every` ms, and never while
 * the last refetch is in flight. `onMessage` may apply the message immediately; it returns false if the message is
 * irrelevant.
 */
export function useLive(path: string | null, keys: QueryKey[], onMessage?: (message: Message) => boolean | void, every = 700): void {
  const client = useQueryClient();
  const latest = useRef({ keys, onMessage });
  latest.current = { keys, onMessage };
  useEffect(() => {
    if (path === null) return;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let asked = 0;
    let busy = false;
    let missed = false; // a message arrived during a fetch, whose answer may be older
    const refresh = async () => {
      timer = undefined;
      asked = Date.now();
      busy = true;
      // Cancelling would abort a page that is being loaded ("Show more"), so this waits for it and then refetches.
      const { keys } = latest.current;
      missed = keys.some((queryKey) => client.isFetching({ queryKey }) > 0);
      await Promise.allSettled(keys.map((queryKey) => client.invalidateQueries({ queryKey }, { cancelRefetch: false })));
      busy = false;
      if (missed && !stop.signal.aborted) soon();
      missed = false;
    };
    const soon = () => {
      if (busy) missed = true;
      else timer ??= setTimeout(() => void refresh(), Math.max(0, every - (Date.now() - asked)));
    };
    const absent = () => {
      setPulse("polling");
      const clock = setInterval(soon, ASK_EVERY);
      stop.signal.addEventListener("abort", () => clearInterval(clock));
    };
    const on = {
      onMessage: (message: Message) => {
        if (latest.current.onMessage?.(message) !== false) soon();
      },
      opened: soon,
      absent,
    };
    void follow(path, stop.signal, on).then(() => stop.signal.aborted || soon());
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [path, client, every]);
}

/** Wait until the tab is visible. Browsers allow few connections per server, so hidden tabs close theirs. */
function visible(signal: AbortSignal): Promise<void> {
  return new Promise((go) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      go();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look, { once: true });
    look();
  });
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((go) => {
    const timer = setTimeout(go, ms);
    const now = () => (clearTimeout(timer), go());
    signal.addEventListener("abort", now, { once: true });
    window.addEventListener("online", now, { once: true });
  });
}
