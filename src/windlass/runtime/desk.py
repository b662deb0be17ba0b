"""Serves HTTP producers and workers; batches concurrent requests into one transaction."""

from collections.abc import Sequence

from windlass.core.jobs.spec import JobSpec
from windlass.engine.database import Database
from windlass.engine.jobs import submit
from windlass.engine.jobs.submit import Pushed
from windlass.engine.workers import remote, remote_reports
from windlass.engine.workers.remote import Job, Wish
from windlass.engine.workers.remote_reports import Told
from windlass.runtime.admission import Admission
from windlass.runtime.gathering import Gathering

Specs = Sequence[JobSpec]


class Desk:
    def __init__(self, db: Database) -> None:
        self.db = db
        self.admission = Admission(db)
        self._pushes = Gathering[Specs, list[Pushed]](self._push_all, most=100, lanes=2)
        self._fetches = Gathering[Wish, list[Job]](self._fetch_all, most=20)
        self._reports = Gathering[Told, Job](self._report_all, most=200, lanes=2)

    async def push(self, specs: Specs) -> list[Pushed]:
        """Record jobs, all or none.

        Only single jobs without a unique key or rate limit share a transaction: the others may wait for locks, and
        several jobs must succeed or fail together.
        """
        if len(specs) > 1 or any(spec.unique or spec.limit for spec in specs):
            return await submit.push(self.db, specs)
        return await self._pushes.ask(specs)

    async def fetch(self, wish: Wish) -> list[Job]:
        return await self._fetches.ask(wish)

    async def report(self, told: Told) -> Job:
        """Record a worker's report and return the job after it."""
        return await self._reports.ask(told)

    async def _push_all(self, asked: Sequence[Specs]) -> Sequence[list[Pushed] | Exception]:
        return [[one] for one in await submit.push(self.db, [spec for specs in asked for spec in specs])]

    async def _fetch_all(self, wishes: Sequence[Wish]) -> Sequence[list[Job] | Exception]:
        return await remote.fetch(self.db, wishes)

    async def _report_all(self, told: Sequence[Told]) -> Sequence[Job | Exception]:
        return await remote_reports.record(self.db, told)
