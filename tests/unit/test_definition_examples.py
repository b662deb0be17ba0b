"""The examples of the reference and of seed 001, unchanged, and the workflows that they define."""

import json
from datetime import timedelta
from typing import Any

from windlass.core.definition.parser import parse
from windlass.core.workflows.step import (
    ChildAction,
    CommandAction,
    Condition,
    Edge,
    Foreach,
    HookAction,
    HttpAction,
    JobAction,
    SleepAction,
    Step,
)
from windlass.core.workflows.workflow import CronTrigger, Workflow

SECOND = timedelta(seconds=1)


def http(name: str, url: str, body: Any = None, **more: Any) -> Step:
    """An HTTP step with the defaults of seed 001."""
    usual: dict[str, Any] = {"max_attempts": 6, "timeout": 30 * SECOND}
    return Step(name=name, action=HttpAction(url, body=body), **usual | more)


def test_the_example_of_the_reference_is_parsed() -> None:
    document = {
        "name": "order-processing",
        "trigger": {"cron": "0 2 * * *", "timezone": "Europe/Berlin", "input": {"bucket": "landing"}},
        "max_duration": "30d",
        "tasks": {
            "discover": {"job": "files.discover.v1", "input": {"bucket": "{{trigger.body.bucket}}"}},
            "process": {
                "needs": ["discover"],
                "foreach": "discover.files",
                "concurrency": 4,
                "job": "files.process.v1",
            },
            "charge": {
                "needs": ["process"],
                "url": "https://shop.example/charge",
                "method": "POST",
                "body": {"n": "{{tasks.discover.body.count}}"},
                "retries": 3,
            },
            "cool-down": {"needs": ["charge"], "sleep": "30s"},
            "paid": {"needs": ["cool-down"], "wait_for_webhook": {"timeout": "1h"}},
            "report": {
                "needs": ["paid"],
                "if": "tasks.paid.body.status == 'paid'",
                "workflow": "monthly-report",
            },
            "clean": {"final": True, "run": "./clean.sh", "runs_on": "local"},
        },
    }
    assert parse(document) == Workflow(
        name="order-processing",
        trigger=CronTrigger("0 2 * * *", "Europe/Berlin", {"bucket": "landing"}),
        max_duration=timedelta(days=30),
        steps=(
            Step(
                name="discover",
                action=JobAction("files.discover.v1", {"bucket": "{{trigger.body.bucket}}"}),
                max_attempts=3,
            ),
            Step(
                name="process",
                action=JobAction("files.process.v1"),
                max_attempts=3,
                edges=(Edge("discover"),),
                fan_out=Foreach("discover.files"),
                concurrency=4,
            ),
            http(
                "charge",
                "https://shop.example/charge",
                {"n": "{{tasks.discover.body.count}}"},
                edges=(Edge("process"),),
                max_attempts=4,
            ),
            Step(name="cool-down", action=SleepAction(30 * SECOND), edges=(Edge("charge"),)),
            Step(name="paid", action=HookAction(timedelta(hours=1)), edges=(Edge("cool-down"),)),
            Step(
                name="report",
                action=ChildAction("monthly-report"),
                edges=(Edge("paid", Condition.COMPLETE),),
                condition="tasks.paid.body.status == 'paid'",
            ),
            Step(name="clean", action=CommandAction("./clean.sh"), final=True, max_attempts=3),
        ),
    )


