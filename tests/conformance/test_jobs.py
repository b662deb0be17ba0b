"""Jobs: the envelope and its validation errors, the eight states, cancel and activate."""

from typing import Any

import pytest

from tests.conformance.ojs_client import OjsClient

pytestmark = pytest.mark.asyncio(loop_scope="module")

OLD = "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f"
WRONG: list[dict[str, Any]] = [
        {"type": "Email.Send"}, {"type": ""}, {"type": None}, {"type": "a." * 200}, {"args": {}}, {"args": None},
        {"id": ""}, {"id": "550e8400-e29b-41d4-a716-446655440000"}, {"id": OLD.upper()}, {"meta": []}, {"schema": 1},
        {"options": []}, {"options": {"queue": "Nope!"}}, {"options": {"queue": "windlass"}},
        {"options": {"priority": 101}}, {"options": {"priority": True}}, {"options": {"timeout_ms": 0}},
        {"options": {"scheduled_at": "2030-01-01T00:00:00"}}, {"options": {"scheduled_at": "+5"}},
        {"options": {"expires_at": "soon"}}, {"options": {"tags": "a"}}, {"options": {"pending": 1}},
        {"options": {"unique": {"keys": ["meta"]}}}, {"options": {"unique": {"states": ["gone"]}}},
        {"options": {"unique": {"on_conflict": "shout"}}}, {"options": {"unique": {"period": "1h"}}},
        {"options": {"rate_limit": {}}}, {"options": {"rate_limit": {"max_per_second": 0}}},
]  # fmt: skip


async def test_a_job_is_returned_as_requested_with_the_fields_that_the_server_adds(ojs: OjsClient) -> None:
    asked = {
        "type": "report.make-pdf",
        "args": [3.14, None, {"deep": [1, [2]]}, "ü"],
        "meta": {"trace_id": "abc"},
        "schema": "urn:report",
        "x_custom": {"kept": True},
        "state": "completed",
        "options": {"queue": "reports", "priority": 7, "timeout_ms": 60000, "tags": ["a"], "metadata": {"k": 1}},
    }
    made = (await ojs.ask("POST", "/jobs", asked, 201))["job"]
    wanted = {"queue": "reports", "priority": 7, "state": "available", "attempt": 0, "max_attempts": 3, "tags": ["a"]}
    for found in (made, await ojs.get(made)):
        assert {name: found[name] for name in wanted} == wanted
        assert [found[name] for name in ("args", "meta", "schema", "x_custom")] == [
            asked[name] for name in ("args", "meta", "schema", "x_custom")
        ]
        assert found["timeout_ms"] == 60000
        assert found["options"]["metadata"] == {"k": 1}
        assert found["enqueued_at"] == found["created_at"]
        assert not found.keys() & {"started_at", "completed_at", "error", "errors", "result", "scheduled_at"}
    [handed_out] = await ojs.fetch("reports")
    assert handed_out["x_custom"] == {"kept": True}
    assert (handed_out["state"], handed_out["attempt"]) == ("active", 1)
    assert handed_out["started_at"]


async def test_invalid_jobs_are_rejected_and_nothing_is_written(ojs: OjsClient) -> None:
    for change in WRONG:
        body = {name: value for name, value in {"type": "a.b", "args": [], **change}.items() if value is not None}
        await ojs.refused("POST", "/jobs", body, 400, "invalid_request")
        both = {"jobs": [{"type": "ok", "args": []}, body]}
        assert "jobs[1]" in (await ojs.refused("POST", "/jobs/batch", both, 400, "invalid_request"))["message"]
    assert await ojs.fetch() == []


async def test_invalid_retry_policies_are_422(ojs: OjsClient) -> None:
    for policy, field in (
        ({"max_attempts": -1}, "max_attempts"),
        ({"backoff_coefficient": 0.5}, "backoff_coefficient"),
        ({"initial_interval": "1s"}, "initial_interval"),
        ({"jitter": "yes"}, "jitter"),
        ({"on_exhaustion": "shout"}, "on_exhaustion"),
        ({"max_interval": "PT0.1S"}, "max_interval"),
    ):
        body = {"type": "a.b", "args": [], "options": {"retry": policy}}
        error = await ojs.refused("POST", "/jobs", body, 422, "invalid_request")
        assert error["type"] == "validation_error"
        assert field in error["message"]


