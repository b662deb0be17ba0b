/** A button that copies a string and confirms it. */
import { useState } from "react";

export function Copy({ text, label, children }: { text: string; label?: string; children?: React.ReactNode }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <button type="button" className={children ? "item" : "icon-button"} onClick={copy} title={label ?? "Copy"} aria-label={children ? undefined : (label ?? "Copy")}>
      <svg viewBox="0 0 16 16" className="icon" aria-hidden>
        {done ? <path d="M3.5 8.5l3 3 6-6.5" /> : <path d="M5.5 5.5h7v7h-7zM3.5 10.5v-7h7" />}
      </svg>
      {children}
      <span role="status" className="hidden">
        {done ? "copied" : ""}
      </span>
    </button>
  );
}

/** A text with a copy button. */
export function Command({ text }: { text: string }) {
  return (
    <span className="command">
      <code>{text}</code>
      <Copy text={text} label="Copy the text" />
    </span>
  );
}
