/** A task in a graph: what it is called, what it does, what became of it. A fanned-out one is a stack with its progress. */
import { Handle, Position, type Node, type NodeProps } from "@xyflow/react";
import { memo } from "react";
import type { Graph, Task } from "../api/client";
import { look, StateIcon } from "../parts/State";
import { span } from "../parts/words";
import { Took } from "../parts/Time";
import type { Direction } from "./layout";

const ENDED = new Set(["success", "failed", "timeout", "skipped", "cancelled", "template_error"]);

export type TaskNodeType = Node<
  { task: Graph["tasks"][number]; found: Task | null; direction: Direction; chosen: boolean },
  "task"
>;

export const TaskNode = memo(function TaskNode({ data }: NodeProps<TaskNodeType>) {
  const { task, found, direction, chosen } = data;
  const tone = found ? look(found.status).tone : "plain";
  return (
    <div className={`task tone-${tone}${task.fan_out ? " stack" : ""}${task.final ? " final" : ""}${chosen ? " chosen" : ""}`} data-status={found?.status}>
      <Handle type="target" position={direction === "LR" ? Position.Left : Position.Top} isConnectable={false} />
      <div className="task-head">
        {found && <StateIcon state={found.status} />}
        <span className="task-name" title={task.name}>
          {task.name}
        </span>
        {found && found.attempt !== null && found.attempt !== undefined && found.attempt > 1 && (
          <span className="task-attempt" title={`attempt ${found.attempt} of ${found.max_attempts}`}>
            ×{found.attempt}
          </span>
        )}
      </div>
      <div className="task-line" title={task.does}>
        {found ? (
          <>
            <span className="task-word">{look(found.status).word}</span>
            <Length found={found} />
          </>
        ) : (
          <span className="task-does">{task.does}</span>
        )}
      </div>
      {task.fan_out ? <Progress task={task} found={found} /> : task.child && <Below task={task} child={found?.child} />}
      <Handle type="source" position={direction === "LR" ? Position.Right : Position.Bottom} isConnectable={false} />
    </div>
  );
});

/** Of what goes on: until now. */
function Length({ found }: { found: Task }) {
  if (found.started_at && !found.finished_at && !ENDED.has(found.status)) return <Took from={found.started_at} to={null} />;
  return <span className="num">{found.duration_ms === null || found.duration_ms === undefined ? "" : span(found.duration_ms)}</span>;
}

/** The run below: how far it is. */
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
  if (!counts) return <div className="task-fan">{task.remarks[0] ?? "many copies"}</div>;
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
