"""Exceeded limits of a plan over real HTTP: in problem documents, in the client and in the Open Job Spec."""

from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.conformance.ojs_client import of_app
from tests.engine.harness import ManualWorker, begin, node, publish
from tests.web.serving import data, served
from windlass import Windlass
from windlass.client import AsyncClient
from windlass.engine.orgs import control as orgs
from windlass.engine.orgs import keys, plans, usage
from windlass.engine.workers import remote
from windlass.engine.workers.remote import Fetch
from windlass.errors import QuotaExceeded

OPERATOR = "a-key-of-sixteen-or-more"
WORKFLOW: dict[str, Any] = {"name": "w", "tasks": {"a": {"job": "a.b.v1"}}}


async def limited(app: Windlass, **limits: Any) -> None:
    db = await app.open()
    await plans.put(db, "small", limits)
    await plans.assign(db, "default", "small")


async def test_a_quota_error_names_the_limit_the_usage_and_the_reset_time(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=WORKFLOW)
        await limited(app, executions_per_month=1, runs_at_once=1, steps_per_workflow=1)
        assert (await http.post("/workflows/w/runs", json={})).status_code == 201
        run = await http.post("/workflows/w/runs", json={})
        batch = await http.post("/jobs/batch", json={"jobs": [{"type": "a.b.v1"}] * 2})
        two_steps = WORKFLOW | {"tasks": {"a": {"job": "a.b.v1"}, "b": {"job": "a.b.v1"}}}
        publication = await http.post("/workflows", json=two_steps)
    problem = run.json()
    assert (run.status_code, problem["code"], problem["limit"], problem["used"]) == (429, "runs_at_once", 1, 1)
    assert run.headers["retry-after"] == "1"
    problem = batch.json()
    assert (batch.status_code, problem["code"], problem["limit"], problem["used"]) == (
        429,
        "executions_per_month",
        1,
        1,
    )
    assert problem["resets_at"].endswith("-01T00:00:00Z")
    assert int(batch.headers["retry-after"]) > 0
    problem = publication.json()
    assert (publication.status_code, problem["code"], problem["used"]) == (402, "steps_per_workflow", 2)
    assert "retry-after" not in publication.headers


async def test_a_webhook_request_over_the_limit_is_429(app: Windlass) -> None:
    async with served(app) as http:
        published = data(await http.post("/workflows", json=WORKFLOW | {"trigger": "webhook"}), 201)
        address = str(http.base_url).removesuffix("/").removesuffix("/api/v1") + urlsplit(published["webhook_url"]).path
        await limited(app, runs_at_once=1)
        answers = [await http.post(address, json={}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 429]
    assert answers[1].json()["code"] == "runs_at_once"


async def test_the_client_raises_quota_exceeded_with_its_fields(app: Windlass) -> None:
    async with served(app) as http, AsyncClient(str(http.base_url), retries=0) as client:
        await limited(app, executions_per_month=1)
        await client.jobs.submit("a.b.v1")
        with pytest.raises(QuotaExceeded, match="has used 1 of 1 executions") as refused:
            await client.jobs.submit("a.b.v1")
    error = refused.value
    assert (error.code, error.limit, error.used) == ("executions_per_month", 1, 1)
    assert error.resets_at is not None
    assert error.retry_after is not None


async def test_open_job_spec_clients_get_quota_errors_in_their_own_format(app: Windlass) -> None:
    await limited(app, executions_per_month=1, schedules=False)
    async with of_app(app) as ojs:
        await ojs.push()
        error = await ojs.refused("POST", "/jobs", {"type": "email.send", "args": []}, 429, "quota_exceeded")
        cron = {"name": "hourly", "cron": "0 * * * *", "job_template": {"type": "email.send", "args": []}}
        refused = await ojs.refused("POST", "/cron", cron, 402, "quota_exceeded")
    assert (error["details"]["code"], error["details"]["limit"], error["retryable"]) == (
        "executions_per_month",
        1,
        True,
    )
    assert (refused["details"]["code"], refused["retryable"]) == ("schedules", False)


async def test_the_limits_of_an_org_apply_to_its_keys(app: Windlass) -> None:
    """Callers with the key of an org use a separate database role as soon as there are several orgs."""
    db = await app.open()
    await plans.put(db, "small", {"executions_per_month": 3, "executions_at_once": 2, "workflows": 1})
    await orgs.create(db, "acme", plan="small")
    key = str((await keys.create(db.tenant("acme"), name="ci", role="developer")).key)
    async with served(app, keys=(OPERATOR,)) as http:
        http.headers["x-api-key"] = key
        assert (await http.post("/jobs/batch", json={"jobs": [{"type": "a.b.v1"}] * 3})).status_code == 201
        refused = (await http.post("/jobs", json={"type": "a.b.v1"})).json()
        assert (refused["code"], refused["used"]) == ("executions_per_month", 3)
        assert (await http.post("/workflows", json=WORKFLOW)).status_code == 201
        second = await http.post("/workflows", json=WORKFLOW | {"name": "v"})
        assert (second.status_code, second.json()["code"]) == (402, "workflows")
    isolated, wish = db.database.tenant("acme", isolated=True), Fetch(queues=["default"], count=5, worker="h")
    assert [len((await remote.fetch(isolated, [wish]))[0]) for _ in range(2)] == [2, 0]


async def test_an_org_sees_its_own_usage_and_the_operator_sees_all_usage(app: Windlass) -> None:
    db = await app.open()
    await plans.put(db, "small", {"executions_per_month": 10, "runs_at_once": 3})
    await orgs.create(db, "acme", plan="small")
    key = str((await keys.create(db.tenant("acme"), name="ci", role="viewer")).key)
    await usage.count(db)
    acme = db.tenant("acme")
    await publish(acme, node("a"), node("b"))
    await begin(acme)
    await ManualWorker(acme).take(1)
    await usage.count(db)
    async with served(app, keys=(OPERATOR,)) as http:
        own = data(await http.get("/usage", headers={"x-api-key": key}))
        forbidden = await http.get("/usage/orgs", headers={"x-api-key": key})
        listed = (await http.get("/usage/orgs", params={"limit": 1})).json()
        rest = (await http.get("/usage/orgs", params={"after": listed["next"]})).json()
        assert data(await http.get("/usage/orgs/acme")) == own
        assert data(await http.get("/usage"))["org"] == "default"
        assert (await http.get("/usage/orgs/nobody")).status_code == 404
    assert (own["org"], own["plan"]["name"], own["executions"]) == ("acme", "small", 2)
    assert (own["workflows"], own["runs"], own["executing"]) == (1, 1, 1)
    assert own["history"] == [{"month": own["month"], "executions": 2}]
    assert own["resets_at"].endswith("-01T00:00:00Z")
    assert forbidden.status_code == 403
    assert [row["org"] for row in listed["data"] + rest["data"]] == ["acme", "default"]
