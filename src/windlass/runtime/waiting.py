"""Lets fetches wait for jobs instead of polling (long polling). No database connection is held in the meantime.

Fetches of one caller for the same queues and types form a group. After a wake-up, or the poll that makes up for a lost
one, a single fetch of the group is served; if it got jobs, more are served, twice as many in each round. So an idle
group costs one query per poll, and a single job does not wake all workers.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from windlass.engine.workers.remote import Fetch, Job
from windlass.errors import Unavailable
from windlass.runtime.batching import FETCHES, RemoteJobs
from windlass.runtime.loops.loop import until

MOST_WAITING = 500  # per process; each also occupies an HTTP connection and a slot for requests in progress
POLL = 1.0  # seconds between two polls of a group
GROUPS_PER_SECOND = 50  # with more groups, each polls less often
_log = logging.getLogger("windlass.web")
GroupKey = tuple[Any, ...]


@dataclass(slots=True, eq=False)
class WaitingFetch:
    request: Fetch
    jobs: asyncio.Future[list[Job]] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    is_served: bool = False  # a query for it is in progress
    is_over: bool = False  # it waits no longer


class WaitingFetches:
    """The waiting fetches of a process."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, Group] = {}
        self.count = 0

    async def wait(
        self, remote_jobs: RemoteJobs, request: Fetch, *, seconds: float, ends: "asyncio.Task[Any]"
    ) -> list[Job]:
        """Return jobs as soon as there are some; an empty list after `seconds`, or when `ends` is done."""
        if self.count >= MOST_WAITING:
            raise Unavailable(
                f"{MOST_WAITING} fetches wait in this process already: fetch without wait_ms, or use fewer workers"
            )
        waiting = WaitingFetch(request)
        group = self._group(remote_jobs, request)
        group.add(waiting)
        self.count += 1
        try:
            await asyncio.wait({waiting.jobs, ends}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            waiting.is_over = True
            # A query in progress may have claimed jobs for this fetch: they must not be lost.
            return await waiting.jobs if waiting.jobs.done() or waiting.is_served else []
        finally:
            self.count -= 1
            group.remove(waiting)

    def _group(self, remote_jobs: RemoteJobs, request: Fetch) -> "Group":
        types = None if request.types is None else tuple(request.types)
        key = (remote_jobs.db, tuple(request.queues), types)
        group = self._groups.get(key)
        if group is None or group.is_finished:
            group = self._groups[key] = Group(remote_jobs, request.queues, self, key)
        return group

    def forget(self, key: GroupKey, group: "Group") -> None:
        if self._groups.get(key) is group:
            del self._groups[key]

    @property
    def pause(self) -> timedelta:
        return timedelta(seconds=max(POLL, len(self._groups) / GROUPS_PER_SECOND))


class Group:
    """Waiting fetches of one caller for the same queues and types, oldest first, and the task that serves them."""

    def __init__(self, remote_jobs: RemoteJobs, queues: Sequence[str], fetches: WaitingFetches, key: GroupKey) -> None:
        self._remote_jobs = remote_jobs
        self._topics = {"", *map(remote_jobs.db.stored, queues)}
        self._fetches = fetches
        self._key = key
        self._waiting: list[WaitingFetch] = []
        self._wake = asyncio.Event()
        self._never = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.is_finished = False

    def add(self, waiting: WaitingFetch) -> None:
        """Add a fetch. The group is served at once: a job may have arrived since the fetch found none."""
        self._waiting.append(waiting)
        self._wake.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="windlass-waiting-fetches")

    def remove(self, waiting: WaitingFetch) -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)
        if not self._waiting:
            self._wake.set()

    async def _run(self) -> None:
        """Serve the group while there are fetches. There is no await between the last check and `is_finished`, so a
        fetch cannot be added to a group that nothing serves."""
        try:
            with self._remote_jobs.db.subscribe(self._woken):
                while self._waiting:
                    self._wake.clear()
                    await self._serve()
                    if self._waiting:
                        await until(self._never, self._fetches.pause, wake=self._wake)
        except Exception:  # of any kind: waiting fetches time out with an empty answer, later ones form a new group
            _log.exception("fetches for %s are no longer served", self._key[1])
        finally:
            self.is_finished = True
            self._fetches.forget(self._key, self)

    async def _serve(self) -> None:
        size = 1
        while batch := self._waiting[:size]:
            del self._waiting[:size]
            for waiting in batch:
                waiting.is_served = True
            fetches = (self._remote_jobs.fetch(waiting.request) for waiting in batch)
            answers = await asyncio.gather(*fetches, return_exceptions=True)
            for waiting, answer in zip(batch, answers, strict=True):
                await self._answer(waiting, answer)
            if not all(answers):
                return
            size = min(size * 2, FETCHES)

    async def _answer(self, waiting: WaitingFetch, answer: list[Job] | BaseException) -> None:
        waiting.is_served = False
        if waiting.jobs.done():  # its request was cancelled
            if isinstance(answer, list):
                await self._remote_jobs.give_back(answer, worker=waiting.request.worker)
        elif isinstance(answer, BaseException):
            waiting.jobs.set_exception(answer)
        elif answer or waiting.is_over:
            waiting.jobs.set_result(answer)
        else:
            self._waiting.append(waiting)  # to the end: an operator may have stopped only this worker

    def _woken(self, topic: str) -> None:
        if topic in self._topics:
            self._wake.set()
