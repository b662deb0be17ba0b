import { describe, expect, it } from "vitest";
import type { Graph } from "../api/client";
import { fit, layout, withCompensations, type Box } from "./layout";

/** Return a graph with rows of ten tasks: each task needs two of the row above, every seventh is fanned out. */
function lattice(tasks: number): Graph {
  const node = (n: number): Graph["tasks"][number] => ({ name: `s${n}`, type: "job", does: "", remarks: [], fan_out: n % 7 === 0, final: false, join: "all", child: null });
  const edges = Array.from({ length: tasks }, (_, n) => [n - 10, n - 9].filter((above) => above >= 0).map((above) => ({ from: `s${above}`, to: `s${n}`, on: "success" as const })));
  return { workflow: "lattice", tasks: Array.from({ length: tasks }, (_, n) => node(n)), edges: edges.flat() };
}

const overlap = (one: Box, other: Box) =>
  one.x < other.x + other.width && other.x < one.x + one.width && one.y < other.y + other.height && other.y < one.y + one.height;

describe("a layout", () => {
  it.each([1, 9, 40, 300])("of %i tasks has no two that overlap, in either direction", (count) => {
    const graph = lattice(count);
    for (const direction of ["LR", "TB"] as const) {
      const boxes = [...layout(graph, direction).values()];
      expect(boxes).toHaveLength(count);
      const bad = boxes.flatMap((one, n) => boxes.slice(n + 1).filter((other) => overlap(one, other)));
      expect(bad).toEqual([]);
      expect(Math.min(...boxes.flatMap((box) => [box.x, box.y]))).toBeGreaterThanOrEqual(0);
    }
  }, 30_000);

  it("places a compensation after the task that it undoes, and adds no edge without one", () => {
    const graph = lattice(2);
    expect(withCompensations(graph)).toBe(graph);
    const undo = { ...graph.tasks[0]!, name: "s0.compensate", compensates: "s0" };
    const drawn = withCompensations({ ...graph, tasks: [...graph.tasks, undo] });
    expect(drawn.edges.at(-1)).toMatchObject({ from: "s0", to: "s0.compensate", on: "compensate" });
    const boxes = layout(drawn, "LR");
    expect(boxes.get("s0.compensate")!.x).toBeGreaterThan(boxes.get("s0")!.x);
  });

  it("has room for a condition and for progress", () => {
    const graph = lattice(2);
    const [plain, fanned] = [{ ...graph.tasks[1]!, name: "plain" }, { ...graph.tasks[0]!, name: "fanned", if: "input.go" }];
    const boxes = layout({ ...graph, tasks: [plain, fanned], edges: [] }, "LR");
    expect(boxes.get("fanned")!.height - boxes.get("plain")!.height).toBe(40);
  });

  it("is made once for a definition", () => {
    const graph = lattice(30);
    expect(layout(graph, "LR")).toBe(layout(graph, "LR"));
  });

  it("lies down on a wide canvas and stands on a tall one", () => {
    const chain: Graph = { ...lattice(3), edges: [{ from: "s0", to: "s1", on: "success" }, { from: "s1", to: "s2", on: "success" }] };
    expect(fit(chain, 1200, 120)).toBe("LR");
    expect(fit(chain, 300, 900)).toBe("TB");
  });
});
