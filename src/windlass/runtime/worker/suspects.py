"""Limits how many suspects a worker runs concurrently.

A suspect is a job that one more lost lease would fail (`alone`): it may be the cause of its workers' crashes. A worker
starts with one suspect at a time, so that a poison job crashes alone. Each suspect that ends without crashing the
worker raises the limit by one, which doubles it with every generation (1, 2, 4, ..., at most MOST): harmless jobs that
were lost together with their worker need not run one by one. A lost suspect, or a restart, resets the limit to one.

The cost of a larger group: if one suspect crashes the worker, the others have to run again. The loss is not counted
against them: `release_expired` counts it against a suspect only if the worker held no other suspect.
"""

from collections.abc import Iterable

from windlass.core.jobs.job import Claimed, Fence, JobMove, Report, Setback

MOST = 16


class Suspects:
    def __init__(self) -> None:
        self._held: set[Fence] = set()
        self._limit = 1

    def __len__(self) -> int:
        return len(self._held)

    @property
    def room(self) -> int:
        """How many more suspects may be claimed now."""
        return max(0, self._limit - len(self._held))

    def add(self, job: Claimed) -> None:
        if job.alone:
            self._held.add(job.fence)

    def drop(self, job: Claimed) -> None:
        """Remove a suspect whose attempt ended without a report, and reset the limit: its lease was lost, so whether
        it is harmless is unknown."""
        if job.fence in self._held:
            self._held.discard(job.fence)
            self._limit = 1

    def recorded(self, reports: Iterable[Report]) -> bool:
        """Remove the suspects whose reports were recorded and raise the limit; return whether there was one.

        A suspect occupies its slot until its report is recorded: if another suspect crashes the worker before that,
        this one is lost as well.
        """
        ended = [report for report in reports if report.job.alone and self._forget(report.job)]
        survived = [report for report in ended if not (isinstance(report, Setback) and report.move is JobMove.RELEASE)]
        self._limit = min(MOST, self._limit + len(survived))
        return bool(ended)

    def _forget(self, job: Claimed) -> bool:
        known = job.fence in self._held
        self._held.discard(job.fence)
        return known
