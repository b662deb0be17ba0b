"""The interface for recording the durable calls of a handler, and the connection for transactions in a thread."""

import concurrent.futures
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from windlass.core.jobs.job import Claimed
from windlass.core.jobs.replay import Call, NewRecord
from windlass.core.jobs.spec import JobSpec
from windlass.core.runs.run import RunResult


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run that a handler waits for: of a workflow, or of a single job."""

    workflow: str = ""
    input: Any = None
    job: JobSpec | None = None

    @property
    def title(self) -> str:
        return f"submit {self.job.type}" if self.job is not None else f"run {self.workflow}"


class CallStore(Protocol):
    """Records the durable calls of handlers. `fence` identifies the claim: writes of a lost claim are refused."""

    async def record(self, job: UUID, fence: int, records: Sequence[NewRecord]) -> None: ...

    async def transact(
        self, job: UUID, fence: int, records: Sequence[NewRecord], call: Call, work: Callable[[Any], Awaitable[str]]
    ) -> Any:
        """Call `work` with a connection, and record its result, which is JSON, in the same transaction."""

    async def end_wait(self, job: UUID, fence: int, place: str) -> tuple[Any, bool]:
        """End a wait that has timed out; return the payload, if it has arrived by now, and whether it has not."""

    async def start_run(self, job: Claimed, key: str, request: RunRequest) -> UUID:
        """Start a run, or return the one that was started with this key before."""

    async def watch_run(self, job: Claimed, run: UUID) -> RunResult | None:
        """Register a wait for a run; return its result if it has ended already."""

    def now(self) -> datetime: ...

    async def call(self, function: Callable[[], Any]) -> Any:
        """Call a sync function in a thread."""

    def begin(self, work: Coroutine[Any, Any, Any]) -> "concurrent.futures.Future[Any]":
        """Start a coroutine in the worker's event loop. For calls from threads."""

    def wait(self, answer: Any) -> Any:
        """Run a coroutine in the worker's event loop and return its result. For calls from threads."""


class SyncConnection:
    """The connection of `ctx.transaction_sync`: the methods of asyncpg, without `await`."""

    def __init__(self, conn: Any, store: CallStore) -> None:
        self._conn = conn
        self._store = store

    def execute(self, query: str, *args: Any) -> str:
        return str(self._store.wait(self._conn.execute(query, *args)))

    def executemany(self, query: str, rows: Iterable[Sequence[Any]]) -> None:
        self._store.wait(self._conn.executemany(query, rows))

    def fetch(self, query: str, *args: Any) -> list[Any]:
        return list(self._store.wait(self._conn.fetch(query, *args)))

    def fetchrow(self, query: str, *args: Any) -> Any:
        return self._store.wait(self._conn.fetchrow(query, *args))

    def fetchval(self, query: str, *args: Any) -> Any:
        return self._store.wait(self._conn.fetchval(query, *args))
