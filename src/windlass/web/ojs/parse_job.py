"""Reads job envelopes: checks them against the spec and converts them to job specs. Errors raise `Invalid`."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from windlass.core.jobs.job import DEFAULT_QUEUE
from windlass.core.jobs.spec import (
    LIVE,
    OWN_PREFIX,
    OWN_QUEUE,
    JobSpec,
    JobTemplate,
    Limit,
    OnConflict,
    Unique,
    only_keys,
    unique_key,
)
from windlass.errors import Invalid
from windlass.web.ojs import envelope, retry_policy, times
from windlass.web.ojs.responses import instant

MAX_TYPE, MAX_QUEUE, MAX_TAGS, MAX_RATE_KEY = 255, 128, 100, 255
RATE_KEY, QUEUE_RATE = "key/", "queue/"  # prefixes of stored keys of rate limits: explicit ones, and those of queues
_type = re.compile(r"[a-z][a-z0-9_-]*(?:\.[a-z][a-z0-9_-]*)*").fullmatch
_queue = re.compile(r"[a-z0-9][a-z0-9\-.]*").fullmatch
_uuid7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}").fullmatch
PRIORITIES: Mapping[str, int] = {"critical": 100, "high": 10, "normal": 0, "low": -10}
# Fields that the server sets. A client may send them back; they are ignored.
SYSTEM = frozenset({
    "specversion", "state", "attempt", "max_attempts", "created_at", "enqueued_at", "started_at", "completed_at",
    "cancelled_at", "discarded_at", "next_attempt_at", "retry_delay_ms", "visibility_deadline", "result", "error",
    "errors", "workflow_id", "parent_results", "context", "checkpoint", "previous_state", "activated_at",
})  # fmt: skip
KNOWN = SYSTEM | {"id", "type", "args", "meta", "schema", "options", "queue", "priority", "scheduled_at", "expires_at",
                  "timeout_ms", "tags", "retry", "unique"}  # fmt: skip
SYNONYMS = (("scheduled_at", "delay_until"), ("retry", "retry_policy"))
# Options that some clients send at the top level.
TOP_LEVEL_OPTIONS = ("queue", "priority", "scheduled_at", "expires_at", "timeout_ms", "tags", "retry", "unique")
UNIQUE_OPTIONS = ("keys", "key", "args_keys", "meta_keys", "period", "states", "on_conflict")
UNIQUE_KEYS = frozenset({"type", "queue", "args", "meta"})
ON_CONFLICT: Mapping[str, OnConflict] = {**{one.value: one for one in OnConflict}, "use_existing": OnConflict.IGNORE}
STANDINGS: Mapping[str, str] = {  # the spec's states -> those of core.jobs.spec
    envelope.AVAILABLE: "due",
    envelope.SCHEDULED: "waiting",
    envelope.RETRYABLE: "again",
    envelope.PENDING: "held",
    envelope.ACTIVE: "leased",
    envelope.COMPLETED: "succeeded",
    envelope.DISCARDED: "failed",
    envelope.CANCELLED: "cancelled",
}


def needs_clock(body: Mapping[str, Any]) -> bool:
    """Return whether the job has a time relative to now."""
    options = body.get("options")
    options = {**body, **options} if isinstance(options, Mapping) else body
    return times.is_relative(*(options.get(name) for name in ("scheduled_at", "delay_until", "expires_at")))


def read_job(body: Any, now: datetime) -> JobSpec:
    """Return the job's spec. Unknown fields are kept."""
    if not isinstance(body, dict):
        raise Invalid("a job must be an object", field="job")
    options = _options(body)
    type_, queue = job_type(body.get("type")), queue_name(options.get("queue", DEFAULT_QUEUE))
    args, meta = check_args(body.get("args")), _meta(body.get("meta"))
    retry, attempts = retry_policy.read(options.get("retry", options.get("retry_policy")))
    run_at, expires_at = _instants(options, now)
    kept = _kept(body, options, run_at, expires_at)
    return JobSpec(
        id=_id(body),
        type=type_,
        payload=args,
        queue=queue,
        priority=envelope.LOWEST_PRIORITY - _priority(options.get("priority", 0)),
        run_at=run_at,
        held=_switch(options, "pending"),
        max_attempts=attempts,
        retry=retry,
        timeout=_milliseconds(options, "timeout_ms"),
        visibility=_milliseconds(options, "visibility_timeout_ms"),
        expires_at=expires_at,
        tags=_tags(options.get("tags")),
        meta=meta,
        unique=_unique(options.get("unique"), type_=type_, queue=queue, args=args, meta=meta),
        limit=_rate_limit(options.get("rate_limit"), queue),
        envelope=kept or None,
    )


