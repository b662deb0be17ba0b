"""Decides which lanes a worker claims from, and how many suspects it claims.

A claim starts after the last `seq` claimed in its lane, so it does not read past dead index entries that an old
snapshot keeps there. A full search finds what such a cursor can miss: late commits and new lanes. Searches may take
about a twentieth of the time; one is due every second, or later if a search takes longer than 50 ms. A worker without
jobs searches more often, but pauses after each search: for twenty times its duration, at most a second or that
duration, whichever is longer. Otherwise searches that read past many dead entries would slow each other down forever:
each keeps the entries from being removed while it runs.

If the lanes belong to several orgs, the slots of a claim are divided between the orgs (`shares`). A lane that yields
fewer jobs than it has slots is dry: it gets no slot until a search or a wake-up. So a claim that was not filled is
followed by another at once, as long as there are other lanes. The same holds for more lanes than a claim can have.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from windlass.core.jobs.job import Claimed, Fence, JobMove, Report, Setback
from windlass.core.orgs import owner
from windlass.engine.workers.turn import Lane
from windlass.runtime.worker.shares import MOST_ORGS, FairShares

SHARE = 20
LEAST, MOST = 0.05, 1.0
MAX_LANES = MOST_ORGS  # offered to one claim
MOST_SUSPECTS = 16
FULL, BUSY = 1.0, 0.05  # seconds for which an org's lanes are not offered, unless there is a wake-up

Key = tuple[str, str, int, bool]


class Lanes:
    def __init__(self, serves: Callable[[str], bool]) -> None:
        self._serves = serves
        self._lanes: dict[Key, Lane] = {}
        self._several = False  # the lanes belong to several orgs
        self._shares = FairShares()
        self._dry: set[Key] = set()
        self._closed: dict[str, float] = {}  # until when the lanes of orgs at their limit are not offered
        self._looked = float("-inf")
        self._rest = 0.0
        self._overdue_at = float("-inf")
        self._distrusted = False

    def search_due(self, now: float) -> bool:
        """Return whether a full search is overdue, even if the known lanes still have jobs. If it is, the caller makes
        one: it is not due again for a while."""
        if now < self._overdue_at or self.rest(now):
            return False
        self._overdue_at = now + MOST
        return True

    def search_first(self, now: float) -> bool:
        """Return whether to search before the next claim, because the known lanes are probably empty."""
        return self._distrusted and not self.rest(now)

    def distrust(self) -> None:
        """Make a full search due before the next claim."""
        self._distrusted = True

    def rest(self, now: float) -> float:
        """Return the seconds until the next full search is allowed; 0 means now."""
        return max(0.0, self._looked + self._rest - now)

    def found(self, lanes: Iterable[Lane], *, started: float, ended: float) -> bool:
        """Store the result of a full search; return whether there is anything to claim.

        All lanes with due jobs are kept: which of them are offered depends on the capacity of their handlers. Known
        lanes that are empty now are kept while there are fewer than MAX_LANES.
        """
        due = {_key(lane): replace(lane, seq=lane.seq - 1) for lane in lanes if self._serves(lane.type)}
        self._dry.clear()
        self._closed = {org: until for org, until in self._closed.items() if until > ended}
        kept = [(key, lane) for key, lane in self._lanes.items() if key not in due and self._serves(lane.type)]
        self._lanes = due | dict(kept[: max(0, MAX_LANES - len(due))])
        took = ended - started
        self._looked, self._rest = ended, min(max(MOST, took), max(LEAST, SHARE * took))
        self._overdue_at, self._distrusted = ended + max(MOST, SHARE * took), False
        self._several = len({owner(queue)[0] for queue in {lane.queue for lane in self._lanes.values()}}) > 1
        return bool(due) and (not self._closed or any(not self._is_closed(lane, ended) for lane in due.values()))

    def taken(self, jobs: Iterable[Claimed]) -> None:
        """Advance the cursors past claimed jobs; `jobs` of one lane must be ordered by `seq`."""
        for key, seq in {(job.queue, job.type, job.priority, job.alone): job.seq for job in jobs}.items():
            lane = self._lanes.get(key)
            if lane is not None and lane.seq < seq:
                self._lanes[key] = replace(lane, seq=seq)

    def close(self, org: str, busy: bool, *, now: float) -> None:
        """Offer no lanes of an org for a while: it is at its limit, or (`busy`) another worker is claiming its jobs."""
        self._closed[org] = now + (BUSY if busy else FULL)

    def woken(self, queue: str) -> None:
        """Offer the lanes of a queue again, or of all queues: there are new jobs, or capacity for them."""
        if not queue:
            self._closed.clear()
            self._dry.clear()
            return
        self._closed.pop(owner(queue)[0], None)
        self._distrusted = False  # the jobs are probably in a known lane; if they are not, a search follows the claim
        if self._dry:
            self._dry = {key for key in self._dry if key[0] != queue}

    def offer(
        self, count: int, room: Callable[[str], int | None], *, alone: int = 1, now: float = 0.0
    ) -> Sequence[tuple[Lane, int]]:
        """Return up to MAX_LANES lanes to claim from, each with the maximum number of jobs to claim from it.

        With a single org, a type with a concurrency limit offers only its first lane, so that it cannot crowd out other
        types.

        At most `alone` suspects (jobs that one more lost lease would fail) are offered over all lanes.
        """
        if self._several or self._closed:
            return self._offer_fairly(count, room, alone=alone, now=now)
        offered: list[tuple[Lane, int]] = []
        limited: set[str] = set()
        for key, lane in self._lanes.items():
            if len(offered) == MAX_LANES:
                break
            if key in self._dry:
                continue
            if lane.type in limited or not self._serves(lane.type):  # the registry may change between searches
                continue
            limit = room(lane.type)
            most = min(count if limit is None else min(limit, count), alone if lane.alone else count)
            if most > 0:
                offered.append((lane, most))
                alone -= most if lane.alone else 0
                if limit is not None:
                    limited.add(lane.type)
        return offered

    def _offer_fairly(
        self, count: int, room: Callable[[str], int | None], *, alone: int, now: float
    ) -> list[tuple[Lane, int]]:
        """Divide the slots between the orgs that have lanes with jobs, and between the lanes of an org by urgency."""
        by_org: dict[str, list[Lane]] = defaultdict(list)
        for key, lane in self._lanes.items():
            if key not in self._dry and not self._is_closed(lane, now) and self._serves(lane.type):
                by_org[owner(lane.queue)[0]].append(lane)
        free: dict[str, int] = {}  # slots left to the types with a concurrency limit
        offered: list[tuple[Lane, int]] = []
        for org, places in self._shares.deal(by_org.keys(), count).items():
            for lane in by_org[org]:
                limit = room(lane.type)
                most = places if limit is None else min(places, free.setdefault(lane.type, limit))
                most = min(most, alone) if lane.alone else most
                if most > 0 and len(offered) < MAX_LANES:
                    offered.append((lane, most))
                    places -= most
                    alone -= most if lane.alone else 0
                    free[lane.type] = free.get(lane.type, most) - most
        return offered

    def claimed(self, offer: Sequence[tuple[Lane, int]], jobs: Sequence[Claimed]) -> bool:
        """Record the result of a claim; return whether other lanes may have more jobs, so that it should be repeated.

        With one org and few lanes there is nothing to record: a claim that was not filled has found all due jobs.
        """
        if not self._several and len(self._lanes) <= MAX_LANES:
            return False
        given = Counter((job.queue, job.type, job.priority, job.alone) for job in jobs)
        short = [lane for lane, most in offer if given[_key(lane)] < most]
        dry = {_key(lane) for lane in short if owner(lane.queue)[0] not in self._closed}
        self._dry |= dry
        if self._several:
            shares: Counter[str] = Counter()
            for lane, most in offer:
                shares[owner(lane.queue)[0]] += most
            taken = Counter(job.org for job in jobs)
            self._shares.used(shares, taken, without_jobs={owner(key[0])[0] for key in dry})
        return bool(self._lanes.keys() - self._dry)

    def _is_closed(self, lane: Lane, now: float) -> bool:
        return bool(self._closed) and now < self._closed.get(owner(lane.queue)[0], 0.0)


class Suspects:
    """Limits how many suspects a worker runs concurrently.

    A suspect is a job that one more lost lease would fail (`alone`): it may be the cause of its workers' crashes. A
    worker starts with one suspect at a time, so that a poison job crashes alone. Each suspect that ends without
    crashing the worker raises the limit by one, which doubles it with every generation (1, 2, 4, ..., at most
    MOST_SUSPECTS): harmless jobs that were lost together with their worker need not run one by one. A lost suspect, or
    a restart, resets the limit to one.

    The cost of a larger group: if one suspect crashes the worker, the others have to run again. The loss is not counted
    against them: `release_expired` counts it against a suspect only if the worker held no other suspect.
    """

    def __init__(self) -> None:
        self._held: set[Fence] = set()
        self._limit = 1

    def __len__(self) -> int:
        return len(self._held)

    @property
    def room(self) -> int:
        """The number of suspects that may be claimed now."""
        return max(0, self._limit - len(self._held))

    def add(self, job: Claimed) -> None:
        if job.alone:
            self._held.add(job.fence)

    def drop(self, job: Claimed) -> None:
        """Remove a suspect whose attempt ended without a report, and reset the limit: its lease was lost, so whether
        it is harmless is unknown."""
        if job.fence in self._held:
            self._held.discard(job.fence)
            self._limit = 1

    def recorded(self, reports: Iterable[Report]) -> bool:
        """Remove the suspects whose reports were recorded and raise the limit; return whether there was one.

        A suspect occupies its slot until its report is recorded: if another suspect crashes the worker before that,
        this one is lost as well.
        """
        ended = [report for report in reports if report.job.alone and self._forget(report.job)]
        survived = [report for report in ended if not (isinstance(report, Setback) and report.move is JobMove.RELEASE)]
        self._limit = min(MOST_SUSPECTS, self._limit + len(survived))
        return bool(ended)

    def _forget(self, job: Claimed) -> bool:
        known = job.fence in self._held
        self._held.discard(job.fence)
        return known


def _key(lane: Lane) -> Key:
    return lane.queue, lane.type, lane.priority, lane.alone
