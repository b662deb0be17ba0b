"""`schedule`: intervals only, and jobs are plain calls, one after the other, in the thread that looks. No tasks, no
threads, nothing known about a call but that it returned: less work than the others do, and less done."""

import importlib
from datetime import datetime, timedelta
from typing import Any

from bench.cron_contestants.stage import Tally, minutes, perform, stopwatch

schedule: Any = importlib.import_module("schedule")


async def add_intervals(count: int) -> float:
    given, job = minutes(count), Tally(0).add
    scheduler = schedule.Scheduler()
    with stopwatch() as watch:
        for n, interval in enumerate(given):
            scheduler.every(interval).minutes.do(job).tag(f"entry {n}")
    assert all(entry.next_run for entry in scheduler.jobs)
    return watch.seconds


async def dispatch(count: int) -> float:
    tally = Tally(count)
    scheduler = schedule.Scheduler()
    due = datetime.now() - timedelta(seconds=1)  # noqa: DTZ005 - it knows no zones
    for n in range(count):
        scheduler.every(1).hours.do(tally.add).tag(f"entry {n}").next_run = due
    with stopwatch() as watch:
        scheduler.run_pending()
    await tally.full()
    return watch.seconds


if __name__ == "__main__":
    perform({"add_intervals": add_intervals, "dispatch": dispatch})
