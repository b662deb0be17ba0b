"""The handlers of foreach-pipeline.yaml: `windlass worker examples.pipeline:app` runs them."""

from pathlib import Path
from typing import Any

from windlass import Context, NonRetryable, Windlass

app = Windlass()  # embedded Postgres, or WINDLASS_DATABASE_URL


@app.job("words.find.v1")
def find(folder: str) -> dict[str, Any]:
    if not Path(folder).is_dir():
        raise NonRetryable(f"no such folder: {folder}")
    files = sorted(str(path) for pattern in ("*.md", "*.txt") for path in Path(folder).rglob(pattern))
    return {"folder": folder, "files": files}


@app.job("words.count.v1")
def count(ctx: Context, item: str) -> dict[str, Any]:
    """Count the words of one file; each instance of the step gets one `item`, and its `ctx.index`."""
    words = len(Path(item).read_text("utf-8", errors="replace").split())
    ctx.log.info("%d of %d: %s has %d words", (ctx.index or 0) + 1, ctx.count, item, words)
    return {"file": item, "words": words}


@app.job("words.report.v1")
def report(ctx: Context) -> dict[str, Any]:
    """Sum up the results of all instances, which are a list in the order of the items."""
    counted = ctx.upstream["count"]
    longest = max(counted, key=lambda one: int(one["words"]), default=None)
    return {"files": len(counted), "words": sum(one["words"] for one in counted), "longest": longest}
