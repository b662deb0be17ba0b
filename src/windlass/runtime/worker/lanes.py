"""Which lanes a worker draws from, and where in each it stands.

A claim starts past the last place taken in a lane, so it never re-reads what is gone, however many dead index entries
an old snapshot keeps there. What a cursor can miss (late commits, new lanes) a full look finds; looks may cost a
twentieth of the time, and are due at least every second.
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
        """Is a full look overdue, however much the known lanes still give?"""
        return now >= self._stale

    def distrust(self) -> None:
        """Look before the next claim."""
        self._stale = float("-inf")

    def rest(self, now: float) -> float:
        """How long until the next full look may be taken; 0 means now."""
        return max(0.0, self._looked + self._rest - now)

    def found(self, lanes: Iterable[Lane], *, started: float, ended: float) -> bool:
        """Take in a full look; return whether there is anything to claim.

        All lanes with due work are kept: which of them may be offered depends on what their handlers have room for.
        Lanes now empty are kept while there is room.
        """
        due = {_key(lane): replace(lane, seq=lane.seq - 1) for lane in lanes if self._serves(lane.type)}
        kept = [(key, lane) for key, lane in self._lanes.items() if key not in due and self._serves(lane.type)]
        self._lanes = due | dict(kept[: max(0, MAX_LANES - len(due))])
        self._looked, self._rest = ended, min(MOST, max(LEAST, SHARE * (ended - started)))
        self._stale = ended + max(MOST, SHARE * (ended - started))
        return bool(due)

    def taken(self, jobs: Iterable[Claimed]) -> None:
        """Move the cursors; `jobs` come in the order of their places."""
        for key, seq in {(job.queue, job.type, job.priority, job.alone): job.seq for job in jobs}.items():
            lane = self._lanes.get(key)
            if lane is not None and lane.seq < seq:
                self._lanes[key] = replace(lane, seq=seq)

    def offer(self, count: int, room: Callable[[str], int | None], *, alone: int = 1) -> Sequence[tuple[Lane, int]]:
        """Return up to MAX_LANES to claim from, each with the most it may give.

        A type with limited room offers its first lane only: however many lanes it has, they hide no others.

        Of suspects (jobs that one more lost lease would end) at most `alone` are offered, over all lanes.
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
    """Return what a look has to search for: of handlers' types those that are served; of patterns what they begin with.

    A pattern may match more than is served: what a look finds is filtered again.
    """
    types = list(types)
    patterns = [f"{_begins(type_)}%" for type_ in types if "%" in type_]
    return Served([type_ for type_ in types if "%" not in type_ and serves(type_)], patterns)


def _begins(pattern: str) -> str:
    found = _LITERAL.match(pattern)
    return found[0] if found else ""


def _key(lane: Lane) -> Key:
    return lane.queue, lane.type, lane.priority, lane.alone
