"""The options `unique` and `rate_limit` of jobs, and /rate-limits, the current state of rate limits."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.core.jobs.spec import LIVE, Limit, OnConflict, Unique, only_keys, unique_key
from windlass.engine.jobs import queues
from windlass.engine.jobs.queues import Rate
from windlass.errors import Invalid
from windlass.web.ojs import dependencies, times
from windlass.web.ojs.jobs import envelope
from windlass.web.ojs.responses import answer

MAX_KEY = 255
KEY, QUEUE = "key/", "queue/"  # prefixes of stored keys: explicit keys, and the implicit key of a queue
UNIQUE = ("keys", "key", "args_keys", "meta_keys", "period", "states", "on_conflict")
KEYS = frozenset({"type", "queue", "args", "meta"})
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


def unique(option: Any, *, type_: str, queue: str, args: list[Any], meta: Mapping[str, Any] | None) -> Unique | None:
    if option is None:
        return None
    field = "options.unique"
    if not isinstance(option, dict):
        raise Invalid(f"{field} must be an object", field=field)
    if unknown := option.keys() - UNIQUE:
        name = min(unknown)
        raise Invalid(f"{field}.{name} is unknown: there are {', '.join(UNIQUE)}", field=f"{field}.{name}")
    keys = option.get("keys", option.get("key")) or ["type"]
    if not isinstance(keys, list) or not all(isinstance(key, str) and key in KEYS for key in keys):
        raise Invalid(f"{field}.keys must be a list of {', '.join(sorted(KEYS))}", field=f"{field}.keys")
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


def rate_limit(option: Any, queue: str) -> Limit | None:
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
    if key is not None and (not isinstance(key, str) or not 0 < len(key) <= MAX_KEY):
        raise Invalid(f"{field}.key must be a string of 1 to {MAX_KEY} characters", field=f"{field}.key")
    return Limit(
        key=f"{KEY}{key}" if key is not None else f"{QUEUE}{queue}",
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


async def get_rate_limit(request: Request) -> Response:
    key = request.path_params["key"]
    stored = key if key.startswith(QUEUE) else KEY + key
    return answer(request, _state(await queues.rate_limit(await dependencies.db(request), stored)))


async def list_rate_limits(request: Request) -> Response:
    limit, offset = dependencies.page(request)
    rates = await queues.rate_limits(await dependencies.db(request), limit=limit, offset=offset)
    page = {"limit": limit, "offset": offset, "has_more": len(rates) == limit}
    return answer(request, {"items": [_state(rate) for rate in rates], "pagination": page})


def _state(rate: Rate) -> dict[str, Any]:
    state: dict[str, Any] = {"key": rate.key.removeprefix(KEY), "active": rate.active}
    if rate.concurrency is not None:
        available = max(0, rate.concurrency - rate.active)
        state["concurrency"] = {"limit": rate.concurrency, "active": rate.active, "available": available}
    if rate.per_period is not None and rate.left is not None:
        remaining = max(0, int(rate.left))
        state["rate"] = {"limit": rate.per_period, "period": times.duration(rate.period), "remaining": remaining}
    return state


ROUTES = [
    Route("/rate-limits", list_rate_limits, methods=["GET"]),
    Route("/rate-limits/{key:path}", get_rate_limit, methods=["GET"]),
]