async def test_malformed_requests_are_rejected(ojs: OjsClient) -> None:
    for content, kind, status, code in (
        (b"", "application/json", 400, "invalid_payload"),
        (b"{", "application/json", 400, "invalid_payload"),
        (b"[]", "application/openjobspec+json; charset=utf-8", 400, "invalid_payload"),
        (b'{"a": 1}', "text/plain", 400, "invalid_request"),
        (b'{"type": "a.b", "args": ["' + b"x" * 1_100_000 + b'"]}', "application/json", 413, "payload_too_large"),
    ):
        answer = await ojs.http.post("/ojs/v1/jobs", content=content, headers={"content-type": kind})
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        assert answer.headers["content-type"] == "application/openjobspec+json"
    answer = await ojs.http.post("/ojs/v1/jobs", json={}, headers={"ojs-version": "2.0"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "unsupported")
    await ojs.refused("GET", "/nowhere", None, 404, "not_found")
    await ojs.refused("PUT", "/jobs", {}, 405, "method_not_allowed")
    assert (await ojs.http.request("ASSERT", "/ojs/v1/jobs")).status_code >= 400


async def test_a_client_that_accepts_only_plain_json_gets_that_media_type(ojs: OjsClient) -> None:
    headers = {"accept": "application/json", "x-request-id": "my-request"}
    answer = await ojs.http.get("/ojs/manifest", headers=headers)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"] == "my-request"
    assert answer.json()["conformance_level"] == 4


async def test_a_duplicate_id_is_rejected(ojs: OjsClient) -> None:
    body = {"type": "a.b", "args": [], "id": OLD}
    assert (await ojs.ask("POST", "/jobs", body, 201))["job"]["id"] == OLD
    error = await ojs.refused("POST", "/jobs", body, 409, "duplicate")
    assert error["details"]["existing_job_id"] == OLD


async def test_a_job_is_cancelled_from_every_live_state_and_only_once(ojs: OjsClient) -> None:
    waiting, later = await ojs.push(), await ojs.push(scheduled_at="+PT1H")
    held, active = await ojs.push(pending=True), await ojs.push(queue="busy")
    await ojs.fetch("busy")
    for job, before in ((waiting, "available"), (later, "scheduled"), (held, "pending"), (active, "active")):
        found = (await ojs.ask("DELETE", f"/jobs/{job['id']}"))["job"]
        assert (found["state"], found["previous_state"]) == ("cancelled", before)
        assert "cancelled_at" in found
        assert "completed_at" not in found
        await ojs.refused("DELETE", f"/jobs/{job['id']}", None, 409, "conflict")
    assert (await ojs.get(active))["attempt"] == 1
    assert (await ojs.ack(active, status=409))["error"]["code"] == "conflict"
    await ojs.refused("DELETE", f"/jobs/{OLD}", None, 404, "not_found")


async def test_a_pending_job_waits_until_it_is_activated(ojs: OjsClient) -> None:
    job = await ojs.push(pending=True)
    assert job["state"] == "pending"
    await ojs.pass_time(days=400)
    assert await ojs.fetch() == []
    found = (await ojs.ask("POST", f"/jobs/{job['id']}/activate"))["job"]
    assert found["state"] == "available"
    assert found["activated_at"]
    await ojs.refused("POST", f"/jobs/{job['id']}/activate", None, 409, "conflict")
    assert (await ojs.one())["id"] == job["id"]


async def test_a_job_is_scheduled_until_its_time_and_an_expired_job_never_starts(ojs: OjsClient) -> None:
    soon, past = await ojs.push(scheduled_at="+PT5S"), await ojs.push(delay_until="2020-01-01T00:00:00Z")
    short, long = await ojs.push(expires_at="+PT2S"), await ojs.push(expires_at="2099-12-31T23:59:59Z")
    assert [job["state"] for job in (soon, past, short, long)] == ["scheduled", "available", "available", "available"]
    assert long["expires_at"] == "2099-12-31T23:59:59Z"
    assert ojs.clock is not None
    await ojs.pass_time(seconds=3)
    late = await ojs.get(short)
    assert late["state"] == "discarded"
    assert "completed_at" not in late
    assert [job["id"] for job in await ojs.fetch(count=10)] == [past["id"], long["id"]]
    await ojs.pass_time(seconds=3)
    assert await ojs.state(soon) == "available"
    assert (await ojs.one())["id"] == soon["id"]


async def test_a_batch_is_inserted_completely_and_in_order(ojs: OjsClient) -> None:
    listed = [{"type": f"a.t{n % 7}", "args": [n]} for n in range(250)]
    found = await ojs.ask("POST", "/jobs/batch", {"jobs": listed}, 201)
    assert found["count"] == 250
    assert [job["args"] for job in found["jobs"]] == [[n] for n in range(250)]
    assert [job["args"][0] for job in await ojs.fetch(count=250)] == [*range(250)]
    refused: list[dict[str, Any]] = [{"jobs": []}, {"jobs": {}}, {}]
    for wrong in refused:
        await ojs.refused("POST", "/jobs/batch", wrong, 400, "invalid_request")


async def test_a_reset_deletes_all_jobs(ojs: OjsClient) -> None:
    job = await ojs.push()
    assert await ojs.ask("POST", "/admin/reset", {}) == {"reset": True}
    await ojs.refused("GET", f"/jobs/{job['id']}", None, 404, "not_found")
