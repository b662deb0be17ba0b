"""The action of a step, its attempts and its timeouts, in every spelling."""

from datetime import timedelta
from typing import Any

import pytest

from windlass.core.definition.parser import parse
from windlass.core.jobs.retry import Backoff, Retry
from windlass.core.orgs import Role
from windlass.core.workflows.step import (
    Action,
    ApprovalAction,
    ChildAction,
    CommandAction,
    Escalation,
    EventAction,
    HookAction,
    HttpAction,
    JobAction,
    OnTimeout,
    SleepAction,
    Step,
)
from windlass.core.workflows.workflow import step_document

SECOND = timedelta(seconds=1)
JOB = {"job": "files.discover.v1"}


def only(step: dict[str, Any]) -> Step:
    return parse({"name": "w", "tasks": {"it": step}}).steps[0]


@pytest.mark.parametrize(
    ("step", "attempts"),
    [
        ({}, 3),
        ({"retries": 0}, 1),
        ({"retries": 3}, 4),
        ({"retry_attempts": 5}, 6),
        ({"max_attempts": 3}, 3),
        ({"max_retries": 3}, 3),
        ({"max_retries": 1}, 1),
        ({"max_retries": 0}, 1),
    ],
    ids=str,
)
def test_every_spelling_of_the_attempts_is_parsed(step: dict[str, Any], attempts: int) -> None:
    assert only({**JOB, **step}).max_attempts == attempts


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, Retry()),
        ({"kind": "constant", "base": 5}, Retry(Backoff.CONSTANT, base=5)),
        ({"base": "500ms", "cap": "1h"}, Retry(base=0.5, cap=3600)),
        ({"kind": "polynomial", "factor": 2, "jitter": 0}, Retry(Backoff.POLYNOMIAL, factor=2, jitter=0)),
        ({"cap": None}, Retry()),
    ],
    ids=str,
)
def test_retry_policies_are_parsed(policy: dict[str, Any], expected: Retry) -> None:
    assert only({**JOB, "retries": 3, "retry": policy}).retry == expected


@pytest.mark.parametrize(
    ("step", "timeout"),
    [
        ({**JOB}, None),
        ({**JOB, "timeout": 1500}, 1.5 * SECOND),
        ({**JOB, "timeout": "1m30s"}, 90 * SECOND),
        ({**JOB, "timeout_ms": 250}, SECOND / 4),
        ({"url": "https://x"}, 30 * SECOND),
        ({"url": "https://x", "timeout": None}, 30 * SECOND),
        ({"workflow": "other", "timeout": "1h"}, 3600 * SECOND),
    ],
    ids=str,
)
def test_timeouts_are_parsed(step: dict[str, Any], timeout: timedelta | None) -> None:
    assert only(step).timeout == timeout


@pytest.mark.parametrize(
    ("step", "action"),
    [
        ({"job": "a.b.v1"}, JobAction("a.b.v1", {}, "default", 100)),
        ({"job": "x", "input": [1], "queue": "q", "priority": 0}, JobAction("x", [1], "q", 0)),
        ({"job": "x", "input": None}, JobAction("x", None)),
        ({"url": "https://x", "method": "get"}, HttpAction("https://x", "GET")),
        ({"url": "HTTP://x.example:8080/a?b=c#d", "query": {"n": 1, "tag": ["a", "b"]}},
         HttpAction("HTTP://x.example:8080/a?b=c#d", query={"n": 1, "tag": ["a", "b"]})),
        ({"url": "https://{{ trigger.body.host }}/x"}, HttpAction("https://{{ trigger.body.host }}/x")),
        ({"url": "{{trigger.body.url}}"}, HttpAction("{{trigger.body.url}}")),
        ({"sleep": 90}, SleepAction(90 * SECOND)),
        ({"sleep": 0.5}, SleepAction(SECOND / 2)),
        ({"sleep": "0s"}, SleepAction(timedelta())),
        ({"wait_for_webhook": True}, HookAction()),
        ({"wait_for_webhook": {}}, HookAction()),
        ({"wait_for_webhook": {"timeout": 5000, "secret": "whsec_x"}}, HookAction(5 * SECOND, "whsec_x")),
        ({"wait_for_event": "paid"}, EventAction("paid")),
        ({"wait_for_event": {"name": "paid", "key": ""}}, EventAction("paid", "")),
        ({"wait_for_event": {"name": "paid", "key": "{{trigger.body.id}}", "timeout": "1m", "count": 3}},
         EventAction("paid", "{{trigger.body.id}}", 60 * SECOND, 3)),
        ({"approve": "Ship it?"}, ApprovalAction("Ship it?")),
        ({"approve": {"message": "Ship it?", "form": {"properties": {}}, "roles": ["admin", "admin"], "timeout": "1m"}},
         ApprovalAction("Ship it?", {"properties": {}}, (Role.ADMIN,), 60 * SECOND)),
        ({"approve": {"message": "?", "timeout": "1m", "on_timeout": "approve", "remind": "1m"}},
         ApprovalAction("?", timeout=60 * SECOND, on_timeout=OnTimeout.APPROVE, remind=60 * SECOND)),
        ({"approve": {"message": "?", "timeout": "1m", "on_timeout": {"escalate": {"roles": ["admin"]}}}},
         ApprovalAction("?", timeout=60 * SECOND, on_timeout=Escalation((Role.ADMIN,)))),
        ({"run": "make all"}, CommandAction("make all")),
        ({"run": "make", "runs_on": "local", "input": {"n": 1}}, CommandAction("make", input={"n": 1})),
        ({"workflow": "other.v2", "input": {"n": 1}}, ChildAction("other.v2", {"n": 1})),
    ],
    ids=str,
)  # fmt: skip
def test_every_kind_of_action_is_parsed(step: dict[str, Any], action: Action) -> None:
    assert only(step).action == action


def test_a_step_may_be_allowed_to_fail() -> None:
    step = only({"job": "a.b", "allow_failure": True})
    assert step.allow_failure
    assert step_document(step)["allow_failure"] is True
    assert not only({"job": "a.b"}).allow_failure
