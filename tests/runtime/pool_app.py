"""An app whose handlers run in launched processes."""

import os
from typing import Any

from windlass import Context, Windlass

app = Windlass("postgresql://nobody@127.0.0.1:1/none")  # launched processes need no database


@app.job("pool.add.v1")
def add(ctx: Context, numbers: list[int]) -> dict[str, Any]:
    ctx.log.info("adding %d numbers in %s/%s", len(numbers), ctx.workflow, ctx.step_name)
    return {"sum": sum(numbers), "pid": os.getpid()}
