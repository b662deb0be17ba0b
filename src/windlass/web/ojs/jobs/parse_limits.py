"""What makes a job the same as another, and how fast jobs are handed out, as it is asked for."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from windlass.core.jobs.spec import LIVE, Limit, OnConflict, Unique, only_keys, unique_key
from windlass.errors import Invalid
from windlass.web.ojs import times
from windlass.web.ojs.vocabulary import STANDINGS

MAX_KEY = 255
UNIQUE = ("keys", "key", "args_keys", "meta_keys", "period", "states", "on_conflict")
KEYS = frozenset({"type", "queue", "args", "meta"})
SPELLINGS: Mapping[str, OnConflict] = {**{one.value: one for one in OnConflict}, "use_existing": OnConflict.IGNORE}


def unique(given: Any, *, type_: str, queue: str, args: list[Any], meta: Mapping[str, Any] | None) -> Unique | None:
    if given is None:
        return None
    field = "options.unique"
    if not isinstance(given, dict):
        raise Invalid(f"{field} must be an object", field=field)
    if unknown := given.keys() - UNIQUE:
        name = min(unknown)
        raise Invalid(f"{field}.{name} is not known: there are {', '.join(UNIQUE)}", field=f"{field}.{name}")
    keys = given.get("keys", given.get("key")) or ["type"]
    if not isinstance(keys, list) or not all(isinstance(key, str) and key in KEYS for key in keys):
        raise Invalid(f"{field}.keys must be a list of {', '.join(sorted(KEYS))}", field=f"{field}.keys")
    parts: dict[str, Any] = {"type": type_}
    if "queue" in keys:
        parts["queue"] = queue
    if "args" in keys or given.get("args_keys"):
        names = _names(given, "args_keys")
        parts["args"] = only_keys(args, names) if names else args
    if "meta" in keys or given.get("meta_keys"):
        names = _names(given, "meta_keys")
        if not names:
            raise Invalid(f"{field}.meta_keys must say which keys of meta count", field=f"{field}.meta_keys")
        parts["meta"] = only_keys(dict(meta or {}), names)
    conflict = given.get("on_conflict", "reject")
    if not isinstance(conflict, str) or conflict not in SPELLINGS:
        raise Invalid(f"{field}.on_conflict must be one of {', '.join(SPELLINGS)}", field=f"{field}.on_conflict")
    period = given.get("period")
    return Unique(
        key=unique_key(parts),
        on_conflict=SPELLINGS[conflict],
        standings=_standings(given.get("states")),
        period=times.span(period, field=f"{field}.period") if period is not None else None,
    )


def _names(given: Mapping[str, Any], name: str) -> list[str]:
    value = given.get(name) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Invalid(f"options.unique.{name} must be a list of texts", field=f"options.unique.{name}")
    return value


def _standings(states: Any) -> frozenset[str]:
    if states is None:
        return LIVE
    if not isinstance(states, list) or not all(isinstance(state, str) and state in STANDINGS for state in states):
        told = f"options.unique.states must be a list of {', '.join(STANDINGS)}"
        raise Invalid(told, field="options.unique.states")
    return frozenset(STANDINGS[state] for state in states)


def limit(given: Any, queue: str) -> Limit | None:
    if given is None:
        return None
    field = "options.rate_limit"
    if not isinstance(given, dict):
        raise Invalid(f"{field} must be an object", field=field)
    if given.get("on_limit", "wait") not in ("wait", "queue", "delay", "reschedule"):
        raise Invalid(f"{field}.on_limit: only wait is known here", field=f"{field}.on_limit")
    a_second = _number(given, "max_per_second")
    concurrency = given.get("concurrency")
    if concurrency is not None and (
        isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1
    ):
        raise Invalid(f"{field}.concurrency must be a whole number, at least 1", field=f"{field}.concurrency")
    rate, period = _number(given, "rate"), given.get("period") or _inner(given.get("rate"))
    if a_second is None and rate is None and concurrency is None:
        raise Invalid(f"{field} limits nothing: give max_per_second, rate or concurrency", field=field)
    key = given.get("key")
    if key is not None and (not isinstance(key, str) or not 0 < len(key) <= MAX_KEY):
        raise Invalid(f"{field}.key must be a text", field=f"{field}.key")
    return Limit(
        key=f"key/{key}" if key is not None else f"queue/{queue}",
        rate=a_second if a_second is not None else rate,
        period=times.span(period, field=f"{field}.period") if period and a_second is None else timedelta(seconds=1),
        concurrency=concurrency,
    )


def _inner(rate: Any) -> Any:
    """The period in {"limit": 10, "period": "PT1M"}."""
    return rate.get("period") if isinstance(rate, dict) else None


def _number(given: Mapping[str, Any], name: str) -> float | None:
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, dict) and name == "rate":  # {"limit": 10, "period": "PT1M"}
        value = value.get("limit")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1e6:
        raise Invalid(f"options.rate_limit.{name} must be a number above 0", field=f"options.rate_limit.{name}")
    return float(value)
