"""Converts retry policies of the Open Job Spec to ours and back."""

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
JITTER = 0.5  # a delay is multiplied by 0.5 to 1.5
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
KNOWN = frozenset(DEFAULTS) | {name for names in ALIASES.values() for name in names}


def read(policy: Any, *, field: str = "options.retry") -> tuple[Retry, int]:
    """Return the policy and the number of attempts, with the spec's defaults."""
    if policy is not None and not isinstance(policy, dict):
        raise Invalid(f"{field} must be an object", field=field)
    return _read(json.dumps(policy or {}), field)


@functools.lru_cache(maxsize=256)  # there are many jobs and few policies
def _read(text: str, field: str) -> tuple[Retry, int]:
    policy = json.loads(text)
    if unknown := policy.keys() - KNOWN:
        name = min(unknown)
        raise Invalid(f"{field}.{name} is unknown: there are {', '.join(DEFAULTS)}", field=f"{field}.{name}")

    def check(name: str, holds: bool, rule: str) -> None:
        if not holds:
            raise Invalid(f"{field}.{name} must be {rule}", field=f"{field}.{name}")

    attempts = policy.get("max_attempts", MAX_ATTEMPTS)
    check("max_attempts", type(attempts) is int and 0 <= attempts <= 1000, "an integer from 0 to 1000")
    strategy = next(
        (policy[name] for name in ALIASES["backoff_strategy"] if policy.get(name) is not None), "exponential"
    )
    is_known = isinstance(strategy, str) and strategy in STRATEGIES
    check("backoff_strategy", is_known, f"one of {', '.join(STRATEGIES)}")
    factor = policy.get("backoff_coefficient", 2.0)
    check("backoff_coefficient", type(factor) in (int, float) and 1 <= factor <= 1000, "a number from 1.0 to 1000")
    base = _interval(policy, "initial_interval", timedelta(seconds=1), field)
    check("initial_interval", base > timedelta(), "positive")
    cap = _interval(policy, "max_interval", max(LONGEST, base), field)
    check("max_interval", cap >= base, "at least initial_interval")
    jitter = policy.get("jitter", True)
    check("jitter", isinstance(jitter, bool), "true or false")
    patterns = policy.get("non_retryable_errors", [])
    are_patterns = isinstance(patterns, list) and all(isinstance(item, str) and item for item in patterns)
    check("non_retryable_errors", are_patterns, "a list of error types")
    exhaustion = policy.get("on_exhaustion", "discard")
    check("on_exhaustion", exhaustion in ("discard", "dead_letter"), "discard or dead_letter")
    retry = Retry(
        kind=STRATEGIES[strategy],
        base=base.total_seconds(),
        factor=float(factor),
        cap=cap.total_seconds(),
        jitter=JITTER if jitter else 0.0,
        both_ways=True,
        non_retryable=tuple(patterns),
        dead_letter=exhaustion == "dead_letter",
    )
    return retry, max(attempts, 1)  # 0 and 1 both mean one attempt


def _interval(policy: Mapping[str, Any], name: str, default: timedelta, field: str) -> timedelta:
    for alias in ALIASES[name]:
        if (value := policy.get(alias)) is not None:
            read_ = times.milliseconds if alias.endswith("_ms") else times.span
            return read_(value, field=f"{field}.{alias}")
    return default


def render(policy: Any, max_attempts: int, stored: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the effective policy: that of the job's options with defaults, or our stored policy in the spec's
    terms."""
    if isinstance(policy, Mapping):
        return {**DEFAULTS, **policy, "max_attempts": max_attempts}
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


USUAL = read(None)[0].to_json()
