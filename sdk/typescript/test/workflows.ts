/** Prints workflows that are also built in Python: tests/sdk/test_typescript.py compares them. */

import {
  approve,
  child,
  command,
  http,
  job,
  ref,
  sleep,
  waitForEvent,
  waitForWebhook,
  workflow,
} from "../src/index.js";

const etl = workflow("etl", {
  trigger: { cron: "0 2 * * *", timezone: "Europe/Berlin", overlap: "skip" },
  description: "Loads files",
  labels: { team: "data" },
  max_duration: "2h",
  concurrency: 2,
})
  .step("extract", job("etl.extract.v1", { source: "s3://landing" }))
  .step("load", job("etl.load.v1", { file: ref.item(), bucket: ref.input("bucket") }), {
    foreach: ref.output("extract", "files"),
    concurrency: 8,
    max_attempts: 5,
    retry: { kind: "constant", base: 2 },
    timeout: "30s",
    queue: "heavy",
    priority: 10,
  })
  .step("shards", job("etl.shard.v1", { number: ref.index() }), { parallel: 3 })
  .step("alert", job("etl.alert.v1", { error: ref.error("load") }), { needs: { load: "failure" } })
  .step("cleanup", job("etl.cleanup.v1"), { final: true, allow_failure: true });

const order = workflow("order", { trigger: { event: "order.placed", if: "input.total > 10" } })
  .step("pick", job("orders.pick.v1", { order: ref.input("order") }), { compensate: job("orders.unpick.v1") })
  .step(
    "note",
    http(`https://example.com/${ref.output("pick", "id")}`, { body: { items: ref.output("pick", "items") } }),
  )
  .step("check", http("https://example.com/check", { method: "GET" }), {
    needs: "pick",
    if: `${ref.output("pick", "count")} > 3`,
  })
  .step("pause", sleep("1h30m"), { needs: "pick" })
  .step("paid", waitForEvent("paid", { key: ref.input("order"), timeout: "1d" }), { needs: ["pick", "pause"] })
  .step("called", waitForWebhook({ timeout: "2h" }), { needs: ["note", "paid"], join: "any" })
  .step("open", waitForWebhook(), { needs: { called: "complete" } })
  .step("agree", approve(`Ship ${ref.output("pick", "id")}?`, { roles: ["operator"], timeout: "3d" }))
  .step("ship", command("echo shipped", { input: { to: ref.output("agree", "address", 0) } }))
  .step("bill", child("billing", { order: ref.input("order") }), { needs: "ship" });

process.stdout.write(JSON.stringify([etl, order]));
