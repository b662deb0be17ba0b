"""How many suspects a worker runs at a time.

A suspect is a job that one more lost lease would end (`alone`): it may be what killed its workers. A worker starts with
one suspect at a time, so that a poison job dies by itself. Each suspect that comes to an end without taking the worker
down raises the limit by one, which doubles it with every generation (1, 2, 4, ...): innocent ones, lost together with
their worker, do not have to go one by one. A suspect that is lost, or a restart, sets the limit back to one.

What a larger group costs: if one of it kills the worker, the others have to run again. They are not charged for it:
`release_expired` counts a loss against a suspect only if the worker held no other suspect.
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
        """How many more may be claimed now."""
        return max(0, self._limit - len(self._held))

    def add(self, job: Claimed) -> None:
        if job.alone:
            self._held.add(job.fence)

    def drop(self, job: Claimed) -> None:
        """Its attempt ended without a report: the lease was lost, so nothing is known about it."""
        if job.fence in self._held:
            self._held.discard(job.fence)
            self._limit = 1

    def recorded(self, reports: Iterable[Report]) -> bool:
        """These reports were recorded; return whether a suspect was among them.

        A suspect counts until then: while its report waits, another one may still take the worker down with it.
        """
        ended = [report for report in reports if report.job.alone and self._forget(report.job)]
        survived = [report for report in ended if not (isinstance(report, Setback) and report.move is JobMove.RELEASE)]
        self._limit = min(MOST, self._limit + len(survived))
        return bool(ended)

    def _forget(self, job: Claimed) -> bool:
        known = job.fence in self._held
        self._held.discard(job.fence)
        return known
