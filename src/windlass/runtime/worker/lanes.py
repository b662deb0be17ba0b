"""Tracks the lanes that a worker claims from, with a cursor for each.

A claim starts after the last `seq` claimed in its lane, so it does not read past dead index entries that an old
snapshot keeps there. A full search (a "look") finds what a cursor can miss: late commits and new lanes. Looks may take
about a twentieth of the time; one is due every second, or later if a look takes longer than 50 ms.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from windlass.core.jobs.job import Claimed
from windlass.engine.workers.turn import Lane, Served

SHARE = 20
LEAST, MOST = 0.05, 1.0
MAX_LANES = 100  # offered to one claim
_LITERAL = re.compile(r"[^%_\\]*")

Key = tuple[str, str, int, bool]


class Lanes:
    def __init__(self, serves: Callable[[str], bool]) -> None:
        self._serves = serves
        self._lanes: dict[Key, Lane] = {}
        self._looked = float("-inf")
        self._rest = 0.0
        self._stale = float("-inf")

    def stale(self, now: float) -> bool:
        """Return whether a full look is overdue, even if the known lanes still have jobs."""
        return now >= self._stale

    def distrust(self) -> None:
        """Make a full look due before the next claim."""
        self._stale = float("-inf")

    def rest(self, now: float) -> float:
        """Return the seconds until the next full look is allowed; 0 means now."""
        return max(0.0, self._looked + self._rest - now)

    def found(self, lanes: Iterable[Lane], *, started: float, ended: float) -> bool:
        """Store the result of a full look; return whether there is anything to claim.

        All lanes with due jobs are kept: which of them are offered depends on the room of their handlers. Known lanes
        that are empty now are kept while there are fewer than MAX_LANES.
        """
        due = {_key(lane): replace(lane, seq=lane.seq - 1) for lane in lanes if self._serves(lane.type)}
        kept = [(key, lane) for key, lane in self._lanes.items() if key not in due and self._serves(lane.type)]
        self._lanes = due | dict(kept[: max(0, MAX_LANES - len(due))])
        self._looked, self._rest = ended, min(MOST, max(LEAST, SHARE * (ended - started)))
        self._stale = ended + max(MOST, SHARE * (ended - started))
        return bool(due)

    def taken(self, jobs: Iterable[Claimed]) -> None:
        """Advance the cursors past claimed jobs; `jobs` of one lane must be ordered by `seq`."""
        for key, seq in {(job.queue, job.type, job.priority, job.alone): job.seq for job in jobs}.items():
            lane = self._lanes.get(key)
            if lane is not None and lane.seq < seq:
                self._lanes[key] = replace(lane, seq=seq)

    def offer(self, count: int, room: Callable[[str], int | None], *, alone: int = 1) -> Sequence[tuple[Lane, int]]:
        """Return up to MAX_LANES lanes to claim from, each with the most jobs that may be claimed from it.

        A type with a concurrency limit offers only its first lane, so that its lanes cannot crowd out those of others.

        At most `alone` suspects (jobs that one more lost lease would fail) are offered over all lanes.
        """
        offered: list[tuple[Lane, int]] = []
        limited: set[str] = set()
        for lane in self._lanes.values():
            if len(offered) == MAX_LANES:
                break
            if lane.type in limited or not self._serves(lane.type):  # the registry may have changed since the last look
                continue
            limit = room(lane.type)
            most = min(count if limit is None else min(limit, count), alone if lane.alone else count)
            if most > 0:
                offered.append((lane, most))
                alone -= most if lane.alone else 0
                if limit is not None:
                    limited.add(lane.type)
        return offered


def served(types: Iterable[str], serves: Callable[[str], bool]) -> Served:
    """Return what a look searches for: the served types, and for patterns their literal prefixes.

    A prefix may match types that are not served: `Lanes.found` filters the result again.
    """
    types = list(types)
    patterns = [f"{_begins(type_)}%" for type_ in types if "%" in type_]
    return Served([type_ for type_ in types if "%" not in type_ and serves(type_)], patterns)


def _begins(pattern: str) -> str:
    found = _LITERAL.match(pattern)
    return found[0] if found else ""


def _key(lane: Lane) -> Key:
    return lane.queue, lane.type, lane.priority, lane.alone
