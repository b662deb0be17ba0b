"""Maps runs to cells. Pure functions of the table of cells, ids and idempotency keys.

A cell is a whole installation: a database, its workers, its schedules. A run stays in one cell from its start to its
end, so the engine needs no change: no transaction spans two cells. The only state of the router is the table of cells.

The cell of a run follows from its id. Ids are UUIDv7 and contain the time of their creation; the table has the cells
that took new runs at that time, and rendezvous hashing (the highest hash of a cell's name and the id) chooses one of
them. Adding a cell adds an entry with the time from which it takes runs: existing runs do not move.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

MAX_TRIES = 10_000


@dataclass(frozen=True)
class Generation:
    """The cells that take the runs created from `since` on."""

    since: datetime
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    generations: tuple[Generation, ...]  # ascending, each with at least one cell

    def at(self, moment: datetime) -> Generation:
        """Return the generation in use at a time; for earlier times, the first generation."""
        current = self.generations[0]
        for generation in self.generations[1:]:
            if generation.since <= moment:
                current = generation
        return current

    @property
    def cells(self) -> list[str]:
        """All cells, including those that take no new runs: their existing runs continue there."""
        return sorted({cell for generation in self.generations for cell in generation.cells})

    def cell_of(self, run: UUID) -> str:
        return choose(self.at(created_at(run)).cells, run.bytes)

    def cells_of_key(self, key: str, now: datetime, kept_since: datetime) -> list[str]:
        """Return the cell in which a new run with this idempotency key is started, then the cells that may have an
        older run with it: those of the generations in use since `kept_since`, the start of the oldest retained run."""
        current = self.at(now)
        oldest = self.generations.index(self.at(kept_since))
        newest = self.generations.index(current)
        homes = [choose(one.cells, key.encode()) for one in self.generations[oldest : newest + 1][::-1]]
        return list(dict.fromkeys(homes))


def choose(cells: Sequence[str], key: bytes) -> str:
    """Choose a cell by rendezvous hashing: when a cell is removed, only its own keys move."""
    return max(cells, key=lambda cell: hashlib.blake2b(key, key=cell.encode()[:64], digest_size=8).digest())


def created_at(run: UUID) -> datetime:
    """Return the time in an id. An id that is not a UUIDv7 (chosen by a client) belongs to the first generation."""
    milliseconds = run.int >> 80 if run.version == 7 else 0
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)


def id_in(table: Table, cell: str, new_id: Callable[[], UUID]) -> UUID:
    """Return a new id that maps to this cell. The expected number of tries is the number of cells."""
    for _ in range(MAX_TRIES):
        if table.cell_of(run := new_id()) == cell:
            return run
    raise LookupError(f"{cell} takes no new runs")
