import { Worker } from "@windlass/client/worker";

const worker = new Worker({ queues: ["node"] });

worker.handle<{ items: string[] }, { parcel: string }>("shop.pack.v1", async (ctx, { items }) => {
  ctx.log.info(`packing ${items.length} items`);
  const parcel = await ctx.step("wrap", () => `parcel with ${items.join(" and ")}`);
  return { parcel };
});

await worker.run({ signals: true });
