"""Every route of the Open Job Spec with hostile bodies: a 4xx in the form of the spec, and no row is written or
changed. Also valid bodies with one invalid value: no route fails with a 500."""

import copy
import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pytest

from tests.conformance.ojs_client import MEDIA_TYPE, Json, OjsClient, of_app
from tests.web.test_hostile_bodies import HOSTILE, JSON, MORE, WRONG_TYPES, hung_up, pieces, state
from windlass import Windlass
from windlass.web.ojs import routes as ojs_routes
from windlass.web.ojs.responses import PREFIX

REPEATED_KEY = "a key twice"  # the last one counts
LARGE = {"/jobs/batch": 9, "/workers/nack": 9, "/workers/logs": 9, "/workers/ack": 18, "/jobs/{id}/steps": 18}  # MiB
LARGE |= {"/jobs/{id}/ack": 18, "/jobs/{id}/nack": 9, "/workflows": 18}
SUBSCRIPTION: Json = {"url": "https://example.com/hook", "events": ["job.completed"], "secret": "s" * 32}
HELD: Json = {"worker_id": "w", "fence": 1}
LINE: Json = {"job_id": "{job}", "fence": 1, "at": "2026-07-01T12:00:00Z", "level": "info", "message": "m"}
OPTIONS: Json = {
    "queue": "default", "priority": 1, "timeout_ms": 1000, "delay_until": "+PT1S", "expires_at": "+PT9S", "tags": ["a"],
    "retry": {"max_attempts": 3, "initial_interval": "PT1S", "backoff_coefficient": 2.0, "max_interval": "PT5M",
              "jitter": True, "non_retryable_errors": ["x"], "on_exhaustion": "discard"},
    "unique": {"keys": ["type"], "period": "PT1M", "on_conflict": "reject"},
    "metadata": {"a": 1},
}  # fmt: skip
JOB: Json = {"type": "known.v1", "args": [{"a": 1}], "meta": {"a": 1}, "options": OPTIONS}
STEP: Json = {"id": "a", "name": "a", "type": "known.v1", "args": [1], "depends_on": []}
# A valid body for every route that takes one. {job} is a job that worker w holds.
VALID_BODIES: dict[str, list[Json]] = {
    "POST /jobs": [JOB],
    "POST /jobs/batch": [{"jobs": [{"type": "known.v1", "args": [1], "options": {"priority": 1}}]}],
    "POST /workers/fetch": [
        {**HELD, "queues": ["other"], "count": 1, "types": ["x"], "visibility_timeout_ms": 1000, "wait_ms": 0}
    ],
    "POST /workers/ack": [{"worker_id": "w", "jobs": [{"job_id": "{job}", "fence": 1, "result": {"a": 1}}]}],
    "POST /workers/nack": [
        {
            "worker_id": "w",
            "jobs": [
                {
                    "job_id": "{job}",
                    "fence": 1,
                    "error": {"code": "c", "type": "t", "message": "m", "retryable": True, "details": {"a": 1}},
                    "requeue": False,
                    "delay_ms": 5,
                }
            ],
        }
    ],
    "POST /jobs/{id}/ack": [{**HELD, "result": [1]}],
    "POST /jobs/{id}/nack": [{**HELD, "error": {"code": "c", "message": "m", "details": {"error_class": "x"}}}],
    "POST /workers/suspend": [
        {**HELD, "job_id": "{job}", "for_ms": 5, "state": {"a": 1}, "wait_for": {"name": "n", "key": "k", "count": 1}}
    ],
    "POST /workers/heartbeat": [
        {"worker_id": "w", "active_jobs": ["{job}"], "state": "running", "visibility_timeout_ms": 60_000}
    ],
    "POST /workers/beat": [{"worker_id": "w", "state": "running", "active_jobs": 3}],
    "POST /workers/progress": [{**HELD, "job_id": "{job}", "percentage": 50, "message": "m", "data": {"a": 1}}],
    "PUT /jobs/{id}/progress": [{**HELD, "progress": 0.5, "message": "m", "data": {"a": 1}}],
    "POST /jobs/{id}/steps": [{**HELD, "steps": [{"name": "a", "value": 1}]}],
    "POST /workers/logs": [{"worker_id": "w", "lines": [LINE]}],
    "PUT /jobs/{id}/checkpoint": [{**HELD, "state": {"a": 1}}],
    "PUT /checkpoints/{id}": [{"state": {"a": 1}, "step_index": 1, "metadata": {}}],
    "POST /cron": [
        {
            "name": "c",
            "expression": "0 5 * * *",
            "timezone": "UTC",
            "overlap_policy": "skip",
            "enabled": True,
            "job_template": {"type": "known.v1", "args": [1], "options": {"queue": "other", "priority": 1}},
        }
    ],
    "POST /workflows": [
        {"type": "chain", "name": "w", "steps": [{"type": "known.v1", "args": [1], "options": {"priority": 1}}]},
        {"type": "group", "jobs": [{"type": "known.v1", "args": [1]}]},
        {
            "type": "batch",
            "jobs": [{"type": "known.v1", "args": []}],
            "callbacks": {"on_complete": {"type": "known.v1", "args": []}},
        },
        {"name": "dag", "steps": [STEP, {**STEP, "id": "b", "name": "b", "depends_on": ["a"]}]},
    ],
    "POST /admin/jobs/bulk/retry": [{"confirm": True, "filter": {"state": "discarded", "type": "x", "queue": "q"}}],
    "POST /admin/jobs/bulk/cancel": [
        {"confirm": True, "filter": {"queue": "none", "since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z"}}
    ],
    "PUT /admin/queues/{name}/config": [
        {"backpressure": {"strategy": "reject", "max_depth": 5, "warning_threshold": 0.5}, "more": {"a": 1}}
    ],
    "POST /schemas": [{"type": "t", "version": "1.0.0", "schema": {"type": "object"}, "uri": "u", "mode": "warn"}],
    "PUT /schemas/{type}/{version}": [{"schema": {"type": "object"}}],
    "POST /webhooks/subscriptions": [{**SUBSCRIPTION, "filter": {"queues": ["q"], "job_types": ["t"]}, "metadata": {}}],
    "PATCH /webhooks/subscriptions/{id}": [{"events": ["job.failed"], "active": True, "metadata": {"a": 1}}],
    "POST /webhooks/subscriptions/{id}/rotate-secret": [{"secret": "t" * 32}],
}
# The same handlers under another path or method.
SAME = {
    "POST /jobs/{id}/progress", "POST /jobs/{id}/checkpoint", "POST /checkpoints/{id}",
    "PUT /ojs/v1/checkpoints/{id}", "POST /ojs/v1/checkpoints/{id}", "POST /admin/schemas",
    "PUT /admin/schemas/{type}/{version}", "PUT /webhooks/subscriptions/{id}",
    "POST /webhooks/subscriptions/{id}/rotate",
}  # fmt: skip
BODILESS = {
    "DELETE /jobs/{id}", "POST /jobs/{id}/cancel", "POST /jobs/{id}/activate", "POST /dead-letter/{id}/retry",
    "DELETE /dead-letter/{id}", "DELETE /jobs/{id}/checkpoint", "DELETE /checkpoints/{id}",
    "DELETE /ojs/v1/checkpoints/{id}", "DELETE /cron/{name}", "POST /queues/{name}/pause", "POST /queues/{name}/resume",
    "POST /admin/queues/{name}/pause", "POST /admin/queues/{name}/resume", "DELETE /admin/workers/{id}",
    "POST /admin/workers/{id}/{directive}", "DELETE /workflows/{id}", "DELETE /webhooks/subscriptions/{id}",
    "POST /webhooks/subscriptions/{id}/test", "DELETE /schemas/{type}/{version}",
    "DELETE /admin/schemas/{type}/{version}", "DELETE /schemas/{type:path}", "POST /admin/jobs/{id}/cancel",
    "POST /admin/jobs/{id}/retry", "DELETE /admin/dead-letter/{id}", "POST /admin/dead-letter/{id}/retry",
    "POST /admin/reset",
}  # fmt: skip
NESTED: Any = 1
for _ in range(60):
    NESTED = [NESTED]
