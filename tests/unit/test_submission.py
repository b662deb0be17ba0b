"""Every error of a submission is an `Invalid` that names the field."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from windlass.core.jobs.retry import Retry
from windlass.core.jobs.spec import MAX_PRIORITY, JobSpec, advice, check
from windlass.errors import Invalid

GOOD = JobSpec(type="content.thumbnail.v1", payload={"content_id": "c_123"})
TOMORROW = datetime(2030, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"type": "x"},
        {"type": "t" * 255},
        {"type": "größe.messen.v1"},
        {"queue": "q" * 255},
        {"priority": -MAX_PRIORITY},
        {"priority": MAX_PRIORITY},
        {"priority": 0},
        {"run_at": TOMORROW},
        {"delay": timedelta()},
        {"delay": timedelta(days=1)},
        {"max_attempts": 1},
        {"max_attempts": 1000},
        {"retry": Retry()},
        {"timeout": timedelta(microseconds=1)},
        {"idempotency_key": "k" * 1024},
        {"tags": ["red", "green"]},
        {"tags": ("red",)},
        {"meta": {"trace": "1"}},
    ],
    ids=str,
)
def test_a_valid_submission_is_accepted(fields: dict[str, Any]) -> None:
    check(replace(GOOD, **fields))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"type": ""}, "type"),
        ({"type": "  "}, "type"),
        ({"type": None}, "type"),
        ({"type": 7}, "type"),
        ({"type": b"x"}, "type"),
        ({"type": "a\x00b"}, "type"),
        ({"type": "a\nb"}, "type"),
        ({"type": "\ud800"}, "type"),
        ({"type": "t" * 256}, "type"),
        ({"queue": ""}, "queue"),
        ({"queue": None}, "queue"),
        ({"queue": "q" * 256}, "queue"),
        ({"queue": "a\x00b"}, "queue"),
        ({"priority": MAX_PRIORITY + 1}, "priority"),
        ({"priority": -MAX_PRIORITY - 1}, "priority"),
        ({"priority": 10**20}, "priority"),
        ({"priority": "high"}, "priority"),
        ({"priority": 1.5}, "priority"),
        ({"priority": True}, "priority"),
        ({"priority": None}, "priority"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": -1}, "max_attempts"),
        ({"max_attempts": 1001}, "max_attempts"),
        ({"max_attempts": "3"}, "max_attempts"),
        ({"max_attempts": False}, "max_attempts"),
        ({"run_at": TOMORROW, "delay": timedelta(1)}, "run_at"),
        ({"run_at": TOMORROW.replace(tzinfo=None)}, "run_at"),
        ({"run_at": "tomorrow"}, "run_at"),
        ({"run_at": 1893456000}, "run_at"),
        ({"run_at": TOMORROW.date()}, "run_at"),
        ({"delay": timedelta(seconds=-1)}, "delay"),
        ({"delay": 5}, "delay"),
        ({"delay": "5 s"}, "delay"),
        ({"timeout": timedelta()}, "timeout"),
        ({"timeout": timedelta(seconds=-1)}, "timeout"),
        ({"timeout": 5}, "timeout"),
        ({"retry": {"kind": "constant"}}, "retry"),
        ({"retry": "constant"}, "retry"),
        ({"idempotency_key": ""}, "idempotency_key"),
        ({"idempotency_key": "k" * 1025}, "idempotency_key"),
        ({"idempotency_key": 5}, "idempotency_key"),
        ({"idempotency_key": "a\x00b"}, "idempotency_key"),
        ({"tags": [""]}, "tags"),
        ({"tags": [5]}, "tags"),
        ({"tags": ["a\x00"]}, "tags"),
        ({"tags": ["t" * 256]}, "tags"),
        ({"tags": "red"}, "tags"),
        ({"tags": None}, "tags"),
        ({"tags": 5}, "tags"),
        ({"meta": ["trace"]}, "meta"),
        ({"meta": "trace"}, "meta"),
    ],
    ids=str,
)
def test_the_error_of_an_invalid_submission_names_its_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid, match=field) as refusal:
        check(replace(GOOD, **fields))
    assert refusal.value.field == field


@pytest.mark.parametrize("type_", ["content.thumbnail.v1", "a.b.v0", "billing.eu.invoice.v12", "mein.gerät.v1"])
def test_a_versioned_type_causes_no_warning(type_: str) -> None:
    assert advice(type_) is None


@pytest.mark.parametrize("type_", ["x", "a.v1", "a.b", "a.b.v", "a..v1", ".a.v1", "a.b.v1 ", "a.b.V1", "a.b.v1.c"])
def test_any_other_type_causes_a_warning_that_names_it(type_: str) -> None:
    assert type_ in (advice(type_) or "")
