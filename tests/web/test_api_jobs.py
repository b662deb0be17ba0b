"""Jobs over real HTTP: submit, get, list, cancel, retry, delete."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.harness import Fails, ManualWorker
from tests.web.serving import data, fields, problem, served
from windlass import Windlass
from windlass.engine.jobs import control as jobs
from windlass.engine.orgs import control as orgs
from windlass.engine.orgs import keys
from windlass.store import events

JOB: dict[str, Any] = {"type": "shop.mail.v1", "payload": {"to": "alice"}}
OPERATOR = "the-key-of-the-operator"
UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"


async def test_a_job_is_stored_with_all_requested_options(app: Windlass) -> None:
    order: dict[str, Any] = {
        **JOB,
        "queue": "mail",
        "priority": 7,
        "delay": "5m",
        "max_attempts": 9,
        "retry": {"kind": "linear", "base": 2},
        "timeout": 30,
        "idempotency_key": "k",
        "tags": ["a", "b"],
        "meta": {"trace": 1},
    }
    async with served(app) as http:
        made = data(await http.post("/jobs", json=order), 201)
        again = data(await http.post("/jobs", json=order), 200)
        by_header = data(await http.post("/jobs", json=JOB, headers={"idempotency-key": "k"}), 200)
        shown = data(await http.get(f"/jobs/{made['id']}"))
    assert made == again == by_header == shown
    kept = {name: shown[name] for name in order if name not in ("delay", "retry", "timeout")}
    assert kept == {name: value for name, value in order.items() if name in kept}
    assert (shown["timeout"], shown["retry"]["kind"], shown["retry"]["base"]) == ("30s", "linear", 2)
    waits = datetime.fromisoformat(shown["run_at"]) - datetime.fromisoformat(shown["inserted_at"])
    assert waits == timedelta(minutes=5)
    assert (shown["status"], shown["attempt"], shown["finished_at"], shown["run_id"]) == ("pending", 0, None, None)


async def test_omitted_options_default_to_those_of_the_handler(app: Windlass) -> None:
    app.job("shop.mail.v1", queue="mail", max_attempts=5)(lambda: None)
    async with served(app) as http:
        told = data(await http.post("/jobs", json={"type": "shop.mail.v1"}), 201)
        other = data(await http.post("/jobs", json={"type": "other.v1", "run_at": "2030-01-31T12:00:00+01:00"}), 201)
    assert (told["queue"], told["max_attempts"], told["payload"]) == ("mail", 5, {})
    assert (other["queue"], other["max_attempts"], other["run_at"]) == ("default", 3, "2030-01-31T11:00:00Z")


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"type": None}, "type"),
    ({"type": " "}, "type"),
    ({"queue": ""}, "queue"),
    ({"priority": "high"}, "priority"),
    ({"priority": 10**30}, "priority"),
    ({"max_attempts": 0}, "max_attempts"),
    ({"delay": "soon"}, "delay"),
    ({"delay": -1}, "delay"),
    ({"delay": 3e11}, "delay"),
    ({"delay": "1s", "run_at": "2030-01-01T00:00:00Z"}, "run_at"),
    ({"run_at": "2030-01-01T00:00:00"}, "run_at"),
    ({"timeout": 0}, "timeout"),
    ({"retry": {"kind": "soon"}}, "retry.kind"),
    ({"retry": {"base": -1}}, "retry.base"),
    ({"retry": {"bse": 1}}, "retry.bse"),
    ({"idempotency_key": ""}, "idempotency_key"),
    ({"tags": [1]}, "tags.0"),
    ({"tags": [""]}, "tags"),
    ({"meta": []}, "meta"),
    ({"payload": "\x00"}, "body.payload"),
    ({"status": "failed"}, "status"),
]


async def test_invalid_jobs_are_rejected_with_the_field_and_nothing_is_written(app: Windlass) -> None:
    async with served(app) as http:
        for change, field in MISTAKES:
            job = {name: value for name, value in {**JOB, **change}.items() if value is not None}
            assert fields(await http.post("/jobs", json=job)) == [field], change
            [told] = fields(await http.post("/jobs/batch", json={"jobs": [JOB, job]}))
            assert told == (field.replace("body", "body.jobs[1]") if "body" in field else f"jobs.1.{field}"), change
        assert data(await http.get("/jobs")) == []


async def test_extreme_times_and_numbers_cause_no_server_error(app: Windlass) -> None:
    async with served(app) as http:
        for moment in ("9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59Z"):
            answer = await http.post("/jobs", json={**JOB, "run_at": moment})
            assert answer.status_code in (201, 422), answer.text
        endless = '{"type": "a.b.v1", "retry": {"base": 1e999}}'
        answer = await http.post("/jobs", content=endless, headers={"content-type": "application/json"})
        assert fields(answer) == ["retry.base"]


async def test_a_batch_is_inserted_atomically_and_reports_existing_jobs(app: Windlass) -> None:
    async with served(app) as http:
        known = data(await http.post("/jobs", json={**JOB, "idempotency_key": "k"}), 201)["id"]
        batch = [JOB, {**JOB, "idempotency_key": "k"}, {**JOB, "type": "shop.pack.v1"}]
        told = data(await http.post("/jobs/batch", json={"jobs": batch}), 201)
        assert fields(await http.post("/jobs/batch", json={"jobs": []})) == ["jobs"]
        assert fields(await http.post("/jobs/batch", json={"jobs": [{**JOB, "type": "x" * 300}]})) == ["jobs.0.type"]
        listed = data(await http.get("/jobs"))
    assert (told["created"], [job["created"] for job in told["jobs"]]) == (2, [True, False, True])
    assert told["jobs"][1]["id"] == known
    assert [job["id"] for job in listed] == [told["jobs"][2]["id"], told["jobs"][0]["id"], known]


async def test_lists_are_filtered_and_paged(app: Windlass) -> None:
    async with served(app) as http:
        for n in range(3):
            await http.post("/jobs", json={**JOB, "tags": [f"t{n}"]})
        await http.post("/jobs", json={"type": "shop.pack.v1", "queue": "pack", "delay": "1h"})
        worker = await ManualWorker.registered(await app.open())
        [first] = await worker.take(1)

        async def types(**filters: Any) -> list[str]:
            return [job["type"] for job in data(await http.get("/jobs", params=filters))]

        assert len(await types()) == 4
        assert await types(queue="pack") == ["shop.pack.v1"] == await types(type="%.pack.%")
        assert await types(tag="t1") == ["shop.mail.v1"]
        assert await types(status=["running", "success"]) == ["shop.mail.v1"] == await types(status="leased")
        page = (await http.get("/jobs", params={"limit": 3})).json()
        rest = (await http.get("/jobs", params={"limit": 3, "before": page["next"]})).json()
        assert (len(page["data"]), rest["next"], [job["id"] for job in rest["data"]]) == (3, None, [str(first.id)])
        assert fields(await http.get("/jobs", params={"status": "done"})) == ["status"]
        assert fields(await http.get("/jobs", params={"stat": "done"})) == ["stat"]
        assert fields(await http.get("/jobs", params={"type": "shop.\\"})) == ["type"]
        assert fields(await http.get("/jobs", params={"before": "-1", "limit": 0})) == ["before", "limit"]


async def test_a_job_of_a_run_names_its_task_and_is_retried_only_through_the_run(app: Windlass) -> None:
    async with served(app) as http:
        chain = {"name": "chain", "tasks": {"a": {"job": "a"}, "b": {"needs": ["a"], "job": "b", "max_attempts": 1}}}
        await http.post("/workflows", json=chain)
        run = data(await http.post("/workflows/chain/runs"), 201)["run_id"]
        other = data(await http.post("/jobs", json=JOB), 201)["id"]
        await (await ManualWorker.registered(await app.open())).play({"b": Fails("boom", for_good=True)})
        found = data(await http.get("/jobs", params={"run": run}))
        whole = data(await http.get(f"/jobs/{found[0]['id']}"))
        refused = problem(await http.post(f"/jobs/{whole['id']}/retry"), 409)
        assert data(await http.get(f"/jobs/{other}"))["run_id"] is None
    assert [(job["task"], job["index"], job["status"]) for job in found] == [("b", 0, "failed"), ("a", 0, "succeeded")]
    assert (whole["run_id"], whole["task"], whole["attempt"], whole["error"]) == (run, "b", 1, "boom")
    assert [(error["attempt"], error["message"]) for error in whole["errors"]] == [(1, "boom")]
    assert run in refused["detail"]


async def test_cancel_retry_and_delete(app: Windlass) -> None:
    async with served(app) as http:
        job = data(await http.post("/jobs", json=JOB), 201)["id"]
        problem(await http.post(f"/jobs/{job}/retry"), 409)
        assert data(await http.post(f"/jobs/{job}/cancel", json={"reason": "no"}))["status"] == "cancelled"
        problem(await http.post(f"/jobs/{job}/cancel"), 409)
        again = data(await http.post(f"/jobs/{job}/retry"))
        assert (again["status"], again["started_over"]) == ("pending", 1)
        trail = (await http.get(f"/jobs/{job}/events", params={"limit": 2})).json()
        rest = (await http.get(f"/jobs/{job}/events", params={"after": trail["next"]})).json()
        assert (await http.delete(f"/jobs/{job}")).status_code == 204
        for answer in (
            await http.get(f"/jobs/{job}"),
            await http.delete(f"/jobs/{job}"),
            await http.post(f"/jobs/{UNKNOWN}/cancel"),
            await http.get("/jobs/7/events"),
            await http.get(f"/jobs/{UNKNOWN}/logs"),
        ):
            problem(answer, 404)
    assert [event["event"] for event in trail["data"] + rest["data"]] == ["created", "cancelled", "retried"]
    assert (trail["data"][1]["data"], rest["next"]) == ({"reason": "no"}, None)


async def test_a_leased_job_shows_its_lease_and_its_logs_are_paged_and_filtered_by_attempt(app: Windlass) -> None:
    db = await app.open()
    async with served(app) as http:
        id_ = data(await http.post("/jobs", json=JOB), 201)["id"]
        await (await ManualWorker.registered(db)).take(1)
        now = datetime.now(UTC)
        lines = [(UUID(id_), 0, n // 3 + 1, n, now, "INFO", f"line {n}") for n in range(6)]
        async with db.begin() as conn:
            await events.insert_log_lines(conn, lines)
        held = data(await http.get(f"/jobs/{id_}"))
        seen, after = [], None
        while True:
            page = (
                await http.get(f"/jobs/{id_}/logs", params={"limit": 4} | ({"after": after} if after else {}))
            ).json()
            seen += [line["message"] for line in page["data"]]
            after = page["next"]
            if after is None:
                break
        second = data(await http.get(f"/jobs/{id_}/logs", params={"attempt": 2}))
        assert fields(await http.get(f"/jobs/{id_}/logs", params={"after": "x"})) == ["after"]
        assert await jobs.logs(db, UUID(id_)) != []
    assert (held["status"], held["worker"], held["attempt"]) == ("leased", "w1", 1)
    assert held["lease_until"] is not None
    assert seen == [f"line {n}" for n in range(6)]
    assert [line["message"] for line in second] == ["line 3", "line 4", "line 5"]


@pytest.mark.parametrize("org", ["default", "acme"])
async def test_a_key_with_a_label_sees_and_changes_only_jobs_with_that_label(app: Windlass, org: str) -> None:
    db = await app.open()
    if org != "default":
        await orgs.create(db, org)
    made = await keys.create(db.tenant(org), role="admin", name="berlin", label="berlin")
    async with served(app, keys=(OPERATOR,)) as http:
        http.headers["x-windlass-org"] = org
        others = [
            data(await http.post("/jobs", json=JOB | more), 201)["id"]
            for more in ({"idempotency_key": "k"}, {"meta": {"tenant_id": "paris"}})
        ]
        http.headers["x-api-key"] = str(made.key)
        own = data(await http.post("/jobs", json=JOB), 201)
        assert own["meta"] == {"tenant_id": "berlin"}
        for query in ({}, {"status": "pending"}, {"type": "shop.%"}):
            assert [job["id"] for job in data(await http.get("/jobs", params=query))] == [own["id"]]
        for id_ in others:
            for path in (f"/jobs/{id_}", f"/jobs/{id_}/events", f"/jobs/{id_}/logs"):
                problem(await http.get(path), 404)
            problem(await http.post(f"/jobs/{id_}/cancel", json={}), 404)
            problem(await http.delete(f"/jobs/{id_}"), 404)
        assert fields(await http.post("/jobs", json=JOB | {"meta": {"tenant_id": "paris"}})) == ["meta.tenant_id"]
        batch = {"jobs": [JOB, JOB | {"idempotency_key": "k"}]}
        assert "outside the tenant berlin" in problem(await http.post("/jobs/batch", json=batch), 409)["detail"]
        assert len(data(await http.get("/jobs"))) == 1  # nothing of the batch was written
        assert data(await http.post(f"/jobs/{own['id']}/cancel", json={}))["status"] == "cancelled"
        for path in ("/runs", "/queues", "/dead-letters", "/workflows", "/stats", "/keys"):
            assert "use a key of the org without a label" in problem(await http.get(path), 403)["detail"]
