"""APScheduler 3: `AsyncIOScheduler` with its memory store. Jobs are added before it starts, which is faster.

Its clock cannot be set. `next_run_time` makes the jobs of a paused scheduler due; they run when it is resumed.
"""

import importlib
from datetime import UTC, datetime
from typing import Any

from bench.cron_contestants.stage import MOMENT, ZONE, Tally, lines, minutes, perform, stopwatch

AsyncIOScheduler: Any = importlib.import_module("apscheduler.schedulers.asyncio").AsyncIOScheduler
CronTrigger: Any = importlib.import_module("apscheduler.triggers.cron").CronTrigger
IntervalTrigger: Any = importlib.import_module("apscheduler.triggers.interval").IntervalTrigger


async def add_crons(count: int) -> float:
    expressions, job = lines(count), Tally(0).job
    scheduler = AsyncIOScheduler(timezone=ZONE)
    with stopwatch() as watch:
        for n, line in enumerate(expressions):
            scheduler.add_job(job, CronTrigger.from_crontab(line, timezone=ZONE), id=f"entry {n}")
        scheduler.start()
    return _all_have_times(scheduler, watch.seconds)


async def add_intervals(count: int) -> float:
    intervals, job = minutes(count), Tally(0).job
    scheduler = AsyncIOScheduler(timezone=ZONE)
    with stopwatch() as watch:
        for n, interval in enumerate(intervals):
            scheduler.add_job(job, IntervalTrigger(minutes=interval, timezone=ZONE), id=f"entry {n}")
        scheduler.start()
    return _all_have_times(scheduler, watch.seconds)


def _all_have_times(scheduler: Any, seconds: float) -> float:
    assert all(job.next_run_time for job in scheduler.get_jobs())
    scheduler.shutdown()
    return seconds


async def next_runs(count: int) -> float:
    triggers = [CronTrigger.from_crontab(line, timezone=ZONE) for line in lines(count)]
    with stopwatch() as watch:
        times = [trigger.get_next_fire_time(None, MOMENT) for trigger in triggers]
    assert all(times)
    return watch.seconds


async def dispatch(count: int) -> float:
    tally = Tally(count)
    scheduler = AsyncIOScheduler(timezone=UTC, job_defaults={"misfire_grace_time": None})
    scheduler.start(paused=True)
    due = datetime.now(UTC)
    for n in range(count):
        trigger = IntervalTrigger(hours=1, timezone=UTC)
        scheduler.add_job(tally.job, trigger, id=f"entry {n}", next_run_time=due)
    with stopwatch() as watch:
        scheduler.resume()
        await tally.full()
    scheduler.shutdown()
    return watch.seconds


if __name__ == "__main__":
    perform({"add_crons": add_crons, "add_intervals": add_intervals, "next_runs": next_runs, "dispatch": dispatch})
