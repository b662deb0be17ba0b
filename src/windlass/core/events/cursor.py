"""Cursors: the position of a reader in the event trail, such that no event is lost or delivered twice.

Neither event ids (a sequence) nor transaction ids follow the order of commits: a transaction that started early may
commit late. A Postgres snapshot is exact: it lists the transactions whose writes were visible at one moment. The events
that a reader has not received are those that its last snapshot did not see. Within such a batch events are ordered by
id: a transaction that waited for another one to commit took its ids later.
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
STARTS = frozenset({"pending", "running", "retried", "rerun"})  # run events that precede the job events they cause


class Numbered(Protocol):
    """An event of one of the two event trails, of runs or of jobs."""

    @property
    def id(self) -> int: ...
    @property
    def of_job(self) -> bool: ...


class Line(Numbered, Protocol):
    """An event with the id of the transaction that wrote it."""

    @property
    def xid(self) -> int: ...


class Timed(Line, Protocol):
    """An event with the fields that order it among the events of the other trail."""

    @property
    def at(self) -> datetime: ...
    @property
    def word(self) -> str: ...


T = TypeVar("T", bound=Timed)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A Postgres snapshot: sees the transactions below `xmax` except those that were in progress."""

    xmax: int
    under_way: frozenset[int] = field(default_factory=frozenset)

    @classmethod
    def parse(cls, text: str) -> "Snapshot":
        """Parse the text form of Postgres: xmin:xmax:xip,xip."""
        _, xmax, rest = text.split(":")
        return cls(int(xmax), frozenset(map(int, filter(None, rest.split(",")))))

    def sees(self, xid: int) -> bool:
        return xid < self.xmax and xid not in self.under_way

    def covers(self, other: "Snapshot") -> bool:
        """Return whether this snapshot sees every transaction that the other sees."""
        hidden = (xid for xid in self.under_way if xid < other.xmax)
        return self.xmax >= other.xmax and all(xid in other.under_way for xid in hidden)

    def below(self, xid: int) -> "Snapshot":
        """Return this snapshot without the transactions from `xid` on."""
        return Snapshot(xid, frozenset(x for x in self.under_way if x < xid)) if xid < self.xmax else self

    def __str__(self) -> str:
        first = min(self.under_way, default=self.xmax)
        return ",".join([f"{first}+{self.xmax - first}", *(str(xid - first) for xid in sorted(self.under_way))])


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position of a reader. Without `before`, it has received all events that `upto` sees.

    With `before`, it is inside a batch: it has received all events that `before` sees and, of the other events that
    `upto` sees, those with ids up to `run_line` (run events) or `job_line` (job events).
    """

    upto: Snapshot
    before: Snapshot | None = None
    run_line: int = 0
    job_line: int = 0

    @classmethod
    def parse(cls, text: str, *, name: str = "after") -> "Cursor":
        """Parse a cursor, also one pasted into a URL, where a plus sign becomes a space."""
        text = text.translate(_FROM_ADDRESS)
        upto, *rest = text.split(";") if len(text) <= MAX_TEXT else [""]
        try:
            if not rest:
                return cls(_snapshot(upto))
            before, run_line, job_line = rest
            cursor = cls(_snapshot(upto), _snapshot(before), int(run_line), int(job_line))
            if not (0 <= cursor.run_line <= LAST and 0 <= cursor.job_line <= LAST):
                raise ValueError
        except ValueError:
            raise Invalid(
                f"{name} is not a cursor of this stream: pass the `next` of a page, or the id of an event", field=name
            ) from None
        return cursor

    def has(self, line: Line) -> bool:
        """Return whether the reader has received this event."""
        if self.before is None or not self.upto.sees(line.xid):
            return self.upto.sees(line.xid)
        return self.before.sees(line.xid) or line.id <= (self.job_line if line.of_job else self.run_line)

    @property
    def base(self) -> Snapshot:
        """Return the snapshot whose events have all been received."""
        return self.upto if self.before is None else self.before

    @property
    def token(self) -> str:
        """Return the cursor as a string that needs no escaping in a URL."""
        return str(self).translate(_FOR_ADDRESS)

    def __str__(self) -> str:
        if self.before is None:
            return str(self.upto)
        return f"{self.upto};{self.before};{self.run_line};{self.job_line}"


class TrailPlace(NamedTuple):
    """A position in the paged event trail of one run: the last run event and the last job event that were read."""

    run_line: int = 0
    job_line: int = 0

    @classmethod
    def parse(cls, text: str) -> "TrailPlace":
        match = _PLACE(text)
        place = cls(int(match[1]), int(match[2])) if match is not None else None
        if place is None or max(place) > LAST:
            raise Invalid(
                f"after is {text[:100]!r}, which is not a cursor of this trail: pass a page's `next`", field="after"
            )
        return place

    def after(self, lines: Sequence[Numbered]) -> "TrailPlace":
        """Return the position after these events were read from here."""
        last = {line.of_job: line.id for line in lines}
        return TrailPlace(last.get(False, self.run_line), last.get(True, self.job_line))

    def __str__(self) -> str:
        return f"{self.run_line}.{self.job_line}"


def interleaved(run_lines: Sequence[T], job_lines: Sequence[T]) -> Iterator[T]:
    """Merge the event trails of runs and jobs by time; each keeps its own order.

    Later statements of a transaction have later times, so the end of a job comes before the run events that it causes.
    If times are equal (a test stopped the clock), events are ordered by transaction id; within one transaction job
    events come first, unless the run event is in STARTS.
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
    """Yield the cursor after each of these events for a reader that was at `at`.

    The events are all that `upto` sees after `at`, unless `more`: then they are only the first part.
    """
    run_line, job_line = (0, 0) if at.before is None else (at.run_line, at.job_line)
    for n, line in enumerate(lines, 1):
        run_line, job_line = (run_line, line.id) if line.of_job else (line.id, job_line)
        done = n == len(lines) and not more
        yield Cursor(upto) if done else Cursor(upto, at.base, run_line, job_line)


def _snapshot(text: str) -> Snapshot:
    match = _SNAPSHOT(text)
    if match is None:
        raise ValueError
    first, span = int(match[1]), int(match[2])
    under_way = frozenset(first + int(step) for step in match[3].split(",")[1:])
    if first + span > LAST or any(xid >= first + span for xid in under_way):
        raise ValueError
    return Snapshot(first + span, under_way)
