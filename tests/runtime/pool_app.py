"""An app whose handlers run in launched processes."""

import os
from typing import Any

from windlass import Context, Windlass

app = Windlass("postgresql://nobody@127.0.0.1:1/none")  # launched processes need no database


@app.job("pool.add.v1")
def add(ctx: Context, numbers: list[int]) -> dict[str, Any]:
    ctx.log.info("adding %d numbers in %s/%s", len(numbers), ctx.workflow, ctx.step_name)
    return {"sum": sum(numbers), "pid": os.getpid()}


@app.job("pool.write.v1")
async def write(ctx: Context) -> str:
    await ctx.artifacts.write("page.txt", f"<p>{ctx.attempt}</p>", media_type="text/html")
    if ctx.attempt == 1:
        raise RuntimeError("once")
    return await ctx.artifacts.write("rows.csv", b"a,b\n" * 1000)


@app.job("pool.read.v1")
def read(ctx: Context, rows: str) -> dict[str, Any]:
    names = [artifact.name for artifact in ctx.artifacts.list_sync()]
    page = ctx.artifacts.read_sync("write", "page.txt").decode()
    return {"names": names, "page": page, "rows": len(ctx.artifacts.read_sync(rows).splitlines())}
