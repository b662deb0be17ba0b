"""The specification of a job by its producer: fields, uniqueness rule, rate limit, and their validation.

Unique jobs: the key is a hash of chosen fields, and the rule decides what happens on a conflict with an existing job.
Postgres enforces rate and concurrency limits: `windlass.rate_admit`. A schedule enqueues a `JobTemplate` at each tick.
The arguments of a job type may have a schema; the last section orders its versions and finds the one a job refers to.
"""

import functools
import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from windlass.core.duration import LONGEST
from windlass.core.jobs.job import DEFAULT_QUEUE
from windlass.core.jobs.retry import Retry
from windlass.core.orgs import SEPARATOR
from windlass.errors import Invalid

DEFAULT_PRIORITY = 100
MAX_PRIORITY = 1_000_000
MAX_NAME = 255
MAX_LEASE = timedelta(days=7)  # for workers that choose their own lease; heartbeats can extend it without limit
# With room for a time zone offset. `windlass.bounds_error` has the same bounds for rows that plain SQL inserts.
EARLIEST, LATEST = datetime(1, 1, 3), datetime(9999, 12, 29)  # noqa: DTZ001 - compared without zones
OWN_QUEUE = "windlass"  # the queue of the engine's own step types
OWN_PREFIX = "windlass."  # the type prefix of those jobs

SLOWEST = timedelta(days=31)  # the lowest rate is one job in this time: a longer wait would be practically endless
MAX_CONCURRENCY = 1_000_000
# Job states, with `pending` split: held, waiting for its time, waiting for its next attempt (`again`), or due.
LIVE = frozenset({"held", "waiting", "again", "due", "leased"})


# The fields of a stored `JobTemplate`: values as they are, durations in seconds.
SPANS = ("delay", "timeout", "visibility")
PLAIN_FIELDS = ("type", "payload", "queue", "priority", "held", "max_attempts", "tags", "meta", "envelope")
_VERSIONED = re.compile(r"[^.]+(\.[^.]+)+\.v[0-9]+").fullmatch
_SEMVER = re.compile(
    r"v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?"
).fullmatch
_VERSION_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._+-]{0,63}").fullmatch


class OnConflict(StrEnum):
    REJECT = "reject"
    IGNORE = "ignore"  # return the existing job
    REPLACE = "replace"  # cancel the existing job and accept the new one
    REPLACE_EXCEPT_SCHEDULE = "replace_except_schedule"  # the same, but the new job takes the old one's due time


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """A uniqueness rule. An existing job conflicts if its state is in `standings`; with a `period`, only if younger."""

    key: str
    on_conflict: OnConflict = OnConflict.REJECT
    standings: frozenset[str] = LIVE
    period: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A rate and concurrency limit of the jobs that share a key."""

    key: str
    rate: float | None = None  # jobs per period
    period: timedelta = timedelta(seconds=1)
    concurrency: int | None = None  # jobs at the same time

    def __post_init__(self) -> None:
        if self.period <= timedelta():
            raise Invalid(f"rate_limit.period is {self.period}: it must be positive", field="options.rate_limit.period")
        if self.rate is not None and self.rate * SLOWEST < self.period:
            raise Invalid(
                f"rate_limit is {self.rate:g} jobs in {self.period}: allow at least one job in {SLOWEST.days} days",
                field="options.rate_limit",
            )
        if self.concurrency is not None and not 1 <= self.concurrency <= MAX_CONCURRENCY:
            raise Invalid(
                f"rate_limit.concurrency is {self.concurrency}: it must be between 1 and {MAX_CONCURRENCY}",
                field="options.rate_limit.concurrency",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A job as its producer specifies it: due now, at a time (`run_at`), or after a `delay` by the database's clock."""

    type: str
    payload: Any = field(default_factory=dict)
    queue: str = DEFAULT_QUEUE
    priority: int = DEFAULT_PRIORITY
    run_at: datetime | None = None
    delay: timedelta | None = None
    max_attempts: int = 3
    retry: Retry | None = None
    timeout: timedelta | None = None
    idempotency_key: str | None = None
    tags: Sequence[str] = ()
    meta: Mapping[str, Any] | None = None
    id: UUID | None = None  # chosen by the producer
    held: bool = False  # it stays pending until it is activated
    expires_at: datetime | None = None  # a job not started by then expires
    visibility: timedelta | None = None  # its lease, for workers that do not choose one
    unique: Unique | None = None
    limit: Limit | None = None
    envelope: Mapping[str, Any] | None = None  # fields that an API keeps with the job
    internal: bool = False  # a job of the engine, which may use reserved names; never set from client input


