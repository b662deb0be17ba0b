"""A handler with durable steps: `python -m examples.durable_order` shows how it continues after a failure.

`windlass worker examples.durable_order:app` runs it in a worker.
"""

import asyncio
from typing import Any

from windlass import Context, Retry, Windlass

app = Windlass()  # embedded Postgres, or WINDLASS_DATABASE_URL
charged: list[str] = []  # the orders that were charged


@app.job("order.fulfil.v1", retry=Retry(base=0.1))
async def fulfil(ctx: Context, order: str, amount: int) -> dict[str, Any]:
    payment = await ctx.step("charge", charge, order, amount)  # recorded before the next line runs
    await ctx.progress(0.5, "charged")
    if ctx.attempt == 1:
        raise ConnectionError("the warehouse closed the connection")  # a crash has the same effect
    parcels = [await ctx.step(f"pack-{n}", pack, order, n) for n in range(3)]
    await ctx.progress(1, "packed")
    return {"payment": payment, "parcels": parcels}


async def charge(order: str, amount: int) -> dict[str, Any]:
    charged.append(order)
    return {"id": f"pay_{order}", "amount": amount}


def pack(order: str, n: int) -> str:
    """Pack one parcel; a sync function, so it runs in a thread."""
    return f"{order}-{n}"


async def main() -> None:
    async with app:
        id_ = await app.submit("order.fulfil.v1", {"order": "o_1", "amount": 1200})
        stop = asyncio.Event()
        worker = asyncio.create_task(app.work(stop=stop))
        while (job := await app.get(id_)).status not in ("succeeded", "failed"):
            await asyncio.sleep(0.1)
        stop.set()
        await worker
        print(f"{job.status} after {job.attempt + 1} attempts, charged {len(charged)} time: {job.result}")


if __name__ == "__main__":
    asyncio.run(main())