WRONG: list[Any] = [
    None, True, -1, 0.5, 1e308, 2**63, 10**30, "", "\n", "%\\_", "\u202eé", "x" * 9000, "9999-12-31T23:59:59-23:59",
    "0001-01-01T00:00:00+23:59", "P99999999999D", [], {}, {"": [{}]}, ["x"] * 1001, NESTED,
]  # fmt: skip


def writing() -> set[str]:
    return {
        f"{method} {route.path}" for route in ojs_routes.ROUTES for method in (route.methods or set()) - {"GET", "HEAD"}
    }


def test_every_route_that_writes_is_listed_here() -> None:
    assert writing() == VALID_BODIES.keys() | SAME | BODILESS


async def held_job(ojs: OjsClient) -> str:
    """A job that the worker w holds under fence 1."""
    queue = uuid4().hex
    await ojs.push(queue=queue)
    return str((await ojs.one(queue, worker_id="w", visibility_timeout_ms=600_000))["id"])


def place(path: str, **names: str) -> str:
    known = {"name": "q", "type": "t", "version": "1.0.0", "directive": "quiet", **names}
    return re.sub(r"\{(\w+)(:path)?\}", lambda match: known[match[1]], path)


async def refused(answer: httpx.Response, *statuses: int) -> Json:
    assert answer.status_code in statuses, answer.text
    assert answer.headers["content-type"] == MEDIA_TYPE
    error: Json = answer.json()["error"]
    assert error["message"]
    return error