@dataclass(frozen=True, slots=True)
class JobTemplate:
    """A job spec whose times are relative to the tick of its schedule."""

    spec: JobSpec
    lifetime: timedelta | None = None  # the job expires this long after the tick

    def job(self, tick: datetime) -> JobSpec:
        return replace(self.spec, expires_at=tick + self.lifetime) if self.lifetime else self.spec

    def to_json(self) -> dict[str, Any]:
        spec, unique, limit = self.spec, self.spec.unique, self.spec.limit
        spans = {name: getattr(spec, name) for name in SPANS} | {"lifetime": self.lifetime}
        document: dict[str, Any] = {name: getattr(spec, name) for name in PLAIN_FIELDS}
        document |= {name: span.total_seconds() for name, span in spans.items() if span is not None}
        if spec.retry:
            document["retry"] = spec.retry.to_json()
        if unique:
            period = unique.period.total_seconds() if unique.period else None
            document["unique"] = [unique.key, unique.on_conflict.value, sorted(unique.standings), period]
        if limit:
            document["limit"] = [limit.key, limit.rate, limit.period.total_seconds(), limit.concurrency]
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "JobTemplate":
        fields = {name: document[name] for name in PLAIN_FIELDS}
        spec = JobSpec(
            **fields | {name: _span(document.get(name)) for name in SPANS},
            retry=Retry.from_json(document["retry"]) if "retry" in document else None,
            unique=_unique(*document["unique"]) if "unique" in document else None,
            limit=_limit(*document["limit"]) if "limit" in document else None,
        )
        return cls(spec, _span(document.get("lifetime")))


