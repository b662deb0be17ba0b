/** A definition drawn as a graph; with what became of its tasks, if there is a run to show. */
import { Background, Controls, MarkerType, MiniMap, ReactFlow, type Edge } from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import { useCallback, useLayoutEffect, useMemo, useRef, useState } from "react";
import type { Graph, Task } from "../api/client";
import { look } from "../parts/State";
import { fit, layout, type Direction } from "./layout";
import { TaskNode, type TaskNodeType } from "./TaskNode";

interface Props {
  graph: Graph;
  tasks?: Record<string, Task> | undefined;
  chosen?: string | null;
  onChoose?: ((task: string) => void) | undefined;
  small?: boolean;
}

const NODE_TYPES = { task: TaskNode };
const MANY = 40; // a map helps from here on
const FIT = { padding: { top: "16px", bottom: "56px", x: "16px" }, maxZoom: 1.1, minZoom: 0.1 } as const; // below: the buttons

export function GraphView({ graph, tasks, chosen = null, onChoose, small = false }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const [turned, setDirection] = useState<Direction | null>(null);
  const [fitting, setFitting] = useState<Direction | null>(null);
  useLayoutEffect(() => {
    const { width, height } = frame.current!.getBoundingClientRect();
    setFitting(fit(graph, width, height));
  }, [graph]);
  const direction = turned ?? fitting;
  return (
    <div ref={frame} className={`canvas${small ? " small" : ""}`} data-testid="graph">
      {direction && <Drawing graph={graph} tasks={tasks} chosen={chosen} onChoose={onChoose} small={small} direction={direction} turn={setDirection} />}
    </div>
  );
}

function Drawing({ graph, tasks, chosen = null, onChoose, small = false, direction, turn }: Props & { direction: Direction; turn: (to: Direction) => void }) {
  const boxes = useMemo(() => layout(graph, direction), [graph, direction]);
  const nodes = useNodes(graph, boxes, tasks, chosen, direction);
  const edges = useMemo(() => graph.edges.map((edge, n) => drawn(edge, n, tasks)), [graph, tasks]);
  const choose = useCallback((_: unknown, node: { id: string }) => onChoose?.(node.id), [onChoose]);
  return (
    <div className="canvas-inside">
      <ReactFlow
        key={direction}
        nodes={nodes}
        edges={edges}
        nodeTypes={NODE_TYPES}
        onNodeClick={choose}
        onNodesChange={(changes) => {
          for (const change of changes) if (change.type === "select" && change.selected) onChoose?.(change.id);
        }}
        onlyRenderVisibleElements={graph.tasks.length > MANY}
        nodesDraggable={false}
        nodesConnectable={false}
        edgesFocusable={false}
        fitView
        fitViewOptions={FIT}
        minZoom={0.05}
        maxZoom={1.6}
        zoomOnScroll={!small}
        preventScrolling={!small}
        proOptions={{ hideAttribution: true }}
        aria-label={`Graph of ${graph.workflow}`}
      >
        <Background gap={24} size={1} />
        <Controls showInteractive={false} fitViewOptions={FIT} position="bottom-left" orientation="horizontal">
          <button
            type="button"
            className="react-flow__controls-button"
            onClick={() => turn(direction === "LR" ? "TB" : "LR")}
            title="Turn the graph"
            aria-label="Turn the graph"
          >
            <svg viewBox="0 0 16 16" className="icon" aria-hidden>
              <path d="M12.8 6.2A5.2 5.2 0 1 0 13 9.4M13 3v3.4H9.6" />
            </svg>
          </button>
        </Controls>
        {graph.tasks.length > MANY && !small && (
          <MiniMap pannable zoomable ariaLabel="Map of the graph" nodeClassName={(node) => `map-node tone-${toneOf(tasks, node.id)}`} />
        )}
      </ReactFlow>
    </div>
  );
}

/** A node whose task did not change stays the very same object: only what changed is drawn again. */
function useNodes(graph: Graph, boxes: ReturnType<typeof layout>, tasks: Props["tasks"], chosen: string | null, direction: Direction) {
  const before = useRef(new Map<string, TaskNodeType>());
  return useMemo(() => {
    const now = new Map<string, TaskNodeType>();
    for (const task of graph.tasks) {
      const box = boxes.get(task.name)!;
      const found = tasks?.[task.name] ?? null;
      const old = before.current.get(task.name);
      const same =
        old?.data.task === task &&
        old.data.direction === direction &&
        old.data.chosen === (chosen === task.name) &&
        old.position.x === box.x &&
        old.position.y === box.y &&
        sameTask(old.data.found, found);
      now.set(task.name, same ? old : nodeOf(task, box, found, chosen === task.name, direction));
    }
    before.current = now;
    return [...now.values()];
  }, [graph, boxes, tasks, chosen, direction]);
}

function nodeOf(task: Graph["tasks"][number], box: { x: number; y: number; width: number; height: number }, found: Task | null, chosen: boolean, direction: Direction): TaskNodeType {
  const { x, y, width, height } = box;
  return {
    id: task.name,
    type: "task",
    position: { x, y },
    width,
    height,
    selected: chosen,
    ariaLabel: found ? `${task.name}: ${look(found.status).word}` : task.name,
    data: { task, found, direction, chosen },
  };
}

function sameTask(one: Task | null, other: Task | null): boolean {
  if (one === other) return true;
  if (!one || !other) return false;
  return (
    one.status === other.status &&
    one.attempt === other.attempt &&
    one.duration_ms === other.duration_ms &&
    JSON.stringify([one.instances, one.child]) === JSON.stringify([other.instances, other.child])
  );
}

function drawn(edge: Graph["edges"][number], n: number, tasks: Props["tasks"]): Edge {
  const plain = edge.on === "success";
  const active = tasks !== undefined && toneOf(tasks, edge.to) === "busy";
  return {
    id: `${edge.from} ${edge.to} ${n}`,
    source: edge.from,
    target: edge.to,
    focusable: false,
    className: `on-${edge.on}${active ? " active" : ""}`,
    markerEnd: { type: MarkerType.ArrowClosed, width: 14, height: 14 },
    ...(plain ? {} : { label: edge.on }),
  };
}

function toneOf(tasks: Props["tasks"], name: string): string {
  const found = tasks?.[name];
  return found ? look(found.status).tone : "plain";
}
