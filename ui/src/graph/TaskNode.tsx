/** A task in a graph: its kind, name, condition and state. A fanned-out task is drawn as a stack with its progress. */
import { Handle, Position, type Node, type NodeProps } from "@xyflow/react";
import { memo } from "react";
import type { Graph, Task } from "../api/client";
import { activityText, obstacle, stateOf } from "../parts/activity";
import { look, StateIcon } from "../parts/State";
import { exact, span } from "../parts/words";
import { Took, useNow } from "../parts/Time";
import { KindIcon } from "./KindIcon";
import type { Direction } from "./layout";

const ENDED = new Set(["success", "failed", "timeout", "skipped", "cancelled", "template_error"]);

const ENDS_IN_WORDS = new Set<Task["activity"]>(["backing_off", "sleeping"]); // their text has the end time

export type TaskNodeType = Node<
  { task: Graph["tasks"][number]; found: Task | null; direction: Direction; chosen: boolean },
  "task"
>;

export const TaskNode = memo(function TaskNode({ data }: NodeProps<TaskNodeType>) {
  const { task, found, direction, chosen } = data;
  const tone = found ? look(stateOf(found)).tone : "plain";
  return (
    <div className={`task tone-${tone}${task.fan_out ? " stack" : ""}${task.final ? " final" : ""}${chosen ? " chosen" : ""}`} data-status={found?.status} data-activity={found?.activity}>
      <Handle type="target" position={direction === "LR" ? Position.Left : Position.Top} isConnectable={false} />
      <div className="task-head">
        <KindIcon kind={task.type} />
        <span className="task-name" title={task.name}>
          {task.name}
        </span>
        {found && found.attempt !== null && found.attempt !== undefined && found.attempt > 1 && (
          <span className="task-attempt" title={`attempt ${found.attempt} of ${found.max_attempts}`}>
            ×{found.attempt}
          </span>
        )}
        {(task.fan_out || task.final) && (
          <span className="task-marks">
            {task.fan_out && <KindIcon kind="fan_out" />}
            {task.final && <KindIcon kind="final" />}
          </span>
        )}
      </div>
      {found ? (
        <Standing task={found} />
      ) : (
        <div className="task-line" title={task.does}>
          <span className="task-does">{task.does}</span>
        </div>
      )}
      {task.if && (
        <div className="task-if" title={`runs if ${task.if}`}>
          <b>if</b> <code>{task.if}</code>
        </div>
      )}
      {task.fan_out ? <Progress task={task} found={found} /> : task.child && <Below task={task} child={found?.child} />}
      <Handle type="source" position={direction === "LR" ? Position.Right : Position.Bottom} isConnectable={false} />
    </div>
  );
});

/** The activity of a task, or its status once it has ended. */
function Standing({ task }: { task: Task }) {
  return (
    <div className="task-line" title={[obstacle(task) ?? look(stateOf(task)).word, task.until && exact(task.until)].filter(Boolean).join(", ")}>
      <StateIcon state={stateOf(task)} />
      {task.until ? <Timed task={task} /> : <span className="task-word">{look(stateOf(task)).word}</span>}
      {!(task.until && ENDS_IN_WORDS.has(task.activity)) && <Length found={task} />}
    </div>
  );
}

/** An activity whose text contains a time, rendered every second. */
function Timed({ task }: { task: Task }) {
  return <span className="task-word">{activityText(task, useNow())}</span>;
}

/** The duration of a task, so far if it is still running. */
function Length({ found }: { found: Task }) {
  if (found.started_at && !found.finished_at && !ENDED.has(found.status)) return <Took from={found.started_at} to={null} />;
  return <span className="num">{found.duration_ms === null || found.duration_ms === undefined ? "" : span(found.duration_ms)}</span>;
}

/** The progress of the child run. */
function Below({ task, child }: { task: Graph["tasks"][number]; child: Task["child"] }) {
  if (!child) return <div className="task-fan">runs {task.child}</div>;
  const { tone, word } = look(child.status);
  return (
    <div className="task-fan" title={`${task.child}: ${word}, ${child.done} of ${child.total} tasks have ended`} data-child={child.status}>
      <StateIcon state={child.status} />
      <span className="bar" aria-hidden>
        <i className={`tone-${tone}`} style={{ width: `${child.total ? (100 * child.done) / child.total : 100}%` }} />
      </span>
      <span className="num">
        {child.done}/{child.total}
      </span>
    </div>
  );
}

function Progress({ task, found }: { task: Graph["tasks"][number]; found: Task | null }) {
  const counts = found?.instances;
  if (!counts) {
    const copies = task.remarks.find((each) => each !== "final" && each !== "may fail") ?? "many instances";
    return (
      <div className="task-fan" title={copies}>
        <span className="task-does">{copies}</span>
      </div>
    );
  }
  const ended = counts.success + counts.failed + counts.cancelled;
  const share = (n: number) => ({ width: `${counts.count ? (100 * n) / counts.count : 100}%` });
  return (
    <div className="task-fan" title={`${counts.success} succeeded, ${counts.failed} failed, ${counts.running} running, ${counts.pending} pending`}>
      <span className="bar" aria-hidden>
        <i className="tone-good" style={share(counts.count ? counts.success : 1)} />
        <i className="tone-bad" style={share(counts.failed)} />
        <i className="tone-busy" style={share(counts.running)} />
      </span>
      <span className="num">
        {ended.toLocaleString("en")}/{counts.count.toLocaleString("en")}
      </span>
    </div>
  );
}
