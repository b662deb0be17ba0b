"""`windlass.cron` with its defaults."""

from datetime import timedelta

from bench.cron_contestants.stage import MOMENT, ZONE, Tally, lines, minutes, perform, stopwatch
from windlass.core.cron.expression import parse
from windlass.core.cron.syntax import IN_PROCESS
from windlass.cron import Cron, FakeClock

HOUR = timedelta(hours=1)


async def add_crons(count: int) -> float:
    return await _add(lines(count))


async def add_intervals(count: int) -> float:
    return await _add([f"@every {interval}m" for interval in minutes(count)])


async def _add(specs: list[str]) -> float:
    cron, job = Cron(location=ZONE), Tally(0).job
    with stopwatch() as watch:
        for n, spec in enumerate(specs):
            cron.add(spec, job, name=f"entry {n}")
        await cron.__aenter__()  # afterwards every entry has its next time
    assert all(entry.next for entry in cron.entries())
    await cron.aclose()
    return watch.seconds


async def next_runs(count: int) -> float:
    schedules = [parse(line, dialect=IN_PROCESS, zone=ZONE) for line in lines(count)]
    with stopwatch() as watch:
        times = [schedule.next(MOMENT) for schedule in schedules]
    assert all(times)
    return watch.seconds


async def dispatch(count: int) -> float:
    """Make the entries due by advancing a fake clock; after that they run as they do with the system clock."""
    clock, tally = FakeClock(MOMENT), Tally(count)
    async with Cron(clock=clock) as cron:
        for n in range(count):
            cron.add("@every 1h", tally.job, name=f"entry {n}")
        with stopwatch() as watch:
            clock.advance(HOUR)
            await tally.full()
        await cron.done()
    return watch.seconds


if __name__ == "__main__":
    perform({"add_crons": add_crons, "add_intervals": add_intervals, "next_runs": next_runs, "dispatch": dispatch})
