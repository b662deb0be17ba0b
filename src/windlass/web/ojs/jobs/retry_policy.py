"""Retry policies: the Open Job Spec's words and ours. What is wrong names its field, below `options.retry`."""

import functools
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from windlass.core.jobs.retry import Backoff, Retry
from windlass.errors import Invalid
from windlass.web.ojs import times

MAX_ATTEMPTS = 3
LONGEST = timedelta(minutes=5)
STRATEGIES: Mapping[str, Backoff] = {
    "exponential": Backoff.EXPONENTIAL,
    "linear": Backoff.LINEAR,
    "constant": Backoff.CONSTANT,
    "none": Backoff.CONSTANT,
    "fixed": Backoff.CONSTANT,
    "polynomial": Backoff.POLYNOMIAL,
}
ALIASES: Mapping[str, tuple[str, ...]] = {
    "backoff_strategy": ("backoff_strategy", "backoff_type", "backoff", "strategy"),
    "initial_interval": ("initial_interval", "initial_interval_ms", "base_delay_ms"),
    "max_interval": ("max_interval", "max_interval_ms", "max_delay_ms"),
}
JITTER = 0.5  # both ways: a delay becomes half of it to one and a half


def read(given: Any, *, field: str = "options.retry") -> tuple[Retry, int]:
    """The policy and the number of attempts; what is left out has the spec's default."""
    if given is not None and not isinstance(given, dict):
        raise Invalid(f"{field} must be an object", field=field)
    return _read(json.dumps(given or {}), field)


@functools.lru_cache(maxsize=256)
def _read(text: str, field: str) -> tuple[Retry, int]:
    """There are many jobs and few policies."""
    given = json.loads(text)
    if unknown := given.keys() - KNOWN:
        name = min(unknown)
        raise Invalid(f"{field}.{name} is not known: there are {', '.join(DEFAULTS)}", field=f"{field}.{name}")
    attempts = _attempts(given.get("max_attempts", MAX_ATTEMPTS), field)
    base = _interval(given, "initial_interval", timedelta(seconds=1), field)
    if base <= timedelta():
        raise Invalid(f"{field}.initial_interval must be longer than nothing", field=f"{field}.initial_interval")
    policy = Retry(
        kind=_strategy(given, field),
        base=base.total_seconds(),
        factor=_coefficient(given.get("backoff_coefficient", 2.0), field),
        cap=_interval(given, "max_interval", max(LONGEST, base), field).total_seconds(),
        jitter=JITTER if _switch(given.get("jitter", True), f"{field}.jitter") else 0.0,
        both_ways=True,
        non_retryable=_patterns(given.get("non_retryable_errors", ()), field),
        dead_letter=_exhaustion(given.get("on_exhaustion", "discard"), field) == "dead_letter",
    )
    if policy.cap is not None and policy.cap < policy.base:
        told = f"{field}.max_interval must not be shorter than initial_interval"
        raise Invalid(told, field=f"{field}.max_interval")
    return policy, attempts


def shown(given: Any, max_attempts: int, stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """The policy in force: as it was asked for, and the defaults for what was not; or what our own words mean."""
    if isinstance(given, Mapping):
        return {**DEFAULTS, **given, "max_attempts": max_attempts}
    if stored is None or stored == USUAL:
        return {**DEFAULTS, "max_attempts": max_attempts}
    return {
        "max_attempts": max_attempts,
        "initial_interval": times.duration(timedelta(seconds=stored.get("base", 1.0))),
        "backoff_coefficient": stored.get("factor", 2.0),
        "max_interval": times.duration(timedelta(seconds=stored.get("cap") or LONGEST.total_seconds())),
        "jitter": bool(stored.get("jitter", 0.1)),
        "backoff_strategy": str(stored.get("kind", "exponential")),
        "non_retryable_errors": list(stored.get("non_retryable", ())),
        "on_exhaustion": "dead_letter" if stored.get("dead_letter") else "discard",
    }


DEFAULTS: Mapping[str, Any] = {
    "max_attempts": MAX_ATTEMPTS,
    "initial_interval": "PT1S",
    "backoff_coefficient": 2.0,
    "max_interval": "PT5M",
    "jitter": True,
    "backoff_strategy": "exponential",
    "non_retryable_errors": [],
    "on_exhaustion": "discard",
}


def _attempts(value: Any, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1000:
        told = f"{field}.max_attempts must be a whole number from 0 to 1000"
        raise Invalid(told, field=f"{field}.max_attempts")
    return max(value, 1)  # 0 and 1 both mean: once


def _interval(given: Mapping[str, Any], name: str, default: timedelta, field: str) -> timedelta:
    for alias in ALIASES[name]:
        value = given.get(alias)
        if value is None:
            continue
        place = f"{field}.{alias}"
        return times.milliseconds(value, field=place) if alias.endswith("_ms") else times.span(value, field=place)
    return default


def _strategy(given: Mapping[str, Any], field: str) -> Backoff:
    value = next((given[name] for name in ALIASES["backoff_strategy"] if given.get(name) is not None), "exponential")
    if not isinstance(value, str) or value not in STRATEGIES:
        told = f"{field}.backoff_strategy must be one of {', '.join(STRATEGIES)}"
        raise Invalid(told, field=f"{field}.backoff_strategy")
    return STRATEGIES[value]


def _coefficient(value: Any, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= 1000:
        told = f"{field}.backoff_coefficient must be a number from 1.0 to 1000"
        raise Invalid(told, field=f"{field}.backoff_coefficient")
    return float(value)


def _switch(value: Any, field: str) -> bool:
    if not isinstance(value, bool):
        raise Invalid(f"{field} must be true or false", field=field)
    return value


def _patterns(value: Any, field: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) and item for item in value):
        told = f"{field}.non_retryable_errors must be a list of error types"
        raise Invalid(told, field=f"{field}.non_retryable_errors")
    return tuple(value)


def _exhaustion(value: Any, field: str) -> str:
    if value not in ("discard", "dead_letter"):
        told = f"{field}.on_exhaustion must be discard or dead_letter"
        raise Invalid(told, field=f"{field}.on_exhaustion")
    return str(value)


KNOWN = frozenset(DEFAULTS) | {name for names in ALIASES.values() for name in names}
USUAL = read(None)[0].to_json()
