"""Which cell a run lives in. Pure: the table of cells, ids and keys go in, names of cells come out.

A cell is a whole installation: a database, its workers, its schedules. A run lives in one cell from its start to its
end, so nothing of the engine changes: no transaction spans two cells. The router keeps no state but the table of cells.

The id of a run names its cell. Ids are UUIDv7: they carry the time of their creation, and the table says which cells
there were at that time; among those, rendezvous hashing (the cell with the highest hash of its name and the id) chooses
one. A new cell is an entry in the table with the time from which it takes runs: what exists stays where it is.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

MOST_TRIES = 10_000


@dataclass(frozen=True)
class Generation:
    """The cells that take the runs created from `since` on."""

    since: datetime
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    generations: tuple[Generation, ...]  # ascending, each with at least one cell

    def at(self, moment: datetime) -> Generation:
        """The generation of a moment; the first one has all that is older."""
        current = self.generations[0]
        for generation in self.generations[1:]:
            if generation.since <= moment:
                current = generation
        return current

    @property
    def cells(self) -> list[str]:
        """All cells, also those that take no new runs: what they have is still read and goes on there."""
        return sorted({cell for generation in self.generations for cell in generation.cells})

    def cell_of(self, run: UUID) -> str:
        return choose(self.at(created_at(run)).cells, run.bytes)

    def cells_of_key(self, key: str, now: datetime, kept_since: datetime) -> list[str]:
        """The cell in which a new run with this idempotency key is started, then those that may have an older run with
        it: of the generations that were in use since `kept_since`, when the oldest key began that is still kept."""
        current = self.at(now)
        oldest = self.generations.index(self.at(kept_since))
        newest = self.generations.index(current)
        homes = [choose(one.cells, key.encode()) for one in self.generations[oldest : newest + 1][::-1]]
        return list(dict.fromkeys(homes))


def choose(cells: Sequence[str], key: bytes) -> str:
    """Rendezvous hashing: without one of the cells, only the keys of that cell get another one."""
    return max(cells, key=lambda cell: hashlib.blake2b(key, key=cell.encode()[:64], digest_size=8).digest())


def created_at(run: UUID) -> datetime:
    """The time in an id. An id that is no UUIDv7 (a client chose it) belongs to the first generation."""
    milliseconds = run.int >> 80 if run.version == 7 else 0
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)


def id_in(table: Table, cell: str, new_id: Callable[[], UUID]) -> UUID:
    """A new id that names this cell: for a run whose key chose the cell. Takes as many tries as there are cells."""
    for _ in range(MOST_TRIES):
        if table.cell_of(run := new_id()) == cell:
            return run
    raise LookupError(f"{cell} takes no new runs")
