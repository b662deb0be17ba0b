"""Steps that pass files: `python -m examples.artifacts` writes three parts in parallel and joins them.

It needs no other services: the files are in a local folder (WINDLASS_OBJECTS_URL), the rest in the embedded Postgres.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

from windlass import Context, Windlass

app = Windlass()  # embedded Postgres, or WINDLASS_DATABASE_URL


@app.job("numbers.part.v1")
async def part(ctx: Context) -> None:
    first = (ctx.index or 0) * 1000
    await ctx.artifacts.write("part.csv", "".join(f"{n},{n * n}\n" for n in range(first, first + 1000)))


@app.job("numbers.join.v1")
async def join(ctx: Context, parts: Sequence[str]) -> str:
    async def rows() -> AsyncIterator[bytes]:
        yield b"n,square\n"
        for reference in parts:
            async for chunk in ctx.artifacts.stream(reference):
                yield chunk

    return await ctx.artifacts.write("squares.csv", rows())


@app.job("numbers.count.v1")
async def count(ctx: Context) -> int:
    return len((await ctx.artifacts.read("join", "squares.csv")).splitlines())


SQUARES = {
    "name": "squares",
    "tasks": {
        "part": {"job": "numbers.part.v1", "parallel": 3},
        "join": {
            "job": "numbers.join.v1",
            "needs": ["part"],
            "input": {"parts": "{{tasks.part.artifacts.part.csv}}"},
        },
        "count": {"job": "numbers.count.v1", "needs": ["join"]},
    },
}


async def main() -> None:
    async with app:
        await app.deploy(SQUARES)
        run = await app.start("squares")
        stop = asyncio.Event()
        worker = asyncio.create_task(app.work(stop=stop))
        result = await run.wait(timeout=60)
        stop.set()
        await worker
        print(f"{result.state}: {result.value} lines; windlass artifacts get {run.id} join squares.csv")


if __name__ == "__main__":
    asyncio.run(main())
