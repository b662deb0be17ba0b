"""Defines a workflow and starts a run. The steps are executed by workers in other languages."""

import asyncio
import sys

from windlass import Windlass

app = Windlass()
flow = app.workflow("three-languages")
pack = flow.step("pack", "shop.pack.v1", items=flow.input["items"]).queue("node")
flow.step("label", "shop.label.v1", parcel=pack["parcel"]).queue("go")


async def main() -> None:
    async with app:
        await app.publish()
        run = await app.start("three-languages", {"items": ["pen", "ink"]})
        result = await run.wait(timeout=60)
        sys.stdout.write(f"{result.value}\n")


asyncio.run(main())
