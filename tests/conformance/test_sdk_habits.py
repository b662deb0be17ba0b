"""The requests and expectations of the published SDKs, so that they can be used unmodified."""

import httpx
import pytest

from tests.conformance.ojs_client import OjsClient

pytestmark = pytest.mark.asyncio(loop_scope="module")

# The Python SDK parses a body only if its media type is application/json; it is configured to accept that.
PYTHON = {
    "content-type": "application/openjobspec+json",
    "accept": "application/json",
    "ojs-version": "1.0",
    "x-request-id": "018f-sdk",
}
GO = {
    "content-type": "application/openjobspec+json",
    "accept": "application/openjobspec+json",
    "ojs-version": "1.0",
    "user-agent": "ojs-go-sdk",
}


async def call(ojs: OjsClient, headers: dict[str, str], method: str, path: str, body: object = None) -> httpx.Response:
    answer = await ojs.http.request(method, f"/ojs/v1{path}", json=body, headers=headers)
    assert answer.headers["content-type"] == headers["accept"]
    return answer


async def test_requests_of_the_python_client_and_worker_succeed(ojs: OjsClient) -> None:
    enqueue = {
        "type": "email.send",
        "args": ["user@example.com"],
        "options": {
            "queue": "mail", "priority": 5, "timeout_ms": 30000, "tags": ["x"],
            "retry": {"max_attempts": 5, "initial_interval": "PT1S", "backoff_coefficient": 2.0,
                      "max_interval": "PT5M", "jitter": True, "non_retryable_errors": [], "on_exhaustion": "discard"},
            "unique": {"key": ["type", "queue", "args"], "period": "PT1H", "states": ["available", "active"],
                       "on_conflict": "ignore"},
        },
    }  # fmt: skip
    made = await call(ojs, PYTHON, "POST", "/jobs", enqueue)
    assert made.status_code == 201
    assert made.headers["x-request-id"] == "018f-sdk"
    job = made.json()["job"]
    assert (job["id"], job["type"], job["state"]) == (job["id"], "email.send", "available")
    assert (await call(ojs, PYTHON, "POST", "/jobs", enqueue)).json()["job"]["id"] == job["id"]
    assert None not in job.values()

    fetch = {"queues": ["mail"], "count": 1, "worker_id": "w-1", "visibility_timeout_ms": 30000}
    [fetched] = (await call(ojs, PYTHON, "POST", "/workers/fetch", fetch)).json()["jobs"]
    beat = {"worker_id": "w-1", "state": "running", "active_jobs": [fetched["id"]]}
    assert (await call(ojs, PYTHON, "POST", "/workers/heartbeat", beat)).json()["state"] == "running"
    nack = {
        "job_id": fetched["id"],
        "error": {
            "code": "handler_error",
            "message": "boom",
            "retryable": True,
            "details": {"error_class": "ValueError", "traceback": "..."},
        },
    }
    assert (await call(ojs, PYTHON, "POST", "/workers/nack", nack)).json()["state"] == "retryable"
    again = await call(ojs, PYTHON, "POST", "/workers/nack", nack)  # the SDK repeats a report up to three times
    assert (again.status_code, again.json()["error"]["code"]) == (409, "conflict")
    assert (await call(ojs, PYTHON, "POST", "/workers/fetch", fetch)).json() == {"jobs": []}

    for path in ("/queues/mail/pause", "/queues/mail/resume"):  # without a body
        assert (await call(ojs, PYTHON, "POST", path)).status_code == 200
    stats = (await call(ojs, PYTHON, "GET", "/queues/mail/stats")).json()
    assert "queue" in stats
    assert isinstance(stats["stats"], dict)
    listed = (await call(ojs, PYTHON, "GET", "/queues?limit=50&offset=0")).json()
    assert "default" in [queue["name"] for queue in listed["queues"]]
    missing = await call(ojs, PYTHON, "GET", "/jobs/01962222-bbbb-7ccc-8ddd-eeeeeeeeeeee")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")
    assert (await ojs.http.get("/ojs/manifest", headers=PYTHON)).json()["implementation"]["name"] == "windlass"
    assert (await call(ojs, PYTHON, "GET", "/health")).json()["status"] == "ok"


async def test_requests_of_the_go_client_and_worker_succeed(ojs: OjsClient) -> None:
    batch = {"jobs": [{"type": "a.b", "args": [n], "options": {"queue": "go"}} for n in range(3)]}
    made = (await call(ojs, GO, "POST", "/jobs/batch", batch)).json()
    assert [job["args"] for job in made["jobs"]] == [[0], [1], [2]]
    fetch = {"queues": ["go"], "count": 10, "worker_id": "go-1"}
    jobs = (await call(ojs, GO, "POST", "/workers/fetch", fetch)).json()["jobs"]
    for job in jobs:
        ack = {"job_id": job["id"], "worker_id": "go-1", "result": {"n": job["args"][0]}}
        told = (await call(ojs, GO, "POST", "/workers/ack", ack)).json()
        assert (told["acknowledged"], told["job_id"]) == (True, job["id"])
    cron = {"name": "nightly", "cron": "0 2 * * *", "timezone": "UTC", "type": "a.b", "args": []}
    assert (await call(ojs, GO, "POST", "/cron", cron)).status_code == 201
    assert (await call(ojs, GO, "GET", "/cron?limit=10&offset=0")).json()["cron_jobs"][0]["name"] == "nightly"
    assert (await call(ojs, GO, "DELETE", "/cron/nightly")).status_code == 200
    assert (await call(ojs, GO, "GET", "/dead-letter?limit=10&offset=0")).json()["jobs"] == []
