/** Shows whether the page is connected to the server. */
import { usePulse } from "../api/live";

const LABELS = {
  connecting: { tone: "idle", word: "connecting", title: "Connecting to the server" },
  live: { tone: "good", word: "live", title: "Changes are shown as they happen" },
  polling: { tone: "good", word: "polling", title: "No live stream is available, so the page refreshes every few seconds" },
  lost: { tone: "bad", word: "no connection", title: "The server does not respond; the page keeps trying to reconnect" },
};

export function Pulse() {
  const { tone, word, title } = LABELS[usePulse()];
  return (
    <span className={`pulse tone-${tone}`} role="status" title={title}>
      <span className="pulse-dot" aria-hidden />
      <span>{word}</span>
    </span>
  );
}
