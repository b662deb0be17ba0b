"""`schedule`: intervals only. Jobs are plain calls, one after the other, in the thread that checks for due jobs.

It has no tasks or threads and records only that a call returned, so it does less than the other contestants.
"""

import importlib
from datetime import datetime, timedelta
from typing import Any

from bench.cron_contestants.stage import Tally, minutes, perform, stopwatch

schedule: Any = importlib.import_module("schedule")


async def add_intervals(count: int) -> float:
    intervals, job = minutes(count), Tally(0).add
    scheduler = schedule.Scheduler()
    with stopwatch() as watch:
        for n, interval in enumerate(intervals):
            scheduler.every(interval).minutes.do(job).tag(f"entry {n}")
    assert all(entry.next_run for entry in scheduler.jobs)
    return watch.seconds


async def dispatch(count: int) -> float:
    tally = Tally(count)
    scheduler = schedule.Scheduler()
    due = datetime.now() - timedelta(seconds=1)  # noqa: DTZ005 - `schedule` has no time zones
    for n in range(count):
        scheduler.every(1).hours.do(tally.add).tag(f"entry {n}").next_run = due
    with stopwatch() as watch:
        scheduler.run_pending()
    await tally.full()
    return watch.seconds


if __name__ == "__main__":
    perform({"add_intervals": add_intervals, "dispatch": dispatch})
