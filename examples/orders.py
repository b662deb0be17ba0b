"""The handlers of the job steps in whole-order.yaml."""

import asyncio

from windlass import Context, Windlass

app = Windlass()


@app.job("orders.pick.v1")
async def pick(ctx: Context, item: str) -> str:
    ctx.log.info("picking %s, %d of %d", item, (ctx.index or 0) + 1, ctx.count)
    await asyncio.sleep(0.2)
    return f"shelf {len(item)}: {item}"


@app.job("orders.note.v1")
async def note(text: str) -> str:
    return text
