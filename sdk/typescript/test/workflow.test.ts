import assert from "node:assert/strict";
import { test } from "node:test";
import { job, ref, sleep, workflow } from "../src/index.js";

test("a step that reads another runs after its success, unless `needs` has another edge", () => {
  const { tasks } = workflow("orders")
    .step("pick", job("orders.pick.v1"))
    .step("pack", job("orders.pack.v1", { text: `items: ${ref.output("pick", "items", 0)}` }))
    .step("undo", job("orders.undo.v1", [ref.error("pick")]), { needs: { pick: "failure" } })
    .toJSON() as { tasks: { needs?: unknown; input?: unknown }[] };
  assert.deepEqual(
    tasks.map((task) => task.needs),
    [undefined, [{ step: "pick", on: "success" }], [{ step: "pick", on: "failure" }]],
  );
  assert.deepEqual(tasks[1]?.input, { text: "items: {{tasks.pick.output.items.0}}" });
  assert.deepEqual(tasks[2]?.input, ["{{tasks.pick.error}}"]);
});

test("a builder is a value: a step does not change the workflow that it is added to", () => {
  const base = workflow("a").step("one", sleep("1s"));
  base.step("two", sleep("1s"));
  assert.equal((base.toJSON().tasks as unknown[]).length, 1);
});

test("mistakes that a document cannot show are errors", () => {
  const base = workflow("a").step("one", sleep("1s")).step("two", sleep("1s"));
  // @ts-expect-error -- the name is taken
  assert.throws(() => base.step("one", sleep("2s")), /duplicate step one/);
  // @ts-expect-error -- there is no such step
  base.step("three", sleep("1s"), { needs: "missing" });
  assert.throws(
    () => base.step("three", sleep("1s"), { foreach: ref.item() }),
    /foreach of step three is {{item}}: it must/,
  );
  assert.throws(() => ref.output("one", "a b"), /"a b" cannot be used in a path/);
  assert.throws(() => ref.input(-1), /-1 cannot be used in a path/);
  const reads = job("x.y.v1", ref.output("one"));
  assert.throws(() => base.step("three", reads, { needs: "two", join: "any" }), /may start before one has ended/);
});
