"""The worker: claims jobs, runs their handlers and reports the outcomes. This module defines its options."""

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from windlass.errors import Invalid


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    id: str = field(default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}")
    queues: Sequence[str] = ("default", "sql", "windlass")
    prefixes: Sequence[str] = ()  # LIKE patterns; if given, only matching types are served
    concurrency: int = 100
    lease: timedelta = timedelta(seconds=30)
    grace: timedelta = timedelta(seconds=30)
    poll: timedelta = timedelta(seconds=1)
    registry_every: timedelta = timedelta(seconds=5)
    progress_every: timedelta = timedelta(milliseconds=300)  # only a job's latest progress in each interval is written
    batch: int = 500  # jobs claimed in one turn; plans are fixed, so larger batches only amortise the commit
    turns: int = 3  # concurrent exchanges with the database
    runtime: str = "python"
    allow_commands: bool = False  # execute `run` steps
    code_version: str | None = None  # of the handlers; published with their schemas
    is_handed_over: bool = False  # id and leases pass from process to process; one at a time has them

    def __post_init__(self) -> None:
        for name, holds, rule in (
            ("id", bool(self.id.strip()), "a name"),
            ("queues", bool(self.queues), "at least one queue"),
            ("concurrency", 1 <= self.concurrency <= 10_000, "between 1 and 10000"),
            ("lease", timedelta(seconds=1) <= self.lease <= timedelta(days=1), "between a second and a day"),
            ("grace", self.grace >= timedelta(), "0 s or more"),
        ):
            if not holds:
                raise Invalid(f"{name} is {getattr(self, name)!r}: it must be {rule}", field=name)
