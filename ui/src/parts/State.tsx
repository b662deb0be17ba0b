/** Shows a state as a colour, an icon and a word. */
import type { ReactNode } from "react";

type Look = { tone: string; word: string; icon: ReactNode };

const dot = <circle cx="8" cy="8" r="3.2" fill="currentColor" stroke="none" />;
const ring = <circle cx="8" cy="8" r="5.2" strokeDasharray="2.2 2.2" />;
const check = <path d="M3.5 8.5l3 3 6-6.5" />;
const cross = <path d="M4.5 4.5l7 7M11.5 4.5l-7 7" />;
const arc = <path d="M8 2.8a5.2 5.2 0 1 1-5.2 5.2" />;
const clock = <path d="M8 2.8a5.2 5.2 0 1 0 .01 0M8 5v3.2l2.2 1.4" />;
const moon = <path d="M12.6 9.6A5.2 5.2 0 1 1 6.4 3.4a4.2 4.2 0 0 0 6.2 6.2z" />;
const ear = <path d="M3 6.5a5 5 0 0 1 10 0M5.2 8.5a2.8 2.8 0 0 1 5.6 0M8 9.5v3.7" />;
const skip = <path d="M3.5 4l4.5 4-4.5 4M8.5 4L13 8l-4.5 4" />;
const bar = <path d="M4 8h8" />;
const alert = <path d="M8 2.6L14 13H2zM8 6.6v2.8M8 11.2v.2" />;
const hold = <path d="M6 4v8M10 4v8" />;
const below = <path d="M3.5 3v5.5h7M8 5.8l2.8 2.7L8 11.2" />;
const again = <path d="M12.8 6.2A5.2 5.2 0 1 0 13 9.4M13 3v3.4H9.6" />;

const LOOKS: Record<string, Look> = {
  pending: { tone: "idle", word: "pending", icon: ring },
  queued: { tone: "idle", word: "queued", icon: ring },
  available: { tone: "idle", word: "available", icon: ring },
  dispatched: { tone: "idle", word: "dispatched", icon: skip },
  launching: { tone: "idle", word: "launching", icon: skip },
  running: { tone: "busy", word: "running", icon: arc },
  lost: { tone: "bad", word: "lost", icon: alert },
  leased: { tone: "busy", word: "leased", icon: arc },
  sleeping: { tone: "rest", word: "sleeping", icon: moon },
  waiting: { tone: "wait", word: "waiting", icon: ear },
  held: { tone: "idle", word: "held", icon: hold },
  waiting_for_tasks: { tone: "idle", word: "waiting for tasks", icon: ring },
  no_worker: { tone: "wait", word: "no worker serves it", icon: alert },
  queue_paused: { tone: "wait", word: "queue paused", icon: hold },
  run_paused: { tone: "wait", word: "run paused", icon: hold },
  type_disabled: { tone: "wait", word: "job type disabled", icon: alert },
  other_runtime: { tone: "wait", word: "served by another runtime", icon: alert },
  stopping: { tone: "wait", word: "stopping", icon: arc },
  waiting_for_message: { tone: "wait", word: "waiting for a message", icon: ear },
  waiting_for_approval: { tone: "wait", word: "waiting for approval", icon: ear },
  waiting_for_callback: { tone: "wait", word: "waiting for a callback", icon: ear },
  waiting_for_child: { tone: "busy", word: "waiting for its child run", icon: below },
  scheduled: { tone: "rest", word: "scheduled", icon: clock },
  backoff: { tone: "wait", word: "backing off", icon: again },
  backing_off: { tone: "wait", word: "backing off", icon: again },
  completed: { tone: "good", word: "completed", icon: check },
  success: { tone: "good", word: "success", icon: check },
  succeeded: { tone: "good", word: "succeeded", icon: check },
  failed: { tone: "bad", word: "failed", icon: cross },
  timeout: { tone: "bad", word: "timed out", icon: clock },
  template_error: { tone: "bad", word: "template error", icon: cross },
  skipped: { tone: "off", word: "skipped", icon: skip },
  cancelled: { tone: "off", word: "cancelled", icon: bar },
  open: { tone: "wait", word: "open", icon: ear },
  approved: { tone: "good", word: "approved", icon: check },
  rejected: { tone: "bad", word: "rejected", icon: cross },
  enabled: { tone: "good", word: "enabled", icon: dot },
  disabled: { tone: "off", word: "disabled", icon: bar },
  valid: { tone: "good", word: "valid", icon: dot },
  expired: { tone: "off", word: "expired", icon: clock },
  revoked: { tone: "off", word: "revoked", icon: cross },
  up: { tone: "good", word: "up", icon: dot },
  draining: { tone: "wait", word: "draining", icon: arc },
  stopped: { tone: "off", word: "stopped", icon: bar },
  silent: { tone: "bad", word: "silent", icon: moon },
  created: { tone: "idle", word: "created", icon: dot },
  started: { tone: "busy", word: "started", icon: skip },
  heartbeat: { tone: "off", word: "heartbeat", icon: dot },
  retried: { tone: "wait", word: "retried", icon: again },
  paused: { tone: "wait", word: "paused", icon: hold },
};
const UNKNOWN: Look = { tone: "idle", word: "unknown", icon: dot };

export function look(state: string): Look {
  return LOOKS[state] ?? { ...UNKNOWN, word: state.replaceAll("_", " ") };
}

export function StateIcon({ state, label }: { state: string; label?: string }) {
  const { tone, icon, word } = look(state);
  const spoken = label === undefined ? { "aria-hidden": true } : { role: "img", "aria-label": label || word };
  return (
    <svg className={`state-icon tone-${tone}`} data-state={state} viewBox="0 0 16 16" {...spoken}>
      {icon}
    </svg>
  );
}

export function State({ state }: { state: string }) {
  const { tone, word } = look(state);
  return (
    <span className={`state tone-${tone}`} data-state={state}>
      <StateIcon state={state} />
      {word}
    </span>
  );
}
