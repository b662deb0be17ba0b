/** The current activity of a task, as sent by the server. It is more specific than a status such as "running". */
import type { Activity, Task } from "../api/client";
import { look } from "./State";
import { countdown, moment } from "./words";

/** The activities of a blocked task, with explanations. */
const BLOCKED: Partial<Record<Activity, string>> = {
  held: "The run has not started yet, so its tasks are held.",
  no_worker: "No live worker serves this job type in this queue.",
  queue_paused: "The queue is paused.",
  run_paused: "The run is paused.",
  type_disabled: "The job type is disabled in the registry.",
  other_runtime: "The job type is registered to another runtime.",
};

/** Activities that can change without an event of the run: a worker starts or stops, a queue is paused. */
const UNANNOUNCED = new Set<Activity | null | undefined>(["queued", "no_worker", "queue_paused", "type_disabled", "other_runtime", "backing_off", "launching", "lost"]);

/** Return the state to show for a task: its activity, or its status once it has ended. */
export function stateOf(task: Task): string {
  return task.activity ?? task.status;
}

/** Return the activity of a task as text; a backoff or a sleep with the time at which it ends. */
export function activityText(task: Task, now: number): string {
  const { word } = look(stateOf(task));
  if (!task.until) return word;
  if (task.activity === "backing_off") return `${word}, next attempt ${countdown(task.until, now)}`;
  if (task.activity === "sleeping") return `${word} until ${moment(task.until, now)}`;
  return word;
}

/** Return why a task is blocked, null if it is not. The server's remark, if any, names the type and the queue. */
export function obstacle(task: Task): string | null {
  const text = task.activity && BLOCKED[task.activity];
  return text ? task.remark || text : null;
}

export function changesUnannounced(tasks: Record<string, Task>): boolean {
  return Object.values(tasks).some((task) => UNANNOUNCED.has(task.activity));
}

const WAITS: Record<string, Activity> = { wait_for_event: "waiting_for_message", approve: "waiting_for_approval" };

/** Return the activity that an event of the stream implies. It is shown until the next response of the server. */
export function activityAfter(task: Task, event: string, status: Task["status"]): Activity | null {
  if (status === "pending") return task.activity ?? "waiting_for_tasks";
  if (status === "sleeping") return "sleeping";
  if (status === "waiting") return WAITS[task.type] ?? "waiting_for_callback";
  if (status !== "running") return null;
  if (task.type === "workflow") return "waiting_for_child";
  if (event === "retrying") return "backing_off";
  if (event === "queued") return task.instances && task.activity ? task.activity : "queued";
  return "running";
}
