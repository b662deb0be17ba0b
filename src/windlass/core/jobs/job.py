"""The rules of a job: states and transitions, the effect of an attempt's outcome on the job, and expired leases.

Effects return an `Outcome` instead of raising.

The lifecycle is the table EDGES. Each SQL query lists its transitions in a `moves:` note, and a test compares them with
EDGES. `attempt` counts charged failures, `lost` counts expired leases. Both use up `max_attempts`, so that a job that
repeatedly kills its worker fails in the end.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core.jobs.replay import Suspended
from windlass.core.jobs.retry import SQUARED_MINUTES, Retry
from windlass.core.json_value import decode
from windlass.core.orgs import owner
from windlass.errors import Invalid

DEFAULT_QUEUE = "default"
SQL_QUEUE = "sql"  # the queue of rows inserted by plain SQL
STEP_RETRY = Retry()
SPARE_LOSSES = 5  # leases that a row of SQL_QUEUE may lose beyond max_attempts: its producer counted failures only
MAX_MESSAGE = 8192  # characters of a progress message
MAX_LINES = 1000  # log lines of an attempt
MAX_DATA = 65_536  # bytes of the data reported with progress
LATE_ANSWER = timedelta(seconds=1)  # the loops query the database more often; no lease is shorter than a second
MAX_GAPS = 100


class JobState(StrEnum):
    PENDING = "pending"
    LEASED = "leased"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class JobMove(StrEnum):
    CLAIM = "claim"
    SUCCEED = "succeed"
    RETRY = "retry"  # a charged failure with attempts left
    FAIL = "fail"
    RELEASE = "release"  # returned by the worker, or the lease expired
    SUSPEND = "suspend"  # the handler waits
    CANCEL = "cancel"
    EXPIRE = "expire"  # not started in time
    REOPEN = "reopen"


TERMINAL = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})

EDGES: Mapping[tuple[JobState, JobMove], JobState] = {
    (JobState.PENDING, JobMove.CLAIM): JobState.LEASED,
    (JobState.PENDING, JobMove.CANCEL): JobState.CANCELLED,
    (JobState.PENDING, JobMove.EXPIRE): JobState.FAILED,
    (JobState.LEASED, JobMove.SUCCEED): JobState.SUCCEEDED,
    (JobState.LEASED, JobMove.RETRY): JobState.PENDING,
    (JobState.LEASED, JobMove.FAIL): JobState.FAILED,
    (JobState.LEASED, JobMove.RELEASE): JobState.PENDING,
    (JobState.LEASED, JobMove.SUSPEND): JobState.PENDING,
    (JobState.LEASED, JobMove.CANCEL): JobState.CANCELLED,
    (JobState.SUCCEEDED, JobMove.REOPEN): JobState.PENDING,  # its step is run again
    (JobState.FAILED, JobMove.REOPEN): JobState.PENDING,
    (JobState.CANCELLED, JobMove.REOPEN): JobState.PENDING,
}


@dataclass(frozen=True, slots=True)
class Succeeded:
    result: str = "null"  # JSON text, validated: one bad value must not fail a whole batch


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed. `error` has `type`, `message` and sometimes `traceback`: strings that Postgres can store."""

    error: Mapping[str, Any]
    retryable: bool = True
    retry_after: timedelta | None = None
    result: str | None = None  # JSON text kept with the failure: the response of an HTTP step
    dead_letter: bool | None = None  # whether a final failure becomes a dead letter; None: by the policy


