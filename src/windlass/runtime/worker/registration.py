"""Registers a worker in `windlass.worker` and keeps its row current.

A worker id must belong to one process, because leases are attributed to the id. An id given on the command line may be
used twice by mistake; a process that sees another one under its id clears `exclusive` and adopts no orphaned claims.
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
        """Update the worker's row; return the operator's directive: `quiet`, `terminate` or None."""
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
