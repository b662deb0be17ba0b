"""Each error in a step is reported in one line, which names the key and the expected value."""

from typing import Any

import pytest

from windlass.core.definition.parser import parse, parse_stored
from windlass.core.workflows.step import CommandAction, Placement
from windlass.errors import InvalidWorkflow

JOB: dict[Any, Any] = {"job": "a.b.v1"}


def error_of(step: Any) -> str:
    """Return the one error of a step; the workflow has three other steps to refer to."""
    with pytest.raises(InvalidWorkflow) as refusal:
        parse({"name": "w", "tasks": {"a": JOB, "b": {**JOB, "needs": ["a"]}, "other": JOB, "it": step}})
    assert len(refusal.value.errors) == 1
    return str(refusal.value)


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (
            None,
            "tasks.it: it has no action: give one of job, url, sleep, wait_for_webhook, wait_for_event",
        ),
        ({}, "tasks.it: it has no action"),
        ({"method": "GET"}, "tasks.it: it has no action"),
        ([], "tasks.it: it is []: it must be an object"),
        ({"url": "https://x", "sleep": 1}, "tasks.it: it has both `url` and `sleep`: a step has one action"),
        ({"job": "x", "workflow": "y"}, "tasks.it: it has both `job` and `workflow`"),
        ({**JOB, "name": "else"}, "tasks.it.name: it is 'else': it must be 'it'"),
        ({**JOB, "retires": 3}, "tasks.it.retires: unknown key 'retires': did you mean 'retries'?"),
        ({**JOB, True: 1}, "tasks.it[true]: unknown key true: YAML 1.1"),
        ({**JOB, "timeotu": None}, "tasks.it.timeotu: unknown key"),
        ({**JOB, "url?\n": 1}, "tasks.it['url?\\n']: unknown key"),
        # keys of other steps
        ({"sleep": 1, "queue": "q"}, "tasks.it.queue: it belongs to `job` steps, but this is a `sleep` step"),
        ({"url": "https://x", "input": 1}, "tasks.it.input: it belongs to `job`, `run`, `workflow` steps"),
        ({**JOB, "body": 1}, "tasks.it.body: it belongs to `url` steps"),
        ({"sleep": 1, "parallel": 2}, "tasks.it.parallel: it belongs to `job`, `url`, `run`, `workflow` steps"),
        ({"wait_for_webhook": True, "foreach": "input"}, "tasks.it.foreach: it belongs to"),
        ({"wait_for_webhook": True, "timeout": 1}, "tasks.it.timeout: it belongs to"),
        ({"sleep": 1, "retries": 1}, "tasks.it.retries: it belongs to"),
        ({"workflow": "w", "retries": 1}, "tasks.it.retries: it belongs to `job`, `url`, `run` steps"),
        # actions
        ({"job": ""}, "tasks.it.job: it is '': it must be a string that is not empty"),
        ({"job": 5}, "tasks.it.job: it is 5"),
        ({"job": "a\nb"}, "tasks.it.job: it contains characters that cannot be printed"),
        ({"job": "x" * 256}, "tasks.it.job: it is 256 characters long, the limit is 255"),
        ({**JOB, "queue": []}, "tasks.it.queue: it is []"),
        ({**JOB, "priority": 1.5}, "tasks.it.priority: it is 1.5: it must be an integer"),
        ({**JOB, "priority": 10**7}, "tasks.it.priority: it is 10000000: it must be between"),
        ({"url": "ftp://x"}, "tasks.it.url: it is 'ftp://x': it must be a URL that begins with http://"),
        ({"url": "https://"}, "tasks.it.url: it is 'https://'"),
        ({"url": "https:///path"}, "tasks.it.url: it is 'https:///path'"),
        ({"url": "https://x y"}, "tasks.it.url: it is 'https://x y'"),
        ({"url": "x.example"}, "tasks.it.url: it is 'x.example'"),
        ({"url": "https://x/" + "y" * 9000}, "tasks.it.url: it is 9010 characters long"),
        ({"url": ["https://x"]}, "tasks.it.url: it is ['https://x']: it must be a string"),
        ({"url": "https://x", "method": "FETCH"}, "tasks.it.method: it is 'FETCH': it must be one of GET"),
        ({"url": "https://x", "method": 1}, "tasks.it.method: it is 1"),
        ({"url": "https://x", "headers": []}, "tasks.it.headers: it is []: it must be an object"),
        ({"url": "https://x", "headers": {"a b": "x"}}, "tasks.it.headers['a b']: it is not a valid header name"),
        ({"url": "https://x", "headers": {"n": 1}}, "tasks.it.headers.n: it must be a string of one line"),
        ({"url": "https://x", "headers": {"n": "a\r\nb"}}, "tasks.it.headers.n: it must be a string of one line"),
        ({"url": "https://x", "query": "a=b"}, "tasks.it.query: it is 'a=b': it must be an object"),
        ({"url": "https://x", "query": {"a": {}}}, "tasks.it.query.a: it is {}"),
        ({"url": "https://x", "query": {"a": [[]]}}, "tasks.it.query.a: it is [[]]"),
        ({"sleep": "3x"}, "tasks.it.sleep: it is '3x': it must be a number with a unit"),
        ({"sleep": -1}, "tasks.it.sleep: it is -1: it must be at least 0"),
        ({"sleep": 1e300}, "tasks.it.sleep: it is 1e+300"),
        ({"sleep": 10**400}, "tasks.it.sleep: it is 1000"),
        ({"sleep": True}, "tasks.it.sleep: it is true: it must be a number with a unit"),
        ({"sleep": "9" * 100 + "s"}, "tasks.it.sleep: it is '999"),
        ({"wait_for_event": True}, "tasks.it.wait_for_event: it is true: it must be a name or an object"),
        ({"wait_for_event": {"key": "42"}}, "tasks.it.wait_for_event.name: it is missing"),
        ({"wait_for_event": {"name": "paid", "key": 42}}, "tasks.it.wait_for_event.key: it is 42"),
        ({"wait_for_event": {"name": "paid", "count": 101}}, "tasks.it.wait_for_event.count: it is 101"),
        ({"wait_for_event": {"name": "paid", "keys": "42"}}, "tasks.it.wait_for_event.keys: unknown key 'keys'"),
        ({"wait_for_event": {"name": "{{tasks.it.body}}"}}, "tasks.it.wait_for_event.name: 'it' is the step itself"),
        ({"approve": True}, "tasks.it.approve: it is true: it must be a message or an object"),
        ({"approve": {"roles": ["admin"]}}, "tasks.it.approve.message: it is missing"),
        ({"approve": {"message": "?", "role": "admin"}}, "tasks.it.approve.role: unknown key 'role': did you mean"),
        ({"approve": {"message": "?", "roles": "admin"}}, "tasks.it.approve.roles: it is 'admin': it must be a list"),
        ({"approve": {"message": "?", "roles": []}}, "tasks.it.approve.roles: it is []"),
        ({"approve": {"message": "?", "roles": ["boss"]}}, "tasks.it.approve.roles: it is ['boss']"),
        ({"approve": {"message": "?", "form": [1]}}, "tasks.it.approve.form: it is [1]: it must be a JSON Schema"),
        ({"approve": {"message": "?", "form": {"type": "string"}}}, "tasks.it.approve.form: its type is 'string'"),
        ({"approve": {"message": "?", "form": {"properties": 1}}}, "tasks.it.approve.form: its properties must be"),
        ({"approve": {"message": "?", "remind": "1s"}}, "tasks.it.approve.remind: it is '1s': it must be at least 1m"),
        ({"approve": {"message": "?", "on_timeout": "approve"}}, "tasks.it.approve.on_timeout: it has no effect"),
        (
            {"approve": {"message": "?", "timeout": 9, "on_timeout": "wait"}},
            "tasks.it.approve.on_timeout: it is 'wait'",
        ),
        (
            {"approve": {"message": "?", "timeout": "1h", "on_timeout": {"escalate": {"timeout": "1h"}}}},
            "tasks.it.approve.on_timeout.escalate.roles: it is missing",
        ),
        (
            {"approve": {"message": "?", "timeout": "1h", "on_timeout": {}}},
            "tasks.it.approve.on_timeout.escalate: it is missing",
        ),
        ({"approve": "{{secrets.KEY}}"}, "tasks.it.approve.message: secrets.KEY cannot be used here"),
        ({"wait_for_webhook": False}, "tasks.it.wait_for_webhook: it is false: it must be true or an object"),
        ({"wait_for_webhook": "1h"}, "tasks.it.wait_for_webhook: it is '1h'"),
        ({"wait_for_webhook": {"timeout": 0}}, "tasks.it.wait_for_webhook.timeout: it is 0"),
        (
            {"wait_for_webhook": {"secret": 5}},
            "tasks.it.wait_for_webhook.secret: it must be a string of 1 to 1000 characters",
        ),
        (
            {"wait_for_webhook": {"time": 1}},
            "tasks.it.wait_for_webhook.time: unknown key 'time': did you mean 'timeout'?",
        ),
        ({"run": ""}, "tasks.it.run: it is ''"),
        ({"run": "x", "runs_on": "Mars!"}, "tasks.it.runs_on: it is 'Mars!': it must be local or the name of a pool"),
        ({"run": "x", "image": "python:3.12"}, "tasks.it.image: it is for steps on a pool: give runs_on, too"),
        ({"job": "a.v1", "runs_on": "gpu", "queue": "q"}, "tasks.it.queue: the jobs of this step wait for pool 'gpu'"),
        (
            {"run": "x", "runs_on": "gpu", "resources": {"memory": "much"}},
            "tasks.it.resources.memory: it is 'much': it must be an amount such as 512Mi or 4Gi",
        ),
        ({"run": "x", "runs_on": "gpu", "env": {"A": 1}}, "tasks.it.env.A: it is 1: it must be a string"),
        (
            {"run": "x", "runs_on": "gpu", "env": {"WINDLASS_HOME": "/"}},
            "tasks.it.env.WINDLASS_HOME: it is not a name that a variable may have here",
        ),
        ({"workflow": "a/b"}, "tasks.it.workflow: 'a/b' is not a valid workflow name"),
        # when it runs
        ({**JOB, "needs": ["ohter"]}, "tasks.it.needs: unknown step 'ohter': did you mean 'other'?"),
        ({**JOB, "needs": ["zzz"]}, "tasks.it.needs: unknown step 'zzz'"),
        ({**JOB, "needs": ["it"]}, "tasks.it.needs: the step needs itself"),
        ({**JOB, "needs": 5}, "tasks.it.needs: it is 5: it must be a list of step names"),
        ({**JOB, "needs": [5]}, "tasks.it.needs[0]: it is 5: it must be the name of a step"),
        ({**JOB, "needs": ["a", {"on": "failure"}]}, "tasks.it.needs[1]: the step is null"),
        ({**JOB, "needs": [{"step": "a", "on": "broken"}]}, "tasks.it.needs[0]: the condition is 'broken'"),
        ({**JOB, "needs": [{"step": "a", "if": "x"}]}, "tasks.it.needs[0].if: unknown key 'if'"),
        ({**JOB, "needs": {"a": "broken"}}, "tasks.it.needs.a: the condition is 'broken': it must be one of success"),
        ({**JOB, "needs": {"a": ["failure"]}}, "tasks.it.needs.a: the condition is ['failure']"),
        ({**JOB, "needs": {5: "failure"}}, "tasks.it.needs[5]: the step is 5"),
        ({**JOB, "needs": ["a"], "depends_on": ["a"]}, "tasks.it.depends_on: `needs` is given too"),
        ({**JOB, "needs": ["a"], "join": "or"}, "tasks.it.join: it is 'or': it must be one of all, any"),
        ({**JOB, "needs": ["a"], "on_failure": "stop"}, "tasks.it.on_failure: it is 'stop': it must be run or skip"),
        ({**JOB, "needs": {"a": "failure"}, "on_failure": "run"}, "tasks.it.on_failure: `needs` contradicts it"),
        ({**JOB, "if": True}, "tasks.it.if: it is true: it must be a string"),
        ({**JOB, "if": ""}, "tasks.it.if: it is ''"),
        ({**JOB, "if": "x" * 5000}, "tasks.it.if: it is 5000 characters long"),
        ({**JOB, "final": "yes"}, "tasks.it.final: it is 'yes': it must be true or false"),
        ({**JOB, "final": True, "needs": ["a"]}, "tasks.it.needs: a final step cannot have it"),
        ({**JOB, "final": True, "join": "any"}, "tasks.it.join: a final step cannot have it"),
        # fan-out
        ({**JOB, "parallel": -1}, "tasks.it.parallel: it is -1: it must be between 0 and"),
        ({**JOB, "parallel": 1.5}, "tasks.it.parallel: it is 1.5: it must be an integer"),
        ({**JOB, "parallel": []}, "tasks.it.parallel: it is []"),
        ({**JOB, "foreach": ["x"]}, "tasks.it.foreach: it is a list: give the path to one"),
        ({**JOB, "parallel": 2, "foreach": "input"}, "tasks.it.foreach: `parallel` is given too"),
        ({**JOB, "foreach": "a.files"}, "tasks.it.foreach: 'a' must run before this step: add it to `needs`"),
        ({**JOB, "needs": ["b"], "parallel": "other.n"}, "tasks.it.parallel: 'other' must run before this step"),
        ({**JOB, "foreach": "it.files"}, "tasks.it.foreach: 'it' must run before this step"),
        (
            {**JOB, "needs": ["a"], "foreach": "ohter.x"},
            "tasks.it.foreach: unknown step 'ohter': did you mean 'other'?",
        ),
        ({**JOB, "foreach": "imput.files"}, "tasks.it.foreach: unknown step 'imput': did you mean 'input'?"),
        ({**JOB, "needs": ["a"], "foreach": "a..files"}, "tasks.it.foreach: 'a..files' is not a path"),
        ({**JOB, "needs": ["a"], "foreach": "{{a.files}}"}, "tasks.it.foreach: '{{a.files}}' is not a path"),
        ({**JOB, "foreach": "input", "concurrency": 0}, "tasks.it.concurrency: it is 0: it must be between 1 and"),
        ({**JOB, "foreach": "input", "concurrency": "4"}, "tasks.it.concurrency: it is '4': it must be an integer"),
        ({**JOB, "concurrency": 4}, "tasks.it.concurrency: it limits the instances of a fanned-out step"),
        # attempts and timeouts
        ({**JOB, "retries": -1}, "tasks.it.retries: it is -1: it must be between 0 and 999"),
        ({**JOB, "retries": "3"}, "tasks.it.retries: it is '3': it must be an integer"),
        ({**JOB, "retry_attempts": True}, "tasks.it.retry_attempts: it is true"),
        ({**JOB, "max_attempts": 0}, "tasks.it.max_attempts: it is 0: it must be between 1 and 1000"),
        ({**JOB, "max_retries": 1001}, "tasks.it.max_retries: it is 1001"),
        ({**JOB, "retries": 1, "max_attempts": 2}, "tasks.it.retries: `max_attempts` is given too"),
        ({**JOB, "retry": 3}, "tasks.it.retry: it is 3: it must be an object"),
        ({**JOB, "retry": {"delay": 3}}, "tasks.it.retry.delay: unknown key 'delay'"),
        ({**JOB, "retry": {"kind": "square"}}, "tasks.it.retry.kind: it is 'square': one of constant, linear"),
        ({**JOB, "retry": {"kind": []}}, "tasks.it.retry.kind: it is []"),
        ({**JOB, "retry": {"base": "soon"}}, "tasks.it.retry.base: it is 'soon': it must be a number with a unit"),
        ({**JOB, "retry": {"base": -1}}, "tasks.it.retry.base: it is -1: it must be 0 or more seconds"),
        ({**JOB, "retry": {"factor": 0}}, "tasks.it.retry.factor: it is 0: it must be greater than 0"),
        ({**JOB, "retry": {"cap": []}}, "tasks.it.retry.cap: it is []"),
        ({**JOB, "retry": {"jitter": 2}}, "tasks.it.retry.jitter: it is 2: it must be between 0 and 1"),
        ({**JOB, "timeout": 0}, "tasks.it.timeout: it is 0: it must be positive"),
        ({**JOB, "timeout": 1e-9}, "tasks.it.timeout: it is 1e-09: it must be positive"),
        ({**JOB, "timeout": "30"}, "tasks.it.timeout: it is '30': it must be a number with a unit"),
        ({**JOB, "timeout_ms": "30s"}, "tasks.it.timeout_ms: it is '30s': it must be a number of milliseconds"),
        ({**JOB, "timeout": 1, "timeout_ms": 1}, "tasks.it.timeout_ms: `timeout` is given too"),
    ],
    ids=lambda value: str(value)[:80],
)
def test_an_invalid_step_is_refused_with_its_key(step: Any, line: str) -> None:
    assert error_of(step).startswith(line)


@pytest.mark.parametrize(
    "step",
    [
        {"url": "https://x", "headers": {"Authorization": "Bearer s3cret\n"}},
        {"wait_for_webhook": {"secret": ["s3cret"]}},
        {"wait_for_webhook": {"secret": "s3cret" * 1000}},
    ],
    ids=lambda value: str(value)[:60],
)
def test_error_messages_contain_no_secrets(step: Any) -> None:
    assert "s3cret" not in error_of(step)


def test_a_stored_version_with_an_unknown_pool_still_loads() -> None:
    workflow = parse_stored({"name": "w", "tasks": {"it": {"run": "x", "runs_on": "ray"}}})
    assert workflow.steps[0].action == CommandAction("x", Placement(runs_on="ray"))
