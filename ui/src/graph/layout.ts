/** The positions of the tasks. They depend only on the definition, so that the tasks of an active run do not move. */
import dagre from "@dagrejs/dagre";
import type { Graph } from "../api/client";
import { grouped } from "../parts/grouped";

export const WIDTH = 248;
export const HEIGHT = 64;
const LINE = 20; // a line for the progress of instances or of a child run, or for a condition
const GAP = 64;
const MANY = 60; // graphs with more tasks have a faster, simpler layout

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}
export type Direction = "LR" | "TB";

const kept = new WeakMap<Graph, Map<Direction, Map<string, Box>>>();

export function layout(graph: Graph, direction: Direction): Map<string, Box> {
  const known = kept.get(graph) ?? new Map<Direction, Map<string, Box>>();
  kept.set(graph, known);
  const boxes = known.get(direction) ?? laidOut(graph, direction);
  known.set(direction, boxes);
  return boxes;
}

/** Return the direction in which the graph can be drawn larger, estimated from its depth and breadth. */
export function fit(graph: Graph, width: number, height: number): Direction {
  const [depth, breadth] = extent(graph);
  const lying = Math.min(1, width / (depth * (WIDTH + GAP)), height / (breadth * (HEIGHT + GAP / 2)));
  const standing = Math.min(1, width / (breadth * (WIDTH + GAP / 2)), height / (depth * (HEIGHT + GAP)));
  return lying >= standing ? "LR" : "TB";
}

/** Return the number of ranks and the size of the largest. */
function extent(graph: Graph): [number, number] {
  const after = grouped(graph.edges, (edge) => edge.from);
  const open = new Map(graph.tasks.map((task) => [task.name, 0]));
  for (const edge of graph.edges) open.set(edge.to, (open.get(edge.to) ?? 0) + 1);
  let rank = graph.tasks.map((task) => task.name).filter((name) => open.get(name) === 0);
  let depth = 0;
  let breadth = 1;
  while (rank.length > 0) {
    depth += 1;
    breadth = Math.max(breadth, rank.length);
    const next: string[] = [];
    for (const edge of rank.flatMap((name) => after.get(name) ?? [])) {
      const left = open.get(edge.to)! - 1;
      open.set(edge.to, left);
      if (left === 0) next.push(edge.to);
    }
    rank = next;
  }
  return [Math.max(1, depth), breadth];
}

function laidOut(graph: Graph, direction: Direction): Map<string, Box> {
  const drawing = new dagre.graphlib.Graph({ multigraph: true });
  const dense = graph.tasks.length > MANY;
  drawing.setGraph({ rankdir: direction, nodesep: dense ? 14 : 26, ranksep: GAP, ranker: dense ? "tight-tree" : "network-simplex", marginx: 12, marginy: 12 });
  drawing.setDefaultEdgeLabel(() => ({}));
  for (const task of graph.tasks) drawing.setNode(task.name, { width: WIDTH, height: HEIGHT + LINE * (Number(task.fan_out || Boolean(task.child)) + Number(Boolean(task.if))) });
  graph.edges.forEach((edge, n) => drawing.setEdge(edge.from, edge.to, {}, String(n)));
  dagre.layout(drawing);
  const boxes = new Map<string, Box>();
  for (const task of graph.tasks) {
    const { x, y, width, height } = drawing.node(task.name);
    boxes.set(task.name, { x: x - width / 2, y: y - height / 2, width, height });
  }
  return boxes;
}

/** Return the graph with edges to compensations. The server sends none, as they run only if the run is undone. */
export function withCompensations(graph: Graph): Graph {
  const undo = graph.tasks.flatMap((task) => (task.compensates ? [{ from: task.compensates, to: task.name, on: "compensate" as never, if: null }] : []));
  return undo.length ? { ...graph, edges: [...graph.edges, ...undo] } : graph;
}
