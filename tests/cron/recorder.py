"""Jobs that record their calls, fail, or wait for an event."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import pairwise

from windlass.cron import Cron, Entry, JobCompleted

AsyncJob = Callable[[], Awaitable[None]]


class Recorder:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def job(self, name: str) -> AsyncJob:
        async def job() -> None:
            self.lines.append(name)

        return job

    def failing(self, name: str) -> AsyncJob:
        async def job() -> None:
            self.lines.append(name)
            raise ValueError(f"{name} is broken")

        return job

    def held(self, name: str) -> tuple[AsyncJob, asyncio.Event]:
        """Return a job that waits for an event, and the event."""
        gate = asyncio.Event()

        async def job() -> None:
            self.lines.append(name)
            await gate.wait()

        return job, gate


class Ends(list[JobCompleted]):
    @property
    def results(self) -> list[str]:
        return [str(end.result) for end in self]


def chain(cron: Cron, recorder: Recorder, *names: str) -> None:
    """Add entries with these names, each of which runs after the success of the one before."""
    for name in names:
        cron.add("@triggered", recorder.job(name), name=name)
    for parent, child in pairwise(names):
        cron.add_dependency(child, parent)


def pairs(*edges: str) -> Iterable[tuple[str, str]]:
    """Return pairs of names: `ab` is an edge from a to b."""
    return ((edge[0], edge[1]) for edge in edges)


def known(cron: Cron, key: str) -> Entry:
    entry = cron.entry(key)
    assert entry is not None
    return entry


async def run(cron: Cron, root: str) -> str:
    """Trigger an entry and wait until all executions have ended; return the id of the execution."""
    execution_id = cron.trigger(root)
    await cron.done()
    return execution_id


async def let_run() -> None:
    """Let all tasks run until each waits for the clock or for an event."""
    for _ in range(10):
        await asyncio.sleep(0)
