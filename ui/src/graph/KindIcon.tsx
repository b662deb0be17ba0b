/** Icons for the kinds of tasks, and for tasks that are fanned out or final. */
import type { ReactNode } from "react";

const KINDS: Record<string, { title: string; icon: ReactNode }> = {
  job: { title: "job", icon: <path d="M8 5.6a2.4 2.4 0 1 0 .01 0M8 1.8v1.8M8 12.4v1.8M1.8 8h1.8M12.4 8h1.8M3.6 3.6l1.3 1.3M11.1 11.1l1.3 1.3M12.4 3.6l-1.3 1.3M4.9 11.1l-1.3 1.3" /> },
  http: { title: "HTTP request", icon: <path d="M8 2.2a5.8 5.8 0 1 0 .01 0M2.2 8h11.6M8 2.2c-3.4 3.4-3.4 8.2 0 11.6M8 2.2c3.4 3.4 3.4 8.2 0 11.6" /> },
  sleep: { title: "sleep", icon: <path d="M12.8 9.6A5.4 5.4 0 1 1 6.4 3.2a4.4 4.4 0 0 0 6.4 6.4z" /> },
  wait_for_webhook: { title: "wait for a callback", icon: <path d="M4.5 2.5h7M4.5 13.5h7M5.5 2.5v2.2L8 8l-2.5 3.3v2.2M10.5 2.5v2.2L8 8l2.5 3.3v2.2" /> },
  wait_for_event: { title: "wait for a message", icon: <path d="M2 4h12v8.4H2zM2 4.6l6 4.2 6-4.2" /> },
  approve: { title: "wait for an approval", icon: <path d="M8 1.8a2.6 2.6 0 1 0 .01 0M2.6 14c.4-3.4 2.4-5 5.4-5 1.2 0 2.2.3 3 .8M9 12.4l1.8 1.8 3.4-3.6" /> },
  command: { title: "command", icon: <path d="M2 3.2h12v9.6H2zM4.4 6l2 2-2 2M8 10.2h3.4" /> },
  workflow: { title: "workflow", icon: <path d="M2.2 3h4v3.4h-4zM9.8 9.6h4V13h-4zM4.2 6.4v4.9h5.6" /> },
  undo: { title: "undo a run", icon: <path d="M5.6 3 2.6 6l3 3M2.6 6h6.6a4 4 0 0 1 0 8H5.4" /> },
  fan_out: { title: "fanned out", icon: <path d="M5.4 5.4h8.4v8.4H5.4zM10.6 5.4V2.2H2.2v8.4h3.2" /> },
  final: { title: "final: runs after all others", icon: <path d="M3.8 14V2.4M3.8 3h8.4l-2 2.9 2 2.9H3.8" /> },
};

export function kindTitle(kind: string): string {
  return KINDS[kind]?.title ?? kind.replaceAll("_", " ");
}

export function KindIcon({ kind }: { kind: string }) {
  const known = KINDS[kind];
  if (!known) return null;
  return (
    <svg viewBox="0 0 16 16" className="icon kind-icon" data-kind={kind} role="img" aria-label={known.title}>
      <title>{known.title}</title>
      {known.icon}
    </svg>
  );
}
