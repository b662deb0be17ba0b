/** Draws a definition as a graph, with the state of each task if there is a run. */
import { Background, Controls, MarkerType, MiniMap, ReactFlow, type Edge, type ReactFlowInstance } from "@xyflow/react";
import "@xyflow/react/dist/style.css";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, type RefObject } from "react";
import type { Graph, Task } from "../api/client";
import { stateOf } from "../parts/activity";
import { look } from "../parts/State";
import { fit, layout, withCompensations, type Direction } from "./layout";
import { TaskNode, type TaskNodeType } from "./TaskNode";

interface Props {
  graph: Graph;
  tasks?: Record<string, Task> | undefined;
  chosen?: string | null;
  onChoose?: ((task: string) => void) | undefined;
  small?: boolean;
}

const NODE_TYPES = { task: TaskNode };
const MANY = 40; // graphs with more tasks have a minimap
const FIT = { padding: { top: "16px", bottom: "56px", x: "16px" }, maxZoom: 1.1, minZoom: 0.1 } as const; // space for the buttons at the bottom

export function GraphView({ graph: given, tasks, chosen = null, onChoose, small = false }: Props) {
  const graph = useMemo(() => withCompensations(given), [given]);
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
      {direction && <Drawing graph={graph} tasks={tasks} chosen={chosen} onChoose={onChoose} small={small} direction={direction} turn={setDirection} frame={frame} />}
    </div>
  );
}

interface Drawn extends Props {
  direction: Direction;
  turn: (to: Direction) => void;
  frame: RefObject<HTMLDivElement | null>;
}

function Drawing({ graph, tasks, chosen = null, onChoose, small = false, direction, turn, frame }: Drawn) {
  const boxes = useMemo(() => layout(graph, direction), [graph, direction]);
  const nodes = useNodes(graph, boxes, tasks, chosen, direction);
  const edges = useMemo(() => {
    const last = graph.tasks.find((task) => task.final)?.name;
    return graph.edges.map((edge, n) => drawn(edge, n, tasks, edge.to === last));
  }, [graph, tasks]);
  const choose = useCallback((_: unknown, node: { id: string }) => onChoose?.(node.id), [onChoose]);
  const { flow, moved, fitted } = useFitting(frame, direction);
  return (
    <div
      className="canvas-inside"
      onPointerDownCapture={(event) => (event.target as Element).closest(".react-flow__minimap") && moved()}
    >
      <ReactFlow
        key={direction}
        nodes={nodes}
        edges={edges}
        nodeTypes={NODE_TYPES}
        onInit={(instance) => (flow.current = instance)}
        onMove={(event) => event && moved()}
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
        <Controls showInteractive={false} fitViewOptions={FIT} onZoomIn={moved} onZoomOut={moved} onFitView={fitted} position="bottom-left" orientation="horizontal">
          <button
            type="button"
            className="react-flow__controls-button"
            onClick={() => turn(direction === "LR" ? "TB" : "LR")}
            title="Rotate the graph"
            aria-label="Rotate the graph"
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

/** Fit the graph again when its canvas changes size, until the user zooms or pans; the fit button restores this. */
function useFitting(frame: RefObject<HTMLDivElement | null>, direction: Direction) {
  const flow = useRef<ReactFlowInstance<TaskNodeType> | null>(null);
  const isMoved = useRef(false);
  useEffect(() => {
    isMoved.current = false; // the other direction is a new drawing
    const canvas = frame.current!;
    let size = `${canvas.clientWidth} ${canvas.clientHeight}`;
    let next = 0;
    const observer = new ResizeObserver(() => {
      const now = `${canvas.clientWidth} ${canvas.clientHeight}`;
      if (now === size) return;
      size = now;
      cancelAnimationFrame(next);
      next = requestAnimationFrame(() => isMoved.current || void flow.current?.fitView(FIT)); // React Flow measures itself first
    });
    observer.observe(canvas);
    return () => {
      cancelAnimationFrame(next);
      observer.disconnect();
    };
  }, [frame, direction]);
  return { flow, moved: () => void (isMoved.current = true), fitted: () => void (isMoved.current = false) };
}

/** Return the nodes. A node whose task did not change is the same object, so that only changes are rendered. */
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
    ariaLabel: found ? `${task.name}: ${look(stateOf(found)).word}` : task.name,
    data: { task, found, direction, chosen },
  };
}

function sameTask(one: Task | null, other: Task | null): boolean {
  if (one === other) return true;
  if (!one || !other) return false;
  return (
    one.status === other.status &&
    one.activity === other.activity &&
    one.until === other.until &&
    one.attempt === other.attempt &&
    one.duration_ms === other.duration_ms &&
    JSON.stringify([one.instances, one.child, one.remark]) === JSON.stringify([other.instances, other.child, other.remark])
  );
}

/** Return an edge. Edges to the final task have no label: that task always runs, as its icon shows. */
function drawn(edge: Graph["edges"][number], n: number, tasks: Props["tasks"], toFinal: boolean): Edge {
  const kind = edge.if && edge.on === "complete" ? "if" : edge.on; // with an `if`, parents only need to have ended
  const active = tasks !== undefined && toneOf(tasks, edge.to) === "busy";
  return {
    id: `${edge.from} ${edge.to} ${n}`,
    source: edge.from,
    target: edge.to,
    focusable: false,
    className: `on-${kind}${active ? " active" : ""}`,
    markerEnd: { type: MarkerType.ArrowClosed, width: 14, height: 14 },
    ...(kind === "success" || toFinal ? {} : { label: kind }),
  };
}

function toneOf(tasks: Props["tasks"], name: string): string {
  const found = tasks?.[name];
  return found ? look(stateOf(found)).tone : "plain";
}
