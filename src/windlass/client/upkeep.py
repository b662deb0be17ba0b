"""/schedules, /queues, /workers and /quarantine."""

from datetime import datetime

from windlass.client.descriptors import Group, W, operation, upwards
from windlass.client.request import Call, Page, given, one, page
from windlass.client.values_jobs import Backfill, Quarantined, Queue, Schedule, ScheduleDetail, Worker, WorkerDetail
from windlass.client.values_runs import NewRun

SCHEDULE = "/schedules/{ref}"
QUEUE = "/queues/{name}"


class Schedules(Group[W]):
    """`name` is that of a workflow; schedules of plain SQL have an id."""

    @upwards
    def list(self, *, after: str | None = None, limit: int | None = None) -> Call[Page[Schedule]]:
        """Those of workflows by name, then those of plain SQL."""
        return page(Schedule, "/schedules", after=after, limit=limit)

    @operation
    def get(self, name: str, *, next: int | None = None) -> Call[ScheduleDetail]:  # noqa: A002 - the API's word
        """With its `next` so many times, also of one that is paused."""
        return one(ScheduleDetail, "GET", SCHEDULE, {"ref": name}, query={"next": next})

    @operation
    def pause(self, name: str, *, reason: str | None = None) -> Call[Schedule]:
        return one(Schedule, "POST", f"{SCHEDULE}/pause", {"ref": name}, body=given({"reason": reason}))

    @operation
    def resume(self, name: str) -> Call[Schedule]:
        """Go on with the next time; those of the pause are not made up for."""
        return one(Schedule, "POST", f"{SCHEDULE}/resume", {"ref": name})

    @operation
    def run(self, name: str) -> Call[NewRun]:
        """Start a run now, with the schedule's input."""
        return one(NewRun, "POST", f"{SCHEDULE}/run", {"ref": name})

    @operation
    def backfill(
        self,
        name: str,
        from_: datetime,
        to: datetime | None = None,
        *,
        limit: int | None = None,
        dry_run: bool | None = None,
    ) -> Call[Backfill]:
        """Start the runs of past times; those that have their run are left alone. `dry_run=True` counts them."""
        end = to.isoformat() if to is not None else None
        body = {"from": from_.isoformat(), "to": end, "limit": limit, "dry_run": dry_run}
        return one(Backfill, "POST", f"{SCHEDULE}/backfill", {"ref": name}, body=given(body))


class Quarantine(Group[W]):
    """What was set aside after an unforeseen error."""

    @upwards
    def list(self) -> Call[Page[Quarantined]]:
        """The latest first."""
        return page(Quarantined, "/quarantine")

    @operation
    def retry(self, kind: str, key: str) -> Call[Quarantined]:
        """Have it tried again within a second."""
        return one(Quarantined, "POST", "/quarantine/{kind}/{key}/retry", {"kind": kind, "key": key})


class Queues(Group[W]):
    @upwards
    def list(self, *, after: str | None = None, limit: int | None = None) -> Call[Page[Queue]]:
        """By name."""
        return page(Queue, "/queues", after=after, limit=limit)

    @operation
    def get(self, name: str) -> Call[Queue]:
        return one(Queue, "GET", QUEUE, {"name": name})

    @operation
    def pause(self, name: str) -> Call[Queue]:
        """Hand out nothing more of it; what runs goes on."""
        return one(Queue, "POST", f"{QUEUE}/pause", {"name": name})

    @operation
    def resume(self, name: str) -> Call[Queue]:
        return one(Queue, "POST", f"{QUEUE}/resume", {"name": name})


class Workers(Group[W]):
    @upwards
    def list(self) -> Call[Page[Worker]]:
        """The latest sign of life first."""
        return page(Worker, "/workers")

    @operation
    def get(self, worker_id: str) -> Call[WorkerDetail]:
        """With the jobs it has."""
        return one(WorkerDetail, "GET", "/workers/{worker_id}", {"worker_id": worker_id})
