"""A reader that is killed and reconnects at random receives every event once, in commit order."""

import asyncio
import contextlib
import random
from collections import Counter, defaultdict

import asyncpg
import httpx
import pytest

from tests.web.serving import served
from tests.web.streaming import reading
from windlass import Windlass

RUNS = 20
WRITERS = 8

# Numbers the events of a run in commit order: the transaction that holds the run's lock takes the next number.
WRITE = """with run as (update windlass.run set round = round + 1 where id = $1 returning id, round)
insert into windlass.event (run_id, word, reason) select id, 'noted', round::text from run"""


async def writer(url: str, runs: list[str], share: int, dice: random.Random) -> None:
    """Transactions of one to six events over several runs, some of which stay open while others begin and commit."""
    conn = await asyncpg.connect(url)
    written = 0
    while written < share:
        touched = sorted(dice.sample(runs, min(dice.randint(1, 6), share - written)))
        transaction = conn.transaction()
        await transaction.start()
        await conn.execute("select pg_current_xact_id()")  # assigns the transaction id now, long before the commit
        for _ in range(dice.randint(0, 3)):
            await asyncio.sleep(0)
        for run in touched:
            await conn.execute(WRITE, run)
        if dice.random() < 0.05:  # events of a rolled-back transaction are never delivered
            await transaction.rollback()
            continue
        await transaction.commit()
        written += len(touched)
    await conn.close()


async def read_all(base: httpx.URL, last: str, wanted: int, dice: random.Random) -> tuple[list[tuple[str, int]], int]:
    """Read over many connections, each of which is closed after a random number of events."""
    seen: list[tuple[str, int]] = []
    connections = 0
    while len(seen) < wanted:
        connections += 1
        patience = dice.choice([1, 7, 50, 200])
        with contextlib.suppress(httpx.ReadError):
            async with reading(base, "/stream", last=last, kind="run") as stream:
                async for event in stream:
                    if event.name != "hello":
                        seen.append((event.data["run_id"], int(event.data["reason"])))
                        last = event.id
                        patience -= 1
                    if patience <= 0 or len(seen) >= wanted:
                        break
    return seen, connections


@pytest.mark.parametrize(("count", "seed"), [(1_600, 7), pytest.param(10_000, 8, marks=pytest.mark.soak)])
async def test_every_event_is_delivered_once_and_in_commit_order(
    app: Windlass, database: str, count: int, seed: int
) -> None:
    dice = random.Random(seed)
    async with served(app) as http:
        await http.post("/workflows", json={"name": "busy", "tasks": {"pause": {"sleep": 3600}}})
        runs = [str(run.id) for run in [await app.start("busy") for _ in range(RUNS)]]
        async with reading(http.base_url, "/stream") as stream:
            begin = (await anext(stream)).id
        readers = [
            asyncio.create_task(read_all(http.base_url, begin, count, random.Random(dice.random()))) for _ in range(2)
        ]
        share = count // WRITERS
        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(writer(database, runs, share, random.Random(dice.random())))
        async with asyncio.timeout(60):
            found = await asyncio.gather(*readers)
        async with reading(http.base_url, "/stream", last=begin, kind="run") as stream:
            await anext(stream)
            whole = [await anext(stream) for _ in range(count)]
    for seen, connections in found:
        assert connections > 5
        assert max(Counter(seen).values()) == 1
        assert len(seen) == count
        of_run: dict[str, list[int]] = defaultdict(list)
        for run, number in seen:
            of_run[run].append(number)
        assert all(numbers == [*range(1, len(numbers) + 1)] for numbers in of_run.values())
    assert {(event.data["run_id"], int(event.data["reason"])) for event in whole} == set(found[0][0])