ORDER_PROCESSING = """{
  "name": "order-processing",
  "trigger": "api",
  "tasks": {
    "charge": {
      "url": "https://myapp.com/api/charge",
      "method": "POST",
      "body": { "order_id": "{{trigger.body.order_id}}" }
    },
    "send-receipt": {
      "needs": ["charge"],
      "if": "tasks.charge.status_code == 200",
      "url": "https://myapp.com/api/send-receipt",
      "method": "POST",
      "body": { "order_id": "{{trigger.body.order_id}}", "amount": "{{tasks.charge.body.amount}}" }
    },
    "notify-warehouse": {
      "needs": ["charge"],
      "if": "tasks.charge.status_code == 200",
      "url": "https://myapp.com/api/ship",
      "method": "POST"
    },
    "handle-failure": {
      "needs": ["charge"],
      "if": "tasks.charge.status_code != 200",
      "url": "https://myapp.com/api/payment-failed",
      "method": "POST"
    }
  }
}"""
TRIAL_EXPIRY = """{
  "name": "trial-expiry",
  "trigger": "api",
  "tasks": {
    "start-trial": {
      "url": "https://myapp.com/api/activate-trial",
      "method": "POST",
      "body": { "user_id": "{{trigger.body.user_id}}" }
    },
    "wait-13-days": { "needs": ["start-trial"], "sleep": "13d" },
    "send-reminder": {
      "needs": ["wait-13-days"],
      "url": "https://myapp.com/api/send-email",
      "method": "POST",
      "body": { "template": "trial-ending-soon", "user_id": "{{trigger.body.user_id}}" }
    },
    "wait-1-day": { "needs": ["send-reminder"], "sleep": "1d" },
    "expire-trial": {
      "needs": ["wait-1-day"],
      "url": "https://myapp.com/api/expire-trial",
      "method": "POST",
      "body": { "user_id": "{{trigger.body.user_id}}" }
    }
  }
}"""
CHECKOUT_FLOW = """{
  "name": "checkout-flow",
  "trigger": "api",
  "tasks": {
    "create-checkout": {
      "url": "https://myapp.com/api/create-checkout",
      "method": "POST",
      "body": { "amount": "{{trigger.body.amount}}", "callback_url": "{{wait.payment-result.url}}" }
    },
    "payment-result": { "needs": ["create-checkout"], "wait_for_webhook": { "timeout": "1h" } },
    "fulfill-order": {
      "needs": ["payment-result"],
      "if": "tasks.payment-result.body.status == 'paid'",
      "url": "https://myapp.com/api/fulfill",
      "method": "POST",
      "body": { "payment_id": "{{tasks.payment-result.body.payment_id}}" }
    },
    "handle-timeout": {
      "needs": ["payment-result"],
      "if": "tasks.payment-result.status == 'timeout'",
      "url": "https://myapp.com/api/checkout-expired",
      "method": "POST"
    }
  }
}"""


def test_seed_001_parallel_tasks_with_conditions() -> None:
    after, api = (Edge("charge", Condition.COMPLETE),), "https://myapp.com/api"
    good, bad = "tasks.charge.status_code == 200", "tasks.charge.status_code != 200"
    order = "{{trigger.body.order_id}}"
    assert parse(json.loads(ORDER_PROCESSING)) == Workflow(
        "order-processing",
        (
            http("charge", f"{api}/charge", {"order_id": order}),
            http(
                "send-receipt",
                f"{api}/send-receipt",
                {"order_id": order, "amount": "{{tasks.charge.body.amount}}"},
                edges=after,
                condition=good,
            ),
            http("notify-warehouse", f"{api}/ship", edges=after, condition=good),
            http("handle-failure", f"{api}/payment-failed", edges=after, condition=bad),
        ),
    )


def test_seed_001_delayed_follow_up() -> None:
    user, api = {"user_id": "{{trigger.body.user_id}}"}, "https://myapp.com/api"
    reminder = {"template": "trial-ending-soon", **user}
    assert parse(json.loads(TRIAL_EXPIRY)) == Workflow(
        "trial-expiry",
        (
            http("start-trial", f"{api}/activate-trial", user),
            Step(name="wait-13-days", action=SleepAction(timedelta(days=13)), edges=(Edge("start-trial"),)),
            http("send-reminder", f"{api}/send-email", reminder, edges=(Edge("wait-13-days"),)),
            Step(name="wait-1-day", action=SleepAction(timedelta(days=1)), edges=(Edge("send-reminder"),)),
            http("expire-trial", f"{api}/expire-trial", user, edges=(Edge("wait-1-day"),)),
        ),
    )


def test_seed_001_payment_with_a_callback() -> None:
    workflow = parse(json.loads(CHECKOUT_FLOW))
    after = (Edge("payment-result", Condition.COMPLETE),)
    assert [step.edges for step in workflow.steps] == [(), (Edge("create-checkout"),), after, after]
    assert workflow.steps[1].action == HookAction(timedelta(hours=1))
    assert workflow.steps[3].condition == "tasks.payment-result.status == 'timeout'"


def test_seed_001_the_body_of_a_create_request() -> None:
    charge = {
        "url": "https://myapp.com/api/charge",
        "headers": {"Authorization": "Bearer {{trigger.body.token}}"},
        "retries": 3,
        "timeout": 30000,
    }
    (step,) = parse({"name": "w", "tasks": {"charge": charge}}).steps
    headers = {"Authorization": "Bearer {{trigger.body.token}}"}
    assert step.action == HttpAction("https://myapp.com/api/charge", headers=headers)
    assert (step.max_attempts, step.timeout) == (4, 30 * SECOND)
