"""The suspension of a job, as its worker reports it: the state to save, and what the job waits for."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import uuid4

from windlass.core.jobs.replay import CallKind, MessageWait, NewRecord, Suspended
from windlass.core.jobs.spec import check_name
from windlass.core.json_value import PAYLOAD_LIMIT, encode
from windlass.errors import Invalid
from windlass.web.ojs import dependencies, times

MAX_KEY = 400
MOST_MESSAGES = 1000


def outcome(body: Mapping[str, Any]) -> Suspended:
    """Return the suspension: `for_ms` limits the wait, `wait_for` names a message, `state` replaces the checkpoint."""
    wait = body.get("wait_for")
    delay = None if body.get("for_ms") is None else times.milliseconds(body["for_ms"], field="for_ms")
    if wait is None and delay is None:
        raise Invalid("there is nothing to wait for: give for_ms, wait_for or both", field="for_ms")
    name = f"suspend-{uuid4().hex}"
    saved = _saved(body)
    if wait is None:
        return Suspended([name], [*saved, _record(name, CallKind.SLEEP, delay)])
    if not isinstance(wait, dict):
        raise Invalid('wait_for must be an object such as {"name": "paid", "key": "42"}', field="wait_for")
    message, key = wait.get("name"), wait.get("key")
    check_name(message, "wait_for.name", "name the message")
    if key is not None and key != "":
        check_name(key, "wait_for.key", "leave it out for a signal, or give a key", limit=MAX_KEY)
    count = dependencies.integer(wait, "count", least=1, most=MOST_MESSAGES, default=1) or 1
    waits = MessageWait(name, str(message), key or "", key is None, count)
    return Suspended([name], [*saved, _record(name, CallKind.WAIT, delay)], [waits])


def _saved(body: Mapping[str, Any]) -> list[NewRecord]:
    if "state" not in body:
        return []
    return [NewRecord("", CallKind.STEP, None, encode(body["state"], field="state", limit=PAYLOAD_LIMIT))]


def _record(name: str, kind: CallKind, delay: timedelta | None) -> NewRecord:
    return NewRecord(name, kind, None, waits=True, delay=delay)