def read_later(body: Any) -> JobTemplate:
    """Read a job that is enqueued later, by a tick or as a step of a workflow: relative times count from then."""
    now = datetime.now(UTC)  # an arbitrary time: it is subtracted from relative times again
    spec = read_job(body, now)
    options = _options(body)
    delay = spec.run_at - now if spec.run_at and times.is_relative(options.get(_when(options) or "")) else None
    lifetime = spec.expires_at - now if spec.expires_at and times.is_relative(options["expires_at"]) else None
    dropped = {name for name, span in (("scheduled_at", delay), ("expires_at", lifetime)) if span is not None}
    kept = {name: value for name, value in (spec.envelope or {}).items() if name not in dropped}
    spec = replace(
        spec,
        run_at=spec.run_at if delay is None else None,
        delay=delay,
        expires_at=spec.expires_at if lifetime is None else None,
        envelope=kept or None,
    )
    return JobTemplate(spec, lifetime)


def job_type(value: Any, *, field: str = "type") -> str:
    if not isinstance(value, str) or len(value) > MAX_TYPE or not _type(value):
        raise Invalid(f"{field} must be lower-case words with dots, for example email.send", field=field)
    if value.startswith(OWN_PREFIX):
        raise Invalid(f"{field}: types that begin with {OWN_PREFIX!r} are reserved for the engine", field=field)
    return value


def queue_name(value: Any, *, field: str = "options.queue") -> str:
    if not isinstance(value, str) or len(value) > MAX_QUEUE or not _queue(value):
        raise Invalid(f"{field} must consist of a-z, 0-9, '-' and '.', and begin with a letter or digit", field=field)
    if value == OWN_QUEUE:
        raise Invalid(f"{field}: the queue {OWN_QUEUE!r} is for the server's own steps", field=field)
    return value


def _options(body: Mapping[str, Any]) -> dict[str, Any]:
    nested = {} if body.get("options") is None else body["options"]
    if not isinstance(nested, dict):
        raise Invalid("options must be an object", field="options")
    top_level = {name: body[name] for name in TOP_LEVEL_OPTIONS if body.get(name) is not None}
    options = {name: value for name, value in {**top_level, **nested}.items() if value is not None}
    for name, value in top_level.items():
        if options[name] != value:
            raise Invalid(f"{name} and options.{name} differ: send one of them", field=name)
    for name, other in SYNONYMS:
        if name in options and other in options and options[name] != options[other]:
            message = f"options.{name} and options.{other} mean the same and differ: send one of them"
            raise Invalid(message, field=f"options.{other}")
    return options


def _id(body: Mapping[str, Any]) -> UUID | None:
    value = body.get("id")
    if value is None:
        return None
    if not isinstance(value, str) or not _uuid7(value):
        raise Invalid("id must be a UUIDv7 in lower case; leave it out to get one", field="id")
    return UUID(value)


