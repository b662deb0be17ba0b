/** Whether what is on the screen is alive. */
import { usePulse } from "../api/live";

const SAID = {
  connecting: { tone: "idle", word: "connecting", title: "Waiting for the server" },
  live: { tone: "good", word: "live", title: "Changes are shown as they happen" },
  asking: { tone: "good", word: "up", title: "There is no live stream to be had: the page asks every few seconds" },
  lost: { tone: "bad", word: "no connection", title: "The server does not answer; the page tries again by itself" },
};

export function Pulse() {
  const { tone, word, title } = SAID[usePulse()];
  return (
    <span className={`pulse tone-${tone}`} role="status" title={title}>
      <span className="pulse-dot" aria-hidden />
      <span>{word}</span>
    </span>
  );
}
