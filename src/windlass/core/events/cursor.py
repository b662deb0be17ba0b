"""Where a reader of the trail has got to, such that nothing is lost and nothing comes twice.

Neither a sequence nor a transaction's number is the order of commits: a transaction that began early may commit late. A
snapshot is exact: it says whose writes could be seen at a moment. What a reader has not had is what its last snapshot
did not see. Within such a batch the numbers of events tell the order: who waited for another's commit wrote after it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol, TypeVar

from windlass.errors import Invalid

_PLACE = re.compile(r"(\d{1,19})\.(\d{1,19})", re.ASCII).fullmatch
_SNAPSHOT = re.compile(r"(\d{1,19})\+(\d{1,19})((?:,\d{1,19})*)").fullmatch
_FOR_ADDRESS = str.maketrans("+;,", "._~")
_FROM_ADDRESS = str.maketrans("._~ ", "+;,+")
MAX_TEXT = 12_000
LAST = 2**63 - 1
STARTS = frozenset({"pending", "running", "retried", "rerun"})  # lines of a run that come before what its jobs do then


class Numbered(Protocol):
    """A line of one of the two trails: that of runs, or that of jobs."""

    @property
    def id(self) -> int: ...
    @property
    def of_job(self) -> bool: ...


class Line(Numbered, Protocol):
    """A line with the transaction that wrote it."""

    @property
    def xid(self) -> int: ...


class Timed(Line, Protocol):
    """A line with what tells its place among those of the other trail."""

    @property
    def at(self) -> datetime: ...
    @property
    def word(self) -> str: ...


T = TypeVar("T", bound=Timed)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Transactions below `xmax` are seen, but for those that were under way."""

    xmax: int
    under_way: frozenset[int] = field(default_factory=frozenset)

    @classmethod
    def parse(cls, text: str) -> "Snapshot":
        """As Postgres writes it: xmin:xmax:xip,xip."""
        _, xmax, rest = text.split(":")
        return cls(int(xmax), frozenset(map(int, filter(None, rest.split(",")))))

    def sees(self, xid: int) -> bool:
        return xid < self.xmax and xid not in self.under_way

    def covers(self, other: "Snapshot") -> bool:
        """It sees all that the other sees."""
        hidden = (xid for xid in self.under_way if xid < other.xmax)
        return self.xmax >= other.xmax and all(xid in other.under_way for xid in hidden)

    def below(self, xid: int) -> "Snapshot":
        """The same, but of what came later nothing."""
        return Snapshot(xid, frozenset(x for x in self.under_way if x < xid)) if xid < self.xmax else self

    def __str__(self) -> str:
        first = min(self.under_way, default=self.xmax)
        return ",".join([f"{first}+{self.xmax - first}", *(str(xid - first) for xid in sorted(self.under_way))])


@dataclass(frozen=True, slots=True)
class Cursor:
    """All that `upto` sees was had; if there is a `before`, of what it does not see only the lines up to these."""

    upto: Snapshot
    before: Snapshot | None = None
    run_line: int = 0
    job_line: int = 0

    @classmethod
    def parse(cls, text: str, *, name: str = "after") -> "Cursor":
        """Read a place, also one that was pasted into an address: there a plus is a space."""
        text = text.translate(_FROM_ADDRESS)
        upto, *rest = text.split(";") if len(text) <= MAX_TEXT else [""]
        try:
            if not rest:
                return cls(_snapshot(upto))
            before, run_line, job_line = rest
            found = cls(_snapshot(upto), _snapshot(before), int(run_line), int(job_line))
        except ValueError:
            raise Invalid(
                f"{name} is no place in this stream: give the `next` of a page of it, or the id of an event", field=name
            ) from None
        if not (0 <= found.run_line <= LAST and 0 <= found.job_line <= LAST):
            raise Invalid(
                f"{name} is no place in this stream: give the `next` of a page of it, or the id of an event", field=name
            )
        return found

    def has(self, line: Line) -> bool:
        """The reader had this line."""
        if self.before is None or not self.upto.sees(line.xid):
            return self.upto.sees(line.xid)
        return self.before.sees(line.xid) or line.id <= (self.job_line if line.of_job else self.run_line)

    @property
    def base(self) -> Snapshot:
        """Whatever this sees was had for sure."""
        return self.upto if self.before is None else self.before

    @property
    def token(self) -> str:
        """The place in characters that an address may have as they are."""
        return str(self).translate(_FOR_ADDRESS)

    def __str__(self) -> str:
        if self.before is None:
            return str(self.upto)
        return f"{self.upto};{self.before};{self.run_line};{self.job_line}"


class TrailPlace(NamedTuple):
    """Where a reader of pages of one run's trail is: after this line of the run, and after this line of its jobs."""

    run_line: int = 0
    job_line: int = 0

    @classmethod
    def parse(cls, text: str) -> "TrailPlace":
        found = _PLACE(text)
        place = cls(int(found[1]), int(found[2])) if found is not None else None
        if place is None or max(place) > LAST:
            raise Invalid(
                f"after is {text[:100]!r}, which is no place in the trail: give what `next` was", field="after"
            )
        return place

    def after(self, lines: Sequence[Numbered]) -> "TrailPlace":
        """The place of a reader who was here and read these lines."""
        last = {line.of_job: line.id for line in lines}
        return TrailPlace(last.get(False, self.run_line), last.get(True, self.job_line))

    def __str__(self) -> str:
        return f"{self.run_line}.{self.job_line}"


def interleaved(run_lines: Sequence[T], job_lines: Sequence[T]) -> Iterator[T]:
    """Merge the trail of runs with the trail of jobs by time; each keeps its own order.

    Statements of one transaction have times that grow, so a job's end comes before what follows from it. Where times
    are equal (a test has stopped the clock) transactions tell, and within one jobs go first unless their run begins.
    """
    place = 0
    for line in run_lines:
        while place < len(job_lines) and _precedes(job_lines[place], line):
            yield job_lines[place]
            place += 1
        yield line
    yield from job_lines[place:]


def _precedes(job_line: Timed, run_line: Timed) -> bool:
    job, run = (job_line.at, job_line.xid), (run_line.at, run_line.xid)
    return job < run or (job == run and run_line.word not in STARTS)


def places(lines: Sequence[Line], at: Cursor, upto: Snapshot, *, more: bool = False) -> Iterator[Cursor]:
    """Where a reader that was at `at` is after each of these lines, which are all that `upto` sees unless `more`."""
    run_line, job_line = (0, 0) if at.before is None else (at.run_line, at.job_line)
    for n, line in enumerate(lines, 1):
        run_line, job_line = (run_line, line.id) if line.of_job else (line.id, job_line)
        done = n == len(lines) and not more
        yield Cursor(upto) if done else Cursor(upto, at.base, run_line, job_line)


def _snapshot(text: str) -> Snapshot:
    found = _SNAPSHOT(text)
    if found is None:
        raise ValueError
    first, span = int(found[1]), int(found[2])
    under_way = frozenset(first + int(step) for step in found[3].split(",")[1:])
    if first + span > LAST or any(xid >= first + span for xid in under_way):
        raise ValueError
    return Snapshot(first + span, under_way)