def check_args(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise Invalid("args must be a JSON array", field="args")
    return value


def _meta(value: Any) -> dict[str, Any] | None:
    if value is not None and not isinstance(value, dict):
        raise Invalid("meta must be an object", field="meta")
    return value


def _priority(value: Any) -> int:
    if isinstance(value, str) and value.lower() in PRIORITIES:
        return PRIORITIES[value.lower()]
    if isinstance(value, bool) or not isinstance(value, int) or not -100 <= value <= 100:
        raise Invalid("options.priority must be an integer from -100 to 100", field="options.priority")
    return value


def _instants(options: Mapping[str, Any], now: datetime) -> tuple[datetime | None, datetime | None]:
    when = _when(options)
    run_at = times.instant(options[when], field=f"options.{when}", now=now) if when else None
    until = options.get("expires_at")
    expires_at = times.instant(until, field="options.expires_at", now=now) if until is not None else None
    return run_at, expires_at


def _when(options: Mapping[str, Any]) -> str | None:
    return next((name for name in ("scheduled_at", "delay_until") if options.get(name) is not None), None)


def _milliseconds(options: Mapping[str, Any], name: str) -> timedelta | None:
    value = options.get(name)
    return None if value is None else times.milliseconds(value, field=f"options.{name}")


def _switch(options: Mapping[str, Any], name: str) -> bool:
    value = options.get(name, False)
    if not isinstance(value, bool):
        raise Invalid(f"options.{name} must be true or false", field=f"options.{name}")
    return value


def _tags(value: Any) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > MAX_TAGS or not all(isinstance(tag, str) and tag for tag in value):
        raise Invalid(f"options.tags must be a list of at most {MAX_TAGS} strings", field="options.tags")
    return value


def _kept(
    body: Mapping[str, Any], options: Mapping[str, Any], run_at: datetime | None, expires_at: datetime | None
) -> dict[str, Any]:
    """Return the fields that are stored only to render the envelope again; none for most jobs."""
    schema = body.get("schema")
    if schema is not None and not isinstance(schema, str):
        raise Invalid("schema must be a string", field="schema")
    kept = {
        "fields": {name: value for name, value in body.items() if name not in KNOWN},
        "schema": schema,
        "options": {name: value for name, value in options.items() if name not in ("queue", "priority", "tags")},
        "scheduled_at": instant(run_at) if run_at else None,
        "expires_at": instant(expires_at) if expires_at else None,
    }
    return {name: value for name, value in kept.items() if value}


# The options `unique` and `rate_limit`


def _unique(option: Any, *, type_: str, queue: str, args: list[Any], meta: Mapping[str, Any] | None) -> Unique | None:
    if option is None:
        return None
    field = "options.unique"
    if not isinstance(option, dict):
        raise Invalid(f"{field} must be an object", field=field)
    if unknown := option.keys() - UNIQUE_OPTIONS:
        name = min(unknown)
        raise Invalid(f"{field}.{name} is unknown: there are {', '.join(UNIQUE_OPTIONS)}", field=f"{field}.{name}")
    keys = option.get("keys", option.get("key")) or ["type"]
    if not isinstance(keys, list) or not all(isinstance(key, str) and key in UNIQUE_KEYS for key in keys):
        raise Invalid(f"{field}.keys must be a list of {', '.join(sorted(UNIQUE_KEYS))}", field=f"{field}.keys")
    parts: dict[str, Any] = {"type": type_}
    if "queue" in keys:
        parts["queue"] = queue
    if "args" in keys or option.get("args_keys"):
        names = _names(option, "args_keys")
        parts["args"] = only_keys(args, names) if names else args
    if "meta" in keys or option.get("meta_keys"):
        names = _names(option, "meta_keys")
        if not names:
            raise Invalid(f"{field}.meta_keys must list the keys of meta to compare", field=f"{field}.meta_keys")
        parts["meta"] = only_keys(dict(meta or {}), names)
    conflict = option.get("on_conflict", "reject")
    if not isinstance(conflict, str) or conflict not in ON_CONFLICT:
        raise Invalid(f"{field}.on_conflict must be one of {', '.join(ON_CONFLICT)}", field=f"{field}.on_conflict")
    period = option.get("period")
    return Unique(
        key=unique_key(parts),
        on_conflict=ON_CONFLICT[conflict],
        standings=_standings(option.get("states")),
        period=times.span(period, field=f"{field}.period") if period is not None else None,
    )


def _names(option: Mapping[str, Any], name: str) -> list[str]:
    value = option.get(name) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Invalid(f"options.unique.{name} must be a list of strings", field=f"options.unique.{name}")
    return value


def _standings(states: Any) -> frozenset[str]:
    if states is None:
        return LIVE
    if not isinstance(states, list) or not all(isinstance(state, str) and state in STANDINGS for state in states):
        message = f"options.unique.states must be a list of {', '.join(STANDINGS)}"
        raise Invalid(message, field="options.unique.states")
    return frozenset(STANDINGS[state] for state in states)


def _rate_limit(option: Any, queue: str) -> Limit | None:
    if option is None:
        return None
    field = "options.rate_limit"
    if not isinstance(option, dict):
        raise Invalid(f"{field} must be an object", field=field)
    if option.get("on_limit", "wait") not in ("wait", "queue", "delay", "reschedule"):
        raise Invalid(f"{field}.on_limit must be wait", field=f"{field}.on_limit")
    concurrency = option.get("concurrency")
    if concurrency is not None and (
        isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1
    ):
        raise Invalid(f"{field}.concurrency must be an integer, at least 1", field=f"{field}.concurrency")
    rate, period = option.get("rate"), option.get("period")
    if isinstance(rate, dict):  # {"limit": 10, "period": "PT1M"}
        period = period or rate.get("period")
        rate = rate.get("limit") or 0
    per_second, rate = _rate(option.get("max_per_second"), "max_per_second"), _rate(rate, "rate")
    if per_second is None and rate is None and concurrency is None:
        raise Invalid(f"{field} has no limit: set max_per_second, rate or concurrency", field=field)
    key = option.get("key")
    if key is not None and (not isinstance(key, str) or not 0 < len(key) <= MAX_RATE_KEY):
        raise Invalid(f"{field}.key must be a string of 1 to {MAX_RATE_KEY} characters", field=f"{field}.key")
    return Limit(
        key=f"{RATE_KEY}{key}" if key is not None else f"{QUEUE_RATE}{queue}",
        rate=per_second if per_second is not None else rate,
        period=times.span(period, field=f"{field}.period") if period and per_second is None else timedelta(seconds=1),
        concurrency=concurrency,
    )


def _rate(value: Any, name: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1e6:
        raise Invalid(f"options.rate_limit.{name} must be a positive number", field=f"options.rate_limit.{name}")
    return float(value)
