"""How a command reaches Windlass: on its database, or through a server with --url. Commands know only this.

Rows are mappings with the same names on both sides, so that tables and JSON are the same. Ids are texts or UUIDs,
whichever side they come from: both print alike.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from windlass.core.runs.run import WORDS, Letter, RunResult, RunState

if TYPE_CHECKING:
    from windlass.core.explain.explanation import Explanation
    from windlass.core.workflows.workflow import Workflow

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rows:
    """A page. `next` is what the option for the next page takes; None means the end."""

    rows: list[Row]
    next: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """What deploying a workflow did, or would do."""

    name: str
    number: int
    change: str  # new, changed or unchanged
    address: str | None = None  # of a webhook, told once
    diff: Sequence[str] = ()
    ids: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Deployment:
    workflows: list[Deployed]
    warnings: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenStep:
    name: str
    letter: Letter
    remark: str
    took: timedelta | None
    attempts: str | None  # 1/3
    worker: str | None
    more: Mapping[str, Any]  # for programs

    @property
    def word(self) -> str:
        return WORDS[self.letter]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A run at one moment."""

    id: UUID
    workflow: str
    version: int
    state: RunState
    took: timedelta | None
    steps: tuple[SeenStep, ...]
    places: Sequence[tuple[str, int]]  # the lines of its tree: what stands left of the name, and the number of the step

    @property
    def is_live(self) -> bool:
        return self.state in (RunState.PENDING, RunState.RUNNING)


class RunBackend(Protocol):
    """One run."""

    @property
    def id(self) -> UUID: ...
    async def seen(self) -> Seen: ...
    async def ended(self) -> RunState: ...
    async def result(self) -> RunResult: ...
    async def explained(self) -> "tuple[Seen, Explanation]": ...
    async def shown(self) -> tuple[Row, list[Row]]:
        """Its fields with its output, and its events."""

    def lines(self, *, step: str | None, index: int | None, attempt: int | None, follow: bool) -> AsyncIterator[Row]:
        """What was logged; with `follow` until the run has ended."""

    async def drawn(self) -> "tuple[Workflow, str]":
        """Its definition, and the letters of its steps."""

    async def cancel(self, *, reason: str | None = None) -> None: ...
    async def retry(self) -> None: ...
    async def rerun(self, step: str, **changed: Any) -> None: ...


class Backend(Protocol):
    # Workflows
    async def deploy(self, workflows: "Sequence[Workflow]", *, dry_run: bool = False) -> Deployment: ...
    async def workflows(self, *, after: str, limit: int) -> Rows: ...
    async def workflow(self, name: str, version: int | None = None) -> Row: ...
    async def versions(self, name: str, *, before: int | None, limit: int) -> Rows: ...
    async def enable_workflow(self, name: str, enabled: bool = True) -> None: ...
    async def delete_workflow(self, name: str) -> None: ...
    async def rotate(self, name: str) -> str: ...

    # Runs
    async def start(self, workflow: str, **options: Any) -> RunBackend: ...
    async def run(self, id_: UUID | str) -> RunBackend:
        """By its id, or by what a client of the Open Job Spec calls its workflow."""

    async def runs(self, **filters: Any) -> Rows: ...

    # Schedules
    async def schedules(self, *, after: str, limit: int) -> tuple[Rows, list[Row]]:
        """Those of workflows, and on the last page those of plain SQL."""

    async def pause_schedule(self, name: str, *, reason: str | None) -> None: ...
    async def resume_schedule(self, name: str) -> None: ...
    async def run_schedule(self, name: str) -> str: ...
    async def ticks(self, name: str, *, count: int) -> list[datetime]: ...
    async def backfill(self, name: str, start: datetime, end: datetime | None, *, limit: int) -> Row: ...

    # Jobs
    async def submit(self, type_: str, payload: Any, **options: Any) -> UUID: ...
    async def job(self, id_: UUID) -> Row: ...
    async def jobs(self, **filters: Any) -> Rows: ...
    async def job_events(self, id_: UUID) -> list[Row]: ...
    async def job_logs(self, id_: UUID, *, attempt: int | None) -> list[Row]: ...
    async def cancel_job(self, id_: UUID, *, reason: str | None) -> None: ...
    async def retry_job(self, id_: UUID) -> None: ...
    async def delete_job(self, id_: UUID) -> None: ...

    # Queues and dead letters
    async def queues(self, *, after: str, limit: int) -> Rows: ...
    async def pause_queue(self, name: str) -> None: ...
    async def resume_queue(self, name: str) -> None: ...
    async def dead_letters(self, *, limit: int, **filters: Any) -> Rows: ...
    async def retry_dead_letters(self, *, dry_run: bool, limit: int, **filters: Any) -> Row:
        """A batch: `jobs` and `runs`, how many are `left`, and `next`, which is the `before` of the next one."""

    async def drop_dead_letters(self, *, dry_run: bool, limit: int, **filters: Any) -> Row: ...

    # Workers
    async def workers(self) -> list[Row]: ...

    # What was set aside
    async def quarantine(self, *, limit: int) -> list[Row]: ...
    async def retry_quarantined(self, kind: str, key: str) -> Row: ...
