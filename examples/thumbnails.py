"""Handlers for `make demo`: `windlass worker examples.thumbnails:app` runs them."""

import asyncio

from windlass import Context, NonRetryable, Retry, Windlass

app = Windlass()  # embedded Postgres, or WINDLASS_DATABASE_URL


@app.job("content.thumbnail.v1", max_attempts=5, retry=Retry(base=0.2))
async def thumbnail(ctx: Context, content_id: str, width: int = 300) -> dict[str, object]:
    await asyncio.sleep(0.05)  # the work
    ctx.log.info("rendered %s at %d px", content_id, width)
    return {"url": f"/thumbs/{content_id}-{width}.png", "attempt": ctx.attempt}


@app.job("notify.email.v1", retry=Retry(base=0.2, jitter=0))
async def email(ctx: Context, template: str, to: str) -> str:
    if "@" not in to:
        raise NonRetryable(f"invalid address {to!r}")
    if ctx.attempt == 1:
        raise ConnectionError("the mail server closed the connection")
    return f"{template} sent to {to}"


@app.job("report.sum.v1")
def sum_up(numbers: list[float]) -> float:
    """Return the sum; a sync handler, so it runs in a thread."""
    return sum(numbers)
