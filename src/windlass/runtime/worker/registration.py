"""A worker's row in `windlass.worker`: registration and signs of life.

The id of a worker must belong to one process: what a process holds is known by it. An id that was given on the command
line may be used twice by mistake; both processes notice it (`exclusive`), and then neither adopts orphaned claims.
"""

import logging
import os
import socket
from collections.abc import Sequence

from windlass.engine.database import Database
from windlass.engine.workers import turn

_log = logging.getLogger("windlass.worker")


class Registration:
    def __init__(self, worker: str) -> None:
        self.worker = worker
        self.done = False
        self.exclusive = True  # no other process was seen with this id
        self.state = "running"
        self._here = socket.gethostname(), os.getpid()

    async def register(self, db: Database, *, queues: Sequence[str], types: Sequence[str], concurrency: int) -> None:
        host, pid = self._here
        other = await turn.register(
            db, id_=self.worker, host=host, pid=pid, queues=queues, types=types, concurrency=concurrency
        )
        if other is not None and other.alive:
            self._compare(other.host, other.pid)
        self.done = True

    async def say_alive(self, db: Database, *, active: int) -> str | None:
        """Return what an operator wants this worker to do: `quiet`, `terminate` or nothing."""
        row = await turn.seen(db, id_=self.worker, state=self.state, active=active)
        if row is None:
            return None
        self._compare(row.host, row.pid)
        return row.directive

    def _compare(self, host: str, pid: int) -> None:
        if (host, pid) != self._here and self.exclusive:
            self.exclusive = False
            _log.warning(
                "another process (%s, pid %d) works as %s too, or did so until a moment ago: give each worker an id "
                "of its own (--worker-id)",
                host,
                pid,
                self.worker,
            )