@dataclass(frozen=True, slots=True)
class Released:
    """The attempt did not finish; the job goes back to its queue after `delay`, and no failure is charged."""

    reason: str | None = None  # recorded in the job's events
    delay: timedelta = timedelta()


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The attempt stopped on request, because its run was cancelled."""


Outcome = Succeeded | Failed | Released | Cancelled | Suspended

Fence = tuple[UUID, int]  # job id, claim number: identifies one attempt, so that reports of a stale worker are rejected


class Claimed(NamedTuple):
    """A job that a worker has claimed. A tuple for speed: the hot path creates one for every job."""

    id: UUID
    type: str
    payload: str
    queue: str  # its stored name
    priority: int
    seq: int
    attempt: int
    lost: int
    max_attempts: int
    claim_no: int
    timeout: timedelta | None
    retry: str | None
    created_at: datetime
    meta: str | None
    alone: bool = False  # claimed without other jobs: one more lost lease would end it
    run_id: UUID | None = None  # the run that it is a step of
    version_id: int | None = None
    step: int | None = None
    item: int | None = None
    items: int | None = None  # number of instances; None: the step is not fanned out
    epoch: int = 0

    @property
    def number(self) -> int:
        """Return the number of this attempt, counting from 1."""
        return self.attempt + self.lost + 1

    @property
    def org(self) -> str:
        return owner(self.queue)[0]

    @property
    def fence(self) -> Fence:
        return self.id, self.claim_no


class Success(NamedTuple):
    """The job succeeds."""

    job: Claimed
    result: str  # JSON


@dataclass(frozen=True, slots=True)
class Setback:
    """The job goes back to its queue, fails or is cancelled."""

    job: Claimed
    move: JobMove  # RETRY, FAIL, RELEASE or CANCEL
    error: Mapping[str, Any] | None
    delay: timedelta
    result: str | None = None  # JSON: a result despite the failure, such as an HTTP response
    dead_letter: bool = False  # the job fails and becomes a dead letter


class Suspension(NamedTuple):
    """The job goes back to its queue until the first wait of its handler ends."""

    job: Claimed
    outcome: Suspended


Report = Success | Setback | Suspension


def after(job: Claimed, outcome: Outcome, retry: Retry | None, roll: float) -> Report:
    """Return the report of an outcome. `retry` is the handler's policy; the job's own takes precedence."""
    if isinstance(outcome, Succeeded):  # not a case of the match below: that takes three times as long
        return Success(job, outcome.result)
    match outcome:
        case Released(reason, delay):
            return Setback(job, JobMove.RELEASE, None if reason is None else {"message": reason}, delay)
        case Cancelled():
            return Setback(job, JobMove.CANCEL, None, timedelta())
        case Suspended():
            return Suspension(job, outcome)
        case Failed(error, retryable, retry_after):
            failures, rule = job.attempt + 1, policy(job, retry)
            final = rule.is_final(error.get("type"), error.get("code"))
            if not retryable or final or spent(failures, job.lost, job.max_attempts, job.queue):
                dead = rule.dead_letter if outcome.dead_letter is None else outcome.dead_letter
                return Setback(job, JobMove.FAIL, error, timedelta(), outcome.result, dead)
            wait = rule.delay(failures, roll) if retry_after is None else retry_after
            return Setback(job, JobMove.RETRY, error, wait, outcome.result)


def spent(attempt: int, lost: int, max_attempts: int, queue: str) -> bool:
    """Return whether the attempts are used up.

    `release_expired` in store/sql/jobs.sql has the same rule; a test compares them.
    """
    spare = SPARE_LOSSES if queue == SQL_QUEUE else 0
    return attempt >= max_attempts or attempt + lost >= max_attempts + spare


def policy(job: Claimed, handler: Retry | None) -> Retry:
    """Return the row's own policy, else the handler's, else a default; an invalid policy in the row is ignored.

    The default is that of the SQL contract, but a step of a run is retried within seconds, because its run waits.
    """
    if job.retry is not None:
        with suppress(Invalid, ValueError):
            return Retry.from_json(decode(job.retry))
    return handler or (SQUARED_MINUTES if job.run_id is None else STEP_RETRY)


def fraction_of(value: object, *, whole: float = 1.0, field: str = "progress") -> float:
    """Return reported progress as a fraction, `value / whole` clamped to 0..1: a job may count slightly too far."""
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise Invalid(f"{field} is {value!r}: it must be a number between 0 and {whole:g}", field=field)
    return min(1.0, max(0.0, value / whole))


class Gap(NamedTuple):
    """A period in which the database did not answer this process, measured by the database's clock."""

    since: datetime
    until: datetime


class Continuity:
    """Records recent gaps, so that an expired lease is not taken as proof that its worker died.

    Normally a lease expires because its worker stopped sending heartbeats. After a frozen server, a failover or a
    network partition that does not follow: no worker could send one. The loops query the database more often than once
    a second; two answers more than LATE_ANSWER apart are a gap. `release_expired` releases a lease that was last
    extended before the end of a gap only when one lease length has passed since that end, so a gap delays the recovery
    of a worker that really died by at most the length of its lease.

    Every process records gaps, whether it holds the leader term of upkeep or not. When the leader dies, its successor
    has its own record of answers: it sees no gap, and recovers the dead process's jobs when their leases expire. A
    process that has just started uses the last renewal of the term as the answer before its first.

    A gap matters to a lease only if it lasted at least a third of it: workers send heartbeats every third of a lease,
    so after a shorter gap another third is left. A gap is therefore dropped after three times its length.
    """

    def __init__(self) -> None:
        self.answered_at: datetime | None = None
        self._gaps: list[Gap] = []

    def answered(self, now: datetime, *, before: datetime | None = None) -> None:
        """Record an answer of the database. `before` is another process's last answer; only the first call uses it."""
        last = self.answered_at or before
        if last is not None and now - last > LATE_ANSWER:
            self._gaps.append(Gap(last, now))
        self.answered_at = now
        self._gaps = [gap for gap in self._gaps if now <= gap.until + 3 * (gap.until - gap.since)][-MAX_GAPS:]

    @property
    def gaps(self) -> list[Gap]:
        """Return the gaps that may still matter to a lease, oldest first."""
        return list(self._gaps)