async def test_hostile_bodies_are_refused_and_write_nothing(app: Windlass, conn: "asyncpg.Connection[Any]") -> None:
    async with of_app(app) as ojs:
        job = await held_job(ojs)
        subscription = (await ojs.ask("POST", "/webhooks/subscriptions", SUBSCRIPTION, 201))["id"]
        before = await state(conn)
        for route in sorted(VALID_BODIES.keys() | SAME):
            method, path = route.split()
            url = PREFIX + place(path, id=subscription if "subscriptions" in path else job)
            for name, (body, _, reason) in HOSTILE.items():
                if name == REPEATED_KEY:
                    continue
                error = await refused(await ojs.http.request(method, url, content=body, headers=JSON), 400)
                assert (route, error["code"]) == (route, "invalid_payload"), (name, error)
                assert reason in error["message"], (route, name)
            for media, body in WRONG_TYPES.items():
                headers = {"content-type": media} if media else {}
                await refused(await ojs.http.request(method, url, content=body, headers=headers), 400, 415)
            for body in (b"[]", b'"text"', b"7", b"true", b"null", b'{"jobs": [{"job_id": {"$gt": 1}}], "a": NaN}'):
                await refused(await ojs.http.request(method, url, content=body, headers=JSON), 400)
            size = LARGE.get(path, 0) * 1_048_576 or MORE
            await refused(await ojs.http.request(method, url, content=pieces(size), headers=JSON), 413)
            await hung_up(ojs.http, method, url)
            assert await state(conn) == before, route


async def test_a_body_causes_no_server_error_in_routes_without_one(app: Windlass) -> None:
    async with of_app(app) as ojs:
        job = await held_job(ojs)
        for route in sorted(BODILESS):
            method, path = route.split()
            for body in (b"[" * 100_000, b'{"a": NaN}', b"\xff"):
                answer = await ojs.http.request(method, PREFIX + place(path, id=job), content=body, headers=JSON)
                assert answer.status_code < 500, (route, answer.text)


def changed(value: Any, places: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the path of every value within a document, with the value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield (*places, key), child
        yield from changed(child, (*places, key))


def replaced(document: Json, where: tuple[Any, ...], value: Any) -> Json:
    copied: Any = copy.deepcopy(document)
    parent = copied
    for key in where[:-1]:
        parent = parent[key]
    parent[where[-1]] = value
    result: Json = copied
    return result


def filled(part: Any, job: str) -> Any:
    if isinstance(part, dict):
        return {key: filled(value, job) for key, value in part.items()}
    if isinstance(part, list):
        return [filled(value, job) for value in part]
    return job if part == "{job}" else part


@pytest.mark.parametrize("route", sorted(VALID_BODIES))
async def test_one_invalid_value_never_causes_a_server_error(app: Windlass, route: str) -> None:
    method, path = route.split()
    async with of_app(app) as ojs:
        for right in VALID_BODIES[route]:
            job = await held_job(ojs)
            subscription = (await ojs.ask("POST", "/webhooks/subscriptions", SUBSCRIPTION, 201))["id"]
            answer = await ojs.http.request(
                method,
                PREFIX + place(path, id=subscription if "subscriptions" in path else job),
                json=filled(right, job),
            )
            assert answer.status_code < 300, answer.text
            for where, _ in list(changed(right)):
                for wrong in WRONG:
                    if answer.status_code < 300 and path.endswith(("ack", "suspend")):
                        job = await held_job(ojs)  # the one before may have ended
                    url = PREFIX + place(path, id=subscription if "subscriptions" in path else job)
                    answer = await ojs.http.request(method, url, json=filled(replaced(right, where, wrong), job))
                    assert answer.status_code < 500, (where, wrong, answer.text)
                    assert "backend_error" not in answer.text, (where, wrong, answer.text)
