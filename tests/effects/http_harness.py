"""Performs HTTP steps for tests: a performer that may reach loopback, requests, and checks of outcomes."""

import json
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

from windlass.core.jobs.job import Failed, Outcome, Succeeded
from windlass.effects.http.step import Http, HttpOptions, HttpRequest, LookUp

LOCAL = (ip_network("127.0.0.1/32"),)


def performer(*, look_up: LookUp | None = None, **options: Any) -> Http:
    made = HttpOptions(**{"allow": LOCAL} | options)
    return Http(made) if look_up is None else Http(made, look_up=look_up)


def request(url: str, **fields: Any) -> HttpRequest:
    identity = {"idempotency_key": "run-1/charge/0", "fence": 7, "attempt": 2, "run_id": "run-1"}
    defaults: dict[str, Any] = {"timeout": timedelta(seconds=20), **identity}
    return HttpRequest(url=url, **defaults | fields)


async def ask(url: str, *, options: dict[str, Any] | None = None, **fields: Any) -> Outcome:
    async with performer(**options or {}) as http:
        return await http.perform(request(url, **fields))


def kept(outcome: Outcome) -> dict[str, Any]:
    assert isinstance(outcome, Succeeded | Failed)
    assert outcome.result is not None
    document: dict[str, Any] = json.loads(outcome.result)
    assert document.keys() == {"status_code", "headers", "body", "is_truncated", "duration_ms"}
    return document


def succeeded(outcome: Outcome) -> dict[str, Any]:
    assert isinstance(outcome, Succeeded), outcome
    return kept(outcome)


def failed(outcome: Outcome, *, retryable: bool) -> Failed:
    assert isinstance(outcome, Failed)
    assert outcome.retryable is retryable, outcome
    return outcome