def _span(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


def _unique(key: str, on_conflict: str, standings: list[str], period: float | None) -> Unique:
    return Unique(key=key, on_conflict=OnConflict(on_conflict), standings=frozenset(standings), period=_span(period))


def _limit(key: str, rate: float | None, period: float, concurrency: int | None) -> Limit:
    return Limit(key=key, rate=rate, period=timedelta(seconds=period), concurrency=concurrency)


# Validation


def check(spec: JobSpec) -> None:
    """Raise `Invalid`, with the field, if a value is malformed or out of range."""
    _check_often(spec.type, "type", "name the work, for example content.thumbnail.v1")
    _check_often(spec.queue, "queue", "name a queue, for example default")
    if not spec.internal and (why := reserved(spec.type, spec.queue)):
        raise Invalid(f"{why[0]} is {getattr(spec, why[0])!r}: {why[1]}", field=why[0])
    if spec.idempotency_key is not None:
        check_name(spec.idempotency_key, "idempotency_key", "leave it out or give a key", limit=1024)
    _whole(spec.priority, "priority", -MAX_PRIORITY, MAX_PRIORITY)
    _whole(spec.max_attempts, "max_attempts", 1, 1000)
    if spec.run_at is not None and spec.delay is not None:
        raise Invalid("run_at and delay are both given: pass one of them", field="run_at")
    _is(spec.delay, timedelta, "delay", "a timedelta")
    _is(spec.timeout, timedelta, "timeout", "a timedelta")
    _is(spec.retry, Retry, "retry", "a Retry")
    _is(spec.meta, Mapping, "meta", "a mapping")
    if spec.delay is not None and spec.delay < timedelta():
        raise Invalid("delay is negative", field="delay")
    if spec.delay is not None and spec.delay > LONGEST:  # keeps the due time within the calendar
        raise Invalid(f"delay is {spec.delay}: the longest is {LONGEST.days} days", field="delay")
    for name, moment in (("run_at", spec.run_at), ("expires_at", spec.expires_at)):
        _is(moment, datetime, name, "an aware datetime")
        if moment is not None and moment.tzinfo is None:
            raise Invalid(f"{name} has no time zone: pass an aware datetime, such as datetime.now(UTC)", field=name)
        if moment is not None and not EARLIEST <= moment.replace(tzinfo=None) <= LATEST:
            raise Invalid(f"{name} is {moment}: it must be in the years 1 to 9999", field=name)
    check_length(spec.timeout, "timeout", most=LONGEST)
    check_length(spec.visibility, "visibility", most=MAX_LEASE)
    _check_tags(spec.tags)


def check_length(value: timedelta | None, field_: str, *, most: timedelta) -> None:
    """Raise `Invalid` unless the duration is positive and at most `most`."""
    if value is not None and value <= timedelta():
        raise Invalid(f"{field_} is {value}: it must be positive", field=field_)
    if value is not None and value > most:
        raise Invalid(f"{field_} is {value}: the longest is {most.days} days", field=field_)


def check_queue(name: str) -> None:
    """Raise `Invalid` if no queue can have this name."""
    check_name(name, "queue", "name a queue, for example default")
    if SEPARATOR in name:
        raise Invalid(f"queue is {name!r}: {SEPARATOR} separates an org from its queue", field="queue")


def reserved(type_: str, queue: str) -> tuple[str, str] | None:
    """Return the field whose value is reserved for the engine, and the reason; None if both are free."""
    if type_.startswith(OWN_PREFIX):
        return "type", f"types that begin with {OWN_PREFIX} are reserved for the engine: choose another name"
    if SEPARATOR in queue:
        return "queue", f"{SEPARATOR} separates an org from its queue: choose another name"
    if queue == OWN_QUEUE:
        return "queue", f"the queue {OWN_QUEUE} is reserved for the engine: choose another one"
    return None


def advice(type_: str) -> str | None:
    """Return a warning if the type is not of the form `domain.action.vN`; such types still work."""
    if _VERSIONED(type_):
        return None
    return f"type {type_!r} is not of the form domain.action.vN: a version lets old jobs finish on old code"


def check_range(value: int, field: str, *, most: int) -> int:
    """Return the value if it is between 1 and `most`; otherwise raise `Invalid`."""
    if not 1 <= value <= most:
        raise Invalid(f"{field} is {value}: it must be between 1 and {most}", field=field)
    return value


def check_name(value: object, field_: str, advice_: str, *, limit: int = MAX_NAME) -> None:
    if not isinstance(value, str):
        raise Invalid(f"{field_} is {value!r}: it must be a string", field=field_)
    if not value.strip():
        raise Invalid(f"{field_} is empty: {advice_}", field=field_)
    if len(value) > limit:
        raise Invalid(f"{field_} is {len(value)} characters long, the limit is {limit}", field=field_)
    if "\x00" in value or not value.isprintable():
        raise Invalid(f"{field_} contains characters that cannot be printed", field=field_)


def check_pattern(value: str | None, field_: str) -> None:
    """Raise `Invalid` if LIKE cannot parse the pattern."""
    if value is not None and (len(value) - len(value.rstrip("\\"))) % 2:
        raise Invalid(f"{field_} ends with a single \\, which escapes nothing: double it", field=field_)


def _check_tags(tags: object) -> None:
    if not isinstance(tags, list | tuple):
        raise Invalid(f"tags is {tags!r}: it must be a list of strings", field="tags")
    for tag in tags:
        check_name(tag, "tags", "a tag is a short string")


def _check_often(value: object, field_: str, advice_: str) -> None:
    """Check a name with a cache: there are many jobs, but few types and queues."""
    if isinstance(value, str):
        _passed(value, field_, advice_)
    else:
        check_name(value, field_, advice_)


@functools.lru_cache(maxsize=1024)
def _passed(value: str, field_: str, advice_: str) -> None:
    check_name(value, field_, advice_)


def _is(value: object, kind: type, field_: str, rule: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise Invalid(f"{field_} is {value!r}: it must be {rule}", field=field_)


def _whole(value: object, field_: str, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(f"{field_} is {value!r}: it must be an integer", field=field_)
    if not least <= value <= most:
        raise Invalid(f"{field_} is {value}: it must be between {least} and {most}", field=field_)


# Unique keys


def unique_key(parts: Mapping[str, Any]) -> str:
    """Return a hash that is equal for equal values: keys are sorted and strings are normalized to NFC."""
    text = json.dumps(_normalized(parts), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def only_keys(value: Any, keys: Sequence[str]) -> Any:
    """Return only these keys of an object, or of each object of a list."""
    if isinstance(value, Mapping):
        return {key: value[key] for key in keys if key in value}
    return [only_keys(item, keys) for item in value if isinstance(item, Mapping)] if isinstance(value, list) else value


def _normalized(value: Any) -> Any:
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, Mapping):
        return {unicodedata.normalize("NFC", key): _normalized(item) for key, item in value.items()}
    if isinstance(value, float) and value.is_integer():
        return int(value)  # 1.0 and 1 are the same JSON number
    return [_normalized(item) for item in value] if isinstance(value, list | tuple) else value


# Argument schemas


class SchemaMode(StrEnum):
    """The treatment of jobs whose arguments do not match the schema."""

    STRICT = "strict"  # the job is refused
    WARN = "warn"  # the job is accepted with a warning; one that names its schema is still refused
    OFF = "off"  # arguments are not checked: the schema is documentation only


def check_version(version: object) -> str:
    if not isinstance(version, str) or not _VERSION_NAME(version):
        raise Invalid("version must be a short string such as 1.0.0", field="version")
    return version


def schema_mode(value: object) -> SchemaMode:
    if value is None:
        return SchemaMode.WARN
    try:
        return SchemaMode(str(value))
    except ValueError:
        raise Invalid(f"mode is {value!r}: one of {', '.join(SchemaMode)}", field="mode") from None


def version_precedence(version: str) -> tuple[bool, tuple[int, ...], bool, tuple[tuple[bool, int, str], ...], str]:
    """Return a sort key in SemVer order; other version strings come before all SemVer versions."""
    match = _SEMVER(version)
    if match is None:
        return False, (), False, (), version
    *numbers, pre_release = match.groups()
    parts = pre_release.split(".") if pre_release else ()
    early = tuple((not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts)
    return True, tuple(int(part or 0) for part in numbers), pre_release is None, early, version


def schema_names(type_: str, version: str, uri: str | None) -> frozenset[str]:
    """Return the values of a job's `schema` field that refer to this schema."""
    names = {f"{type_}@{version}", f"{type_}/{version}", f"{type_}:{version}", version}
    return frozenset(names | {uri} if uri else names)
